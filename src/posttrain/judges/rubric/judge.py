# SPDX-License-Identifier: Apache-2.0
"""`RubricJudge`: one question for each candidate and sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from typing import Any, Final, final

from posttrain.errors import describe
from posttrain.frozen import FrozenJson, Json
from posttrain.judges.config import JudgeConfig
from posttrain.judges.diagnostics import AGREEMENT, agreement, mean_of
from posttrain.judges.endpoint import JudgeCall
from posttrain.judges.explanation import EXPLAIN, explained_verdict, reasons_schema
from posttrain.judges.method import Plan, Settled, message, object_schema
from posttrain.judges.rendering import DATA_RULE, Page, Shown
from posttrain.judges.replies import number_in, whole_number_in
from posttrain.judges.rubric.item import RubricItem, fold, items_of_row, repeated_ids
from posttrain.judges.scale import number_schema, scale_words
from posttrain.judges.settings import checked_page
from posttrain.judges.specs import judge_spec
from posttrain.rewards.contract.names import name_faults
from posttrain.rewards.contract.request import RewardCandidate, RewardGroupRequest
from posttrain.rewards.contract.spec import RewardProviderSpec

__all__ = ["RubricJudge"]

_BODY: Final = "The response to be rated:\n{response}"
_ROLE: Final = "You rate one response to a task, by each item of a rubric, independently of the other items."
_REMINDER: Final = "Rate the response: give one JSON object with the keys {}, each exactly once, and no other key."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RubricJudge:
    """Each candidate is rated by itself on every item of a rubric.

    Without `fold` each item is a term of its own, which holds the raw rating; weights are then those of the run
    (``rl.reward_stage.weights``). With it there is one term of that name: the weighted mean of the ratings, each
    normalised by its scale to [0, 1]. With several samples a rating is the mean over all of them.

    Raises:
        RewardConfigError: naming everything that is not valid.

    Example:
        ::

            judge = RubricJudge(items=[RubricItem("correct", "The answer is right.")], fold="quality")
            spec = judge.spec(JudgeConfig(model="...", revision="1", base_url="http://localhost:8000/v1"))
    """

    items: Sequence[RubricItem] = ()
    """The rubric; with `row_rubric` the items that each row has besides its own."""
    fold: str | None = None
    """Name of the one term; None: each item is a term."""
    row_rubric: str | None = None
    """Field of the reference, a mapping then, that holds the row's own items; needs `fold`. It is not shown as part of
    the reference."""
    instructions: str = ""
    """Added to what the judge is told first."""
    template: str | None = None
    """Of the data, with {response} and, as wanted, {prompt} and {reference}; None: prompt and response."""
    show_reference: bool = False
    """Whether the default template shows the reference."""
    show_truncation: bool = True
    """Whether the judge is told that a response was cut at its token limit."""
    explain: bool = False
    """Whether the judge writes its reasons into the answer before it rates; costs tokens."""
    shown: Shown = "fenced"
    """How texts are shown; see `posttrain.judges.rendering`."""
    _page: Page = field(init=False, repr=False, compare=False)
    _rubric: _Rubric = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is not valid, all at once."""
        page = checked_page(self, _faults(self), body=_BODY, required=("response",))
        object.__setattr__(self, "items", tuple(self.items))
        object.__setattr__(self, "_page", page)
        object.__setattr__(self, "_rubric", _Rubric(self, self.items))

    def spec(self, config: JudgeConfig) -> RewardProviderSpec:
        """The whole provider spec of this judge behind that endpoint."""
        return judge_spec(self, config)

    @property
    def terms(self) -> tuple[str, ...]:
        """The declared terms."""
        return tuple(item.id for item in self.items) if self.fold is None else (self.fold,)

    @property
    def needs(self) -> tuple[str, ...]:
        """The canonical inputs that it reads."""
        row = () if self.row_rubric is None or "reference" in self._page.needs else ("reference",)
        return (*self._page.needs, *row)

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """None beyond those of any judge."""
        return ()

    @property
    def least_calls(self) -> int:
        """One candidate is one call."""
        return 1

    def content(self) -> dict[str, Json]:
        """Everything of the judge that decides a question or what its answer means."""
        return {
            "method": "rubric",
            "items": [item.content() for item in self.items],
            "fold": self.fold,
            "row_rubric": self.row_rubric,
            "system": _system(self.items, self.instructions, explain=self.explain),
            "reminder": _REMINDER,
            "schema": _schema(self.items, explain=self.explain),
            "explain": self.explain,
            **self._page.content(),
        }

    def probe_reference(self) -> Json:
        """A reference that a made-up group may have."""
        if self.row_rubric is None:
            return "5"
        return {self.row_rubric: [{"id": "right", "text": "The answer is 5."}], "answer": "5"}

    def plan(self, request: RewardGroupRequest, samples: int) -> Plan:
        """One call for each candidate and sample."""
        rubric, context = self._rubric, request.context
        if self.row_rubric is not None:
            rubric = _Rubric(self, items_of_row(context.reference, self.row_rubric, self.items))
        inputs = self._page.shown_inputs(context, without=self.row_rubric)
        calls = [call for candidate in request.candidates for call in rubric.calls(inputs, candidate, samples)]
        return Plan(calls=calls, settle=partial(rubric.settle, samples))


def _faults(judge: RubricJudge) -> list[str]:
    items: object = judge.items
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, RubricItem) for item in items):
        return [f"items: expected a list of RubricItem, got {describe(items)}"]
    faults = [f"items: {fault}" for fault in repeated_ids(items)]
    if not items and judge.row_rubric is None:
        faults.append("items: at least one is needed")
    if judge.fold is not None:
        faults += [f"fold: {fault}" for fault in name_faults("term", [judge.fold])]
    else:
        faults += [
            f"items: {item.id!r} has the weight {item.weight:g}: without fold each item is a term, whose weight is the "
            "run's (rl.reward_stage.weights)"
            for item in items
            if item.weight != 1.0
        ]
        if judge.row_rubric is not None:
            faults.append("row_rubric: items that change from row to row can't be terms: give fold a name")
    if judge.row_rubric is not None and (not isinstance(judge.row_rubric, str) or not judge.row_rubric):
        faults.append(f"row_rubric: expected the name of a field of the reference, got {describe(judge.row_rubric)}")
    return faults


def _system(items: Sequence[RubricItem], instructions: str, *, explain: bool) -> str:
    lines = [
        f"- {item.id} ({scale_words(item.scale, whole=item.whole)}): {' '.join(item.text.split())}" for item in items
    ]
    parts = [_ROLE, instructions, DATA_RULE, "The rubric:\n" + "\n".join(lines), EXPLAIN if explain else ""]
    return "\n\n".join(part for part in parts if part)


def _schema(items: Sequence[RubricItem], *, explain: bool) -> FrozenJson:
    ratings = {item.id: number_schema(item.scale, whole=item.whole) for item in items}
    return object_schema({**reasons_schema(explain=explain), **ratings})


@final
class _Rubric:
    """A judge's rubric, or that of one row, and the questions that are asked by it."""

    def __init__(self, judge: RubricJudge, items: Sequence[RubricItem]) -> None:
        self.judge, self.items = judge, items
        self.page = judge._page  # noqa: SLF001  # the same module
        self.system = message("system", _system(self.items, judge.instructions, explain=judge.explain))
        self.schema = _schema(self.items, explain=judge.explain)
        self.ids = [item.id for item in self.items]
        self.reminder = _REMINDER.format(", ".join([*reasons_schema(explain=judge.explain), *self.ids]))

    def calls(
        self, inputs: Mapping[str, str], candidate: RewardCandidate, samples: int
    ) -> list[JudgeCall[tuple[float, ...]]]:
        """The question about one candidate, for each sample."""
        cut = ("response",) if candidate.is_length_truncated else ()
        responses = {"response": candidate.completion}
        user = self.page.render(inputs, responses, cut=cut, reminder=self.reminder)
        messages = (self.system, message("user", user))
        parse = partial(self.ratings, (*inputs.values(), candidate.completion))
        return [
            JudgeCall(
                messages=messages,
                parse=parse,
                key=f"trajectory {candidate.trajectory_id!r}",
                schema=self.schema,
                schema_name="ratings",
                sample=sample,
            )
            for sample in range(samples)
        ]

    def ratings(self, shown: Sequence[str], reply: str) -> tuple[float, ...]:
        """The rating of each item."""
        verdict = explained_verdict(reply, shown, self.ids, explain=self.judge.explain)
        return tuple([_rating(item, verdict) for item in self.items])

    def settle(self, samples: int, values: Sequence[tuple[float, ...]]) -> Settled:
        """The ratings of every candidate, in turn for each sample, to its terms."""
        terms, agreements = [], []
        for start in range(0, len(values), samples):
            columns = list(zip(*values[start : start + samples], strict=True))
            terms.append(self._terms([fsum(column) / samples for column in columns]))
            if samples > 1:
                pairs = zip(self.items, columns, strict=True)
                agreements += [agreement(column, item.scale[1] - item.scale[0]) for item, column in pairs]
        steady = mean_of(agreements)
        return Settled(terms=terms, diagnostics={} if steady is None else {AGREEMENT: steady})

    def _terms(self, ratings: list[float]) -> dict[str, float]:
        if self.judge.fold is not None:
            return {self.judge.fold: fold(self.items, ratings)}
        return {item.id: rating for item, rating in zip(self.items, ratings, strict=True)}


def _rating(item: RubricItem, verdict: Mapping[str, Any]) -> float:
    read: Callable[[str, object, tuple[float, float]], float] = whole_number_in if item.whole else number_in
    return read(item.id, verdict[item.id], item.scale)
