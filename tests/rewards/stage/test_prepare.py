# SPDX-License-Identifier: Apache-2.0
"""Providers are chosen and constructed before any batch: collisions and broken factories are found there, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.stage.prepare import construct, select
from posttrain.rewards.stage.worker import RewardWorker


def _score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": 1.0})


def _spec(*terms: str, **fields: Any) -> RewardProviderSpec:
    made: dict[str, Any] = {
        "factory": functools.partial(map_candidates, _score),
        "revision": "1",
        "terms": terms or ("task",),
    }
    return RewardProviderSpec(**{**made, **fields})


CATALOG = RewardCatalog({"a": _spec("quality", "style"), "b": _spec("style", "task"), "c": _spec("length")})


@pytest.mark.parametrize(
    ("names", "chosen"),
    [("a", ("a",)), (["a"], ("a",)), (("c", "a"), ("c", "a")), (["c", "constant", "b"], ("c", "constant", "b"))],
)
def test_providers_are_chosen_in_the_order_asked_for(names: Any, chosen: tuple[str, ...]) -> None:
    """One name or several, custom and built-in ones mixed; specs and identities follow that order."""
    selection = select(CATALOG, names)
    assert selection.names == chosen
    assert selection.specs == tuple(CATALOG[name] for name in chosen)
    assert [each.provider for each in selection.identities] == list(chosen)


@pytest.mark.parametrize("names", [[], ()], ids=repr)
def test_at_least_one_provider_is_chosen(names: Any) -> None:
    """A run without a reward is a mistake."""
    with pytest.raises(RewardConfigError, match=r"^reward: expected the name of a provider or several, got none$"):
        select(CATALOG, names)


@pytest.mark.parametrize("names", [None, 5, {"a", "c"}, {"a": 1.0}, iter(["a"])], ids=lambda it: type(it).__name__)
def test_names_come_in_an_order(names: Any) -> None:
    """What is no name and no list of names is refused, a set too: its order differs from process to process."""
    with pytest.raises(RewardConfigError, match=r"^reward: expected the name of a provider or a list of names, got "):
        select(CATALOG, names)


def test_names_are_strings() -> None:
    """Everything else in the list is shown with its type."""
    names: Any = ["a", None, 5, ["c"]]
    with pytest.raises(RewardConfigError, match=r"got None, 5 \(int\), \['c'\] \(list\)$"):
        select(CATALOG, names)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    """Nearest name first, then all there are."""
    with pytest.raises(RewardConfigError, match=r"^no provider is named 'nonemty'; did you mean 'nonempty'\?"):
        select(CATALOG, ["a", "nonemty"])


def test_a_provider_is_chosen_once() -> None:
    """A name that stands again is named once, however often it stands."""
    with pytest.raises(RewardConfigError, match="the selected providers collide") as caught:
        select(CATALOG, ["c", "a", "c", "a", "c"])
    assert caught.value.message.splitlines()[1:] == [
        "  provider 'a' is selected twice",
        "  provider 'c' is selected twice",
    ]


def test_a_term_has_one_owner() -> None:
    """Every term that two chosen providers declare is named with both, beside a name that stands twice."""
    catalog = RewardCatalog({"a": _spec("x", "y"), "b": _spec("y", "z"), "c": _spec("z", "x"), "d": _spec("other")})
    with pytest.raises(RewardConfigError, match="the selected providers collide") as caught:
        select(catalog, ["a", "b", "c", "d", "d"])
    assert caught.value.message.splitlines()[1:] == [
        "  provider 'd' is selected twice",
        "  term 'y' is declared by both 'a' and 'b': rename it in one of them",
        "  term 'z' is declared by both 'b' and 'c': rename it in one of them",
        "  term 'x' is declared by both 'a' and 'c': rename it in one of them",
    ]
    assert select(catalog, ["a", "d"]).names == ("a", "d")


def test_collisions_are_found_when_the_worker_is_made() -> None:
    """Before any factory is called, let alone a group scored."""

    def factory() -> Any:
        raise AssertionError("a factory ran though the selection collides")

    catalog = {"a": _spec("task", factory=factory), "b": _spec("task", factory=factory)}
    with pytest.raises(RewardConfigError, match="term 'task' is declared by both 'a' and 'b'"):
        RewardWorker(catalog=catalog, reward=["a", "b"], group_size=2)


def test_a_provider_is_made_by_one_call_of_its_factory() -> None:
    """Construction calls the factory once and none of the provider's methods."""
    calls: list[str] = []

    class Provider:
        def open(self) -> None:
            calls.append("open")

        def close(self) -> None:
            calls.append("close")

        def evaluate(self, request: Any) -> Any:
            calls.append("evaluate")

    spec = _spec(factory=Provider)
    prepared = construct("mine", spec)
    assert (prepared.name, prepared.spec, type(prepared.provider)) == ("mine", spec, Provider)
    assert calls == []
    assert construct("mine", spec).provider is not prepared.provider


class _Wordless(Exception):  # noqa: N818  # a name that says what it does
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("TOKEN"), "the factory raised KeyError: 'TOKEN'"),
        (RewardConfigError("no endpoint"), "the factory raised RewardConfigError: no endpoint"),
        (_Wordless(), "the factory raised _Wordless: <unprintable: RuntimeError>"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_factory_that_raises_is_named(error: Exception, text: str) -> None:
    """The provider's name, the kind of error and its text are given, and the cause is kept in a form that travels."""

    def factory() -> Any:
        raise error

    with pytest.raises(RewardConfigError, match="the factory raised") as caught:
        construct("mine", _spec(factory=factory))
    assert str(caught.value) == f"provider 'mine': {text}"
    assert caught.value.__cause__ is error
    assert caught.value.cause_type == f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_a_factory_passes_through(kind: type[BaseException]) -> None:
    """It is nobody's mistake in the catalog."""

    def factory() -> Any:
        raise kind("stop")

    with pytest.raises(kind, match="stop"):
        construct("mine", _spec(factory=factory))


def _evaluate(self: Any, request: Any) -> Any:
    raise NotImplementedError


async def _async(self: Any, request: Any) -> Any:
    raise NotImplementedError


def _life(self: Any) -> None:
    raise NotImplementedError


async def _async_life(self: Any) -> None:
    raise NotImplementedError


def _made(**attributes: Any) -> Any:
    """An instance of a fresh class with these methods and attributes."""
    return type("Mine", (), attributes)()


BROKEN: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "nothing": (lambda: None, ["it has no evaluate(request) method"]),
    "an object": (_made, ["it has no evaluate(request) method"]),
    "a value": (lambda: _made(evaluate=1.0), ["it has no evaluate(request) method"]),
    "a scorer": (
        lambda: _score,
        ["it has no evaluate(request) method; lift a function of one candidate with map_candidates"],
    ),
    "the class": (
        lambda: type("Mine", (), {"evaluate": _evaluate}),
        ["it is a class: the factory has to return an instance"],
    ),
    "async evaluate": (
        lambda: _made(evaluate=_async),
        ["its evaluate is async: evaluate is a synchronous barrier, and may be concurrent inside"],
    ),
    "no argument": (
        lambda: _made(evaluate=lambda self: None),
        ["its evaluate takes (), expected (request)"],
    ),
    "two arguments": (
        lambda: _made(evaluate=lambda self, completions, references: None),
        ["its evaluate takes (completions, references), expected (request)"],
    ),
    "keyword only": (
        lambda: _made(evaluate=lambda self, *, request: None),
        ["its evaluate takes (*, request), expected (request)"],
    ),
    "open alone": (
        lambda: _made(evaluate=_evaluate, open=_life),
        ["it has open() alone: a managed provider has both open() and close()"],
    ),
    "close alone": (
        lambda: _made(evaluate=_evaluate, close=_life),
        ["it has close() alone: a managed provider has both open() and close()"],
    ),
    "async life": (
        lambda: _made(evaluate=_evaluate, open=_async_life, close=_async_life),
        ["its open is async: write it as a plain function", "its close is async: write it as a plain function"],
    ),
    "several at once": (
        lambda: _made(evaluate=_async, open=_async_life),
        [
            "its evaluate is async: evaluate is a synchronous barrier, and may be concurrent inside",
            "it has open() alone: a managed provider has both open() and close()",
            "its open is async: write it as a plain function",
        ],
    ),
    "an older scope": (
        lambda: _made(scope="trajectory", evaluate=_evaluate),
        ["it has a scope or mode, as in the older pointwise contract: docs/migrating.md shows how to move it over"],
    ),
    "an older mode": (
        lambda: _made(mode="sync", evaluate=_evaluate),
        ["it has a scope or mode, as in the older pointwise contract: docs/migrating.md shows how to move it over"],
    ),
}


@pytest.mark.parametrize(("make", "faults"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_provider_is_refused_when_it_is_made(make: Callable[[], Any], faults: list[str]) -> None:
    """The provider's name, what the factory made and every fault with its fix stand in one error."""
    with pytest.raises(RewardConfigError, match=r"^provider 'mine': the factory made .*:\n") as caught:
        construct("mine", _spec(factory=make))
    assert [line.strip() for line in caught.value.message.splitlines()[1:]] == faults


def test_an_async_factory_is_refused_and_closed() -> None:
    """The coroutine that it gives is not left waiting."""
    waiting: list[Any] = []

    async def make() -> Any:
        raise NotImplementedError

    def factory() -> Any:
        waiting.append(make())
        return waiting[0]

    with pytest.raises(RewardConfigError, match="it is a coroutine: write the factory as a plain function"):
        construct("mine", _spec(factory=factory))
    assert waiting[0].cr_frame is None


@pytest.mark.parametrize(
    "attributes",
    [
        {"evaluate": _evaluate},
        {"evaluate": _evaluate, "open": _life, "close": _life},
        {"evaluate": lambda self, *args, **kwargs: None},
        {"evaluate": lambda self, request, retries=3: None},
        {"evaluate": staticmethod(functools.partial(lambda url, request: None, "u"))},
        {"evaluate": len},
        {"evaluate": _evaluate, "mode": None, "scope": _life, "open": None},
    ],
    ids=["plain", "managed", "variadic", "optional argument", "partial", "built-in", "other attributes"],
)
def test_anything_that_can_be_called_with_a_request_is_a_provider(attributes: dict[str, Any]) -> None:
    """What counts are the methods, not the type, and unrelated attributes do not matter."""
    assert construct("mine", _spec(factory=lambda: _made(**attributes))).name == "mine"


def test_several_unknown_names_are_refused_at_once() -> None:
    """Two typos take one run to find."""
    with pytest.raises(RewardConfigError, match=r"named 'nonemty'; did you mean 'nonempty'") as caught:
        select(RewardCatalog(), ["nonemty", "gsm8", "constant"])
    assert "no provider is named 'gsm8'; did you mean 'gsm8k'?" in str(caught.value)
    assert "named 'constant'" not in str(caught.value)
