# SPDX-License-Identifier: Apache-2.0
"""Several providers at once: each sees its own inputs, their terms are weighted into one reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rewards import RewardContext, RewardGroupRequest, RewardGroupResult, RewardProviderSpec, RewardWorker
from posttrain.schema import Observation, Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
ReadOff = Callable[..., RewardGroupResult]

PROMPT = [{"role": "user", "content": "Count to three."}]
REFERENCE = {"answer": [1, 2, 3]}


def _batch() -> list[Trajectory]:
    observation = Observation(id="g", prompt=PROMPT, reference=REFERENCE)
    return [
        Trajectory(trajectory_id=f"g/{index}", group_id="g", obs=observation, completion=text)
        for index, text in enumerate(['{"a": 1, "b": 10, "c": 4}', '{"a": 3, "b": 20, "c": 2}'])
    ]


def test_terms_of_all_providers_are_weighted(spec_of: Spec) -> None:
    """Raw terms are stored, their weighted sum is final; a term without a weight counts once, one with 0 not at all."""
    catalog = {"one": spec_of("a"), "two": spec_of("b", "c")}
    worker = RewardWorker(
        catalog=catalog,
        reward=["two", "one"],
        group_size=2,
        weights={"b": 0.0, "c": -0.5},
        estimator="group_mean",
    )
    batch = _batch()
    worker.score(batch)
    # 1 - 0.5 · 4 and 3 - 0.5 · 2: mean 0.5.
    assert [each.reward for each in batch] == [
        {"b": 10.0, "c": 4.0, "a": 1.0, "final": -1.0},
        {"b": 20.0, "c": 2.0, "a": 3.0, "final": 2.0},
    ]
    assert [each.advantage for each in batch] == [-1.5, 1.5]


@pytest.mark.parametrize(("weight", "finals"), [(1.0, [1.0, 3.0]), (-2.0, [-2.0, -6.0]), (0.0, [0.0, 0.0])])
def test_a_single_term_keeps_its_raw_value(spec_of: Spec, weight: float, finals: list[float]) -> None:
    """With one term too the weight is in ``final`` alone."""
    worker = RewardWorker(catalog={"one": spec_of("a")}, reward="one", group_size=2, weights={"a": weight})
    batch = _batch()
    worker.score(batch)
    assert [each.reward for each in batch] == [{"a": 1.0, "final": finals[0]}, {"a": 3.0, "final": finals[1]}]


def test_each_provider_sees_what_it_declared(spec_of: Spec, read_off: ReadOff) -> None:
    """An input that a provider did not declare is None for it, whatever the others need."""
    seen: dict[str, RewardContext] = {}

    def watching(name: str, *needs: str) -> RewardProviderSpec:
        def evaluate(request: RewardGroupRequest) -> Any:
            seen[name] = request.context
            return read_off(request, name)

        return spec_of(name, evaluate=evaluate, needs=needs)

    catalog = {"none": watching("a"), "prompt": watching("b", "prompt"), "both": watching("c", "reference", "prompt")}
    RewardWorker(catalog=catalog, reward=("none", "prompt", "both"), group_size=2).score(_batch())
    frozen_prompt, frozen_reference = ({"role": "user", "content": "Count to three."},), {"answer": (1, 2, 3)}
    assert seen == {
        "a": RewardContext(),
        "b": RewardContext(prompt=frozen_prompt),
        "c": RewardContext(prompt=frozen_prompt, reference=frozen_reference),
    }


def test_what_one_provider_does_to_its_inputs_stays_with_it(spec_of: Spec, read_off: ReadOff) -> None:
    """Even a provider that gets around the freezing changes neither the trajectories nor what another provider sees."""
    seen: list[Any] = []

    def vandal(request: RewardGroupRequest) -> Any:
        reference: Any = request.context.reference
        dict.__setitem__(reference, "answer", "spoilt")
        return read_off(request, "a")

    def victim(request: RewardGroupRequest) -> Any:
        seen.append(request.context.reference)
        return read_off(request, "b")

    catalog = {
        "vandal": spec_of("a", evaluate=vandal, needs=("reference",)),
        "victim": spec_of("b", evaluate=victim, needs=("reference",)),
    }
    batch = _batch()
    RewardWorker(catalog=catalog, reward=("vandal", "victim"), group_size=2).score(batch)
    assert seen == [{"answer": (1, 2, 3)}]
    assert batch[0].obs.reference is REFERENCE
    assert REFERENCE == {"answer": [1, 2, 3]}


@pytest.mark.parametrize("name", ["vandal", "other"])
def test_an_attempt_to_change_an_input_fails(spec_of: Spec, name: str) -> None:
    """Writing to an input in the ordinary way is the provider's fault, and named as such."""

    def evaluate(request: RewardGroupRequest) -> Any:
        reference: Any = request.context.reference
        if name == "vandal":
            reference["answer"] = "spoilt"
        reference["answer"].append(4)

    worker = RewardWorker(
        catalog={name: spec_of("a", evaluate=evaluate, needs=("reference",))}, reward=name, group_size=2
    )
    with pytest.raises(
        RewardContractError, match=rf"^provider '{name}', group 'g': raised (TypeError|AttributeError): "
    ):
        worker.score(_batch())


def test_providers_share_no_term(spec_of: Spec) -> None:
    """Two providers that declare one term can't be selected together; each collision is named with both."""
    catalog = {"one": spec_of("a", "b", "c"), "two": spec_of("b"), "three": spec_of("c", "d")}
    with pytest.raises(RewardConfigError, match="the selected providers collide") as caught:
        RewardWorker(catalog=catalog, reward=("one", "two", "three"), group_size=2)
    assert caught.value.message.splitlines()[1:] == [
        "  term 'b' is declared by both 'one' and 'two': rename it in one of them",
        "  term 'c' is declared by both 'one' and 'three': rename it in one of them",
    ]
    RewardWorker(catalog=catalog, reward=("two", "three"), group_size=2)


def test_a_provider_is_selected_once(spec_of: Spec) -> None:
    """The same name twice is refused, once for all its repetitions."""
    with pytest.raises(RewardConfigError, match=r"collide:\n  provider 'one' is selected twice$"):
        RewardWorker(catalog={"one": spec_of("a")}, reward=("one", "one", "one"), group_size=2)


def test_a_built_in_can_not_be_overridden(spec_of: Spec) -> None:
    """A catalog adds names; it never changes what a built-in one means."""
    with pytest.raises(RewardConfigError, match="'constant' is a built-in provider and can't be overridden"):
        RewardWorker(catalog={"constant": spec_of("a"), "mine": spec_of("b")}, reward="mine", group_size=2)


def test_final_is_no_term(spec_of: Spec) -> None:
    """The combined reward has its own name, which no provider may declare."""
    with pytest.raises(RewardConfigError, match="term name 'final' is reserved for the framework"):
        spec_of("task", "final")
