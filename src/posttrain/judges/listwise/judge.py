# SPDX-License-Identifier: Apache-2.0
"""`ListwiseJudge`: one question for each sample, with every candidate of the group in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from typing import Final, Literal, TypeAlias, final

from posttrain.errors import describe
from posttrain.frozen import FrozenJson, Json
from posttrain.judges.config import JudgeConfig
from posttrain.judges.diagnostics import AGREEMENT, agreement, mean_of
from posttrain.judges.endpoint import JudgeCall
from posttrain.judges.explanation import EXPLAIN, explained_verdict, reasons_schema
from posttrain.judges.group import canonical, group_seed, lone_scores
from posttrain.judges.listwise.ranks import checked_ranks, rank_scores
from posttrain.judges.method import Plan, Settled, message, object_schema
from posttrain.judges.rendering import DATA_RULE, Page, Shown, mark_of
from posttrain.judges.replies import number_in, whole_number_in
from posttrain.judges.scale import number_schema, scale_faults, scale_words
from posttrain.judges.settings import checked_page, criteria_faults, flag_faults, lone_faults
from posttrain.judges.shuffle import shuffled
from posttrain.judges.specs import judge_spec
from posttrain.rewards.contract.request import RewardGroupRequest
from posttrain.rewards.contract.spec import RewardProviderSpec

__all__ = ["Ask", "ListwiseJudge"]

Ask: TypeAlias = Literal["scores", "ranks"]
"""Whether the judge gives each candidate a score on the scale, or its rank."""

_BODY: Final = "The responses:\n\n{responses}"
_ROLE: Final = "You judge several responses to a task side by side. Their order and their labels are chance."
_REMINDER: Final = "Give one JSON object that has each label exactly once as a key: {}. The value is {}."
_RANKS: Final = "the rank of that response, 1 for the best, 2 for the next, and so on"
_NO_TIES: Final = "; no two share a rank"
_LABEL_DIGITS: Final = 4


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ListwiseJudge:
    """All candidates of a group are shown at once, shuffled, under labels that say nothing.

    Shuffle and labels come from the content of the group and the sample's index, so that a question repeats exactly,
    and no completion can name its own label. The answer has exactly one score or rank for each label; any other is
    refused and asked for again within the budget. With several samples each has its own shuffle, and a score is the
    mean over all of them.

    The one term holds the raw score, or for ranks the share of the others that stand below, in [0, 1].

    Raises:
        RewardConfigError: naming everything that is not valid.
    """

    criteria: str
    """What makes a response the better one."""
    term: str = "preference"
    """Name of the one term."""
    ask: Ask = "scores"
    """What the judge gives each candidate."""
    scale: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest score, both allowed; not for ranks."""
    whole: bool = False
    """Whether only whole numbers are scores."""
    ties: bool = True
    """Whether candidates may share a rank; not for scores, which may always be equal."""
    lone: float | None = None
    """Score of a group of one where ranks are asked for, in [0, 1]; None: such a group is a contract error. Not for
    scores: one candidate can be scored."""
    instructions: str = ""
    """Added to what the judge is told first."""
    template: str | None = None
    """Of the data, with {responses} and, as wanted, {prompt} and {reference}; None: prompt and responses."""
    show_reference: bool = False
    """Whether the default template shows the reference."""
    show_truncation: bool = True
    """Whether the judge is told that a response was cut at its token limit."""
    explain: bool = False
    """Whether the judge writes its reasons into the answer before the numbers; costs tokens."""
    shown: Shown = "fenced"
    """How texts are shown; see `posttrain.judges.rendering`."""
    _page: Page = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is not valid, all at once."""
        page = checked_page(self, _faults(self), body=_BODY, required=("responses",))
        low, high = self.scale
        object.__setattr__(self, "scale", (float(low), float(high)))
        object.__setattr__(self, "_page", page)

    def spec(self, config: JudgeConfig) -> RewardProviderSpec:
        """The whole provider spec of this judge behind that endpoint."""
        return judge_spec(self, config)

    @property
    def terms(self) -> tuple[str, ...]:
        """The one term."""
        return (self.term,)

    @property
    def needs(self) -> tuple[str, ...]:
        """The canonical inputs that stand in the template."""
        return self._page.needs

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """None beyond those of any judge."""
        return ()

    @property
    def least_calls(self) -> int:
        """A group is one call."""
        return 1

    @property
    def system(self) -> str:
        """What the judge is told first."""
        criteria = f"What makes a response the better one:\n{self.criteria}"
        parts = [_ROLE, self.instructions, DATA_RULE, criteria, EXPLAIN if self.explain else ""]
        return "\n\n".join(part for part in parts if part)

    def reminder(self, labels: Sequence[str]) -> str:
        """The last line of the question."""
        if self.ask == "ranks":
            value = _RANKS if self.ties else _RANKS + _NO_TIES
        else:
            value = f"{scale_words(self.scale, whole=self.whole)}, higher for a better response"
        return _REMINDER.format(", ".join(labels), value)

    def schema(self, labels: Sequence[str]) -> FrozenJson:
        """JSON schema of the answer."""
        scale = (1.0, float(len(labels))) if self.ask == "ranks" else self.scale
        value = number_schema(scale, whole=self.whole or self.ask == "ranks")
        return object_schema({**reasons_schema(explain=self.explain), **dict.fromkeys(labels, value)})

    def content(self) -> dict[str, Json]:
        """Everything of the judge that decides a question or what its answer means."""
        return {
            "method": "listwise",
            "term": self.term,
            "ask": self.ask,
            "ties": self.ties,
            "lone": None if self.lone is None else float(self.lone),
            "system": self.system,
            "reminder": self.reminder(["one", "two"]),
            "schema": self.schema(["one", "two"]),
            **self._page.content(),
        }

    def probe_reference(self) -> Json:
        """A reference that a made-up group may have."""
        return "5"

    def plan(self, request: RewardGroupRequest, samples: int) -> Plan:
        """One call for each sample."""
        size = len(request.candidates)
        if size == 1 and self.ask == "ranks":
            scores = lone_scores(self.term, self.lone)
            return Plan(calls=(), settle=lambda _: scores)
        inputs = self._page.shown_inputs(request.context)
        order = canonical(request.candidates)
        seed = group_seed(inputs, request.candidates, order)
        texts = [request.candidates[at].completion for at in order]
        labels = _labels(seed, size, (*inputs.values(), *texts))
        named = dict(zip(labels, order, strict=True))
        calls = [self._call(request, inputs, named, shuffled(labels, f"{seed} {at}"), at) for at in range(samples)]
        return Plan(calls=calls, settle=partial(self._settle, named))

    def _call(
        self,
        request: RewardGroupRequest,
        inputs: Mapping[str, str],
        named: Mapping[str, int],
        labels: Sequence[str],
        sample: int,
    ) -> JudgeCall[dict[str, float]]:
        responses = {label: request.candidates[named[label]].completion for label in labels}
        cut = [label for label in labels if request.candidates[named[label]].is_length_truncated]
        reminder = self.reminder(labels)
        user = self._page.render(inputs, responses, cut=cut, reminder=reminder, joined_as="responses")
        ids = ", ".join(repr(each.trajectory_id) for each in request.candidates)
        return JudgeCall(
            messages=(message("system", self.system), message("user", user)),
            parse=partial(self._scores, labels, (*inputs.values(), *responses.values())),
            key=f"trajectories {ids}",
            schema=self.schema(labels),
            schema_name="scores" if self.ask == "scores" else "ranks",
            sample=sample,
        )

    def _scores(self, labels: Sequence[str], shown: Sequence[str], reply: str) -> dict[str, float]:
        verdict = explained_verdict(reply, shown, labels, explain=self.explain)
        if self.ask == "ranks":
            last = (1.0, float(len(labels)))
            ranks = {label: int(whole_number_in(label, verdict[label], last)) for label in labels}
            return rank_scores(checked_ranks(ranks, ties=self.ties))
        read = whole_number_in if self.whole else number_in
        return {label: read(label, verdict[label], self.scale) for label in labels}

    def _settle(self, named: Mapping[str, int], values: Sequence[Mapping[str, float]]) -> Settled:
        terms: list[dict[str, float]] = [{} for _ in named]
        width = 1.0 if self.ask == "ranks" else self.scale[1] - self.scale[0]
        agreements = []
        for label, at in named.items():
            samples = [value[label] for value in values]
            terms[at] = {self.term: fsum(samples) / len(samples)}
            agreements += [agreement(samples, width)] if len(samples) > 1 else []
        steady = mean_of(agreements)
        return Settled(terms=terms, diagnostics={} if steady is None else {AGREEMENT: steady})


def _labels(seed: str, size: int, texts: Sequence[str]) -> list[str]:
    """One label for each candidate, none like another, none in a text."""
    labels: list[str] = []
    for at in range(size):
        mark = mark_of("label", seed, str(at), absent=(*texts, *labels), length=_LABEL_DIGITS)
        labels.append(f"r{mark}")
    return labels


def _faults(judge: ListwiseJudge) -> list[str]:
    faults = [*criteria_faults(judge.criteria, judge.term), *flag_faults({"ties": judge.ties, "whole": judge.whole})]
    if judge.ask not in ("scores", "ranks"):
        faults.append(f"ask: expected 'scores' or 'ranks', got {describe(judge.ask)}")
    faults += [f"scale: {fault}" for fault in scale_faults(judge.scale, whole=judge.whole is True)]
    if judge.ask == "ranks" and (judge.whole or judge.scale != (0.0, 1.0)):
        faults.append("scale and whole: they are those of scores; ranks have none")
    if judge.ask == "scores" and (not judge.ties or judge.lone is not None):
        faults.append("ties and lone: they are those of ranks; scores may be equal, and a group of one can be scored")
    return faults + lone_faults(judge.lone)
