# SPDX-License-Identifier: Apache-2.0
"""Training and validation run by one catalog: no second implementation gets in under a name of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.rewards import (
    ProviderExecution,
    ProviderIdentity,
    RewardCandidate,
    RewardCatalog,
    RewardContext,
    RewardProviderResult,
    RewardProviderSpec,
    map_candidates,
)
from posttrain.runs import RLConfig
from posttrain.runs.validation import HeldOutValidation, is_due
from posttrain.runs.validation.same_catalog import check_same_providers
from posttrain.schema import Trajectory

Config = Callable[..., RLConfig]
Rollouts = Callable[..., list[Trajectory]]


def generous(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """A second implementation: everything is perfect."""
    return RewardProviderResult({"task": 1.0})


def second(**fields: Any) -> RewardProviderSpec:
    """It, declared as `rubric` is but for these fields."""
    declared: dict[str, Any] = {"revision": "3", "terms": ("task",), **fields}
    return RewardProviderSpec(factory=lambda: map_candidates(generous), **declared)


def test_the_catalog_of_training_is_accepted(config: Config, rollouts: Rollouts, tmp_path: Path) -> None:
    """A worker that was made from the same config has the same catalog, resolved on its own."""
    with config().worker() as training:
        validation = HeldOutValidation(config(), catalog=training.stage.selection.catalog)
    assert validation.worker.identity == training.identity


def test_a_mapping_is_refused(config: Config) -> None:
    """A plain mapping that redefines a name of the catalog is no catalog of a run."""
    mapping: Any = {"rubric": second()}
    with pytest.raises(RewardConfigError, match=r"expected the run's RewardCatalog, got \{'rubric'"):
        HeldOutValidation(config(), catalog=mapping)


def test_a_catalog_object_without_the_path_is_refused(config: Config, judges: Any) -> None:
    """A catalog that was made in this process could not be resolved again by a later one."""
    own = config().catalog()
    entries = {name: own.spec(name) for name in ("rubric", "half")}
    with pytest.raises(RewardConfigError, match=rf"path: none: .*, the run's is '{judges.path}'"):
        HeldOutValidation(config(), catalog=RewardCatalog(entries))


@pytest.mark.parametrize(
    ("fields", "difference"),
    [
        ({"revision": "4"}, "'rubric', revision: '4', the run's is '3'"),
        ({"semantic_identity": {"model": "m"}}, "'rubric', sha256: '"),
        ({"terms": ("other",)}, r"'rubric', terms: \('other',\), the run's is \('task',\)"),
        ({"needs": ("prompt",)}, r"'rubric', needs: \('prompt',\), the run's is \(\)"),
        ({"diagnostics": ("d",)}, r"'rubric', diagnostics: \('d',\)"),
        ({"execution": ProviderExecution(repeatable=True)}, "'rubric', execution: "),
    ],
)
def test_a_second_implementation_under_the_same_name_is_refused(
    config: Config, judges: Any, fields: dict[str, Any], difference: str
) -> None:
    """Whatever it declares otherwise is told, even when it claims to be of the same path."""
    own = config().catalog()
    forged = RewardCatalog({"rubric": second(**fields), "half": own.spec("half")}, path=judges.path)
    with pytest.raises(RewardConfigError, match=difference) as caught:
        HeldOutValidation(config(), catalog=forged)
    assert "'half'" not in str(caught.value)


def test_names_that_only_one_of_them_has_are_told(config: Config, judges: Any) -> None:
    """Both directions at once."""
    own = config().catalog()
    forged = RewardCatalog({"rubric": own.spec("rubric"), "new": second()}, path=judges.path)
    with pytest.raises(RewardConfigError, match=r"(?s)'half' is in the run's only.*'new' is not in the run's"):
        HeldOutValidation(config(), catalog=forged)


def test_a_perfect_forgery_never_runs(config: Config, rollouts: Rollouts, judges: Any, tmp_path: Path) -> None:
    """A catalog that is given is only compared: what scores is always what the path resolves to."""
    own = config().catalog()
    forged = RewardCatalog({"rubric": second(), "half": own.spec("half")}, path=judges.path)
    validation = HeldOutValidation(config(), catalog=forged)
    result = validation.begin(rollouts("0 0"), 1, tmp_path / "v").complete()
    assert result.metrics["val/reward/final/mean"] == 0.0
    assert judges.calls == ["g0"]


def test_a_name_that_the_catalog_lacks_is_refused(config: Config) -> None:
    """``rl.validation.reward`` selects; it can't bring a provider with it."""
    with pytest.raises(RewardConfigError, match="no provider is named 'rubrics'; did you mean 'rubric'"):
        HeldOutValidation(config("rl.validation.reward=rubrics"))


def test_a_changed_catalog_file_is_another_catalog(config: Config, rollouts: Rollouts, tmp_path: Path) -> None:
    """A file is known by its content: edited since training began, it is not what training runs with."""
    file = tmp_path / "own_rewards.py"
    text = (
        "from functools import partial\n"
        "from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates\n"
        "def score(candidate, context):\n    return RewardProviderResult({'task': 0.0})\n"
        "def catalog():\n    return {'own': RewardProviderSpec(factory=partial(map_candidates, score), revision='1', "
        "terms=('task',))}\n"
    )
    file.write_text(text)
    overrides = ("rl.reward=own", f"rl.reward_catalog={file}:catalog")
    training = config(*overrides).worker()
    file.write_text(text.replace("0.0", "1.0"))
    with pytest.raises(RewardConfigError, match=r"path: '.*own_rewards\.py@sha256:.*', the run's is '"):
        HeldOutValidation(config(*overrides), catalog=training.stage.selection.catalog)


def test_a_recorded_run_is_held_to_every_field(config: Config, judges: Any) -> None:
    """What a run records of its providers has to be what the catalog holds now; every difference is told at once."""
    catalog = config().catalog()
    recorded = [catalog.identity(name) for name in ("rubric", "half")]
    check_same_providers(catalog, recorded)
    others = [
        replace_identity(recorded[0], revision="2", sha256="0" * 64),
        replace_identity(recorded[1], catalog="elsewhere:catalog"),
        ProviderIdentity(judges.path, "gone", "1", "0" * 64),
    ]
    with pytest.raises(RewardConfigError, match="not the one that the run is recorded with") as caught:
        check_same_providers(catalog, others)
    text = str(caught.value)
    assert "'rubric', revision: '3', the run's is '2'" in text
    assert f"'rubric', sha256: '{recorded[0].sha256}', the run's is '{'0' * 64}'" in text
    assert f"'half', catalog: '{judges.path}', the run's is 'elsewhere:catalog'" in text
    assert "'gone' is in the run's catalog only" in text


def replace_identity(identity: ProviderIdentity, **fields: str) -> ProviderIdentity:
    """The identity with other fields."""
    values = {name: getattr(identity, name) for name in ("catalog", "provider", "revision", "sha256")}
    return ProviderIdentity(**{**values, **fields})


@pytest.mark.parametrize(
    ("overrides", "due"),
    [
        # Off by default, whatever else is set.
        ((), []),
        (("rl.validation.interval=2",), []),
        # Once, at the end.
        (("rl.validation.enabled=true",), [5]),
        (("rl.validation.enabled=true", "rl.validation.interval=2"), [2, 4, 5]),
        (("rl.validation.enabled=true", "rl.validation.interval=5"), [5]),
        (("rl.validation.enabled=true", "rl.validation.interval=9"), [5]),
    ],
)
def test_when_a_run_validates(config: Config, overrides: tuple[str, ...], due: list[int]) -> None:
    """After every so many of five steps and after the last, or never."""
    settings = config(*overrides)
    assert [step for step in range(1, 6) if is_due(settings, step, last=step == 5)] == due
