# SPDX-License-Identifier: Apache-2.0
"""`PairwiseJudge`: two questions for each pair and sample, one in each order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from typing import Final, Literal, TypeAlias, final

from posttrain.errors import describe
from posttrain.frozen import FrozenJson, Json
from posttrain.judges.config import JudgeConfig
from posttrain.judges.diagnostics import AGREEMENT, agreement, mean_of
from posttrain.judges.endpoint import JudgeCall, JudgeReplyError
from posttrain.judges.explanation import EXPLAIN, explained_verdict, reasons_schema
from posttrain.judges.group import canonical, group_seed, lone_scores
from posttrain.judges.method import Plan, Settled, message, object_schema
from posttrain.judges.pairwise.schedule import schedule
from posttrain.judges.pairwise.strength import Outcome, bradley_terry, win_rate
from posttrain.judges.rendering import DATA_RULE, Page, Shown
from posttrain.judges.replies import text_of_key
from posttrain.judges.settings import checked_page, criteria_faults, flag_faults, lone_faults
from posttrain.judges.specs import judge_spec
from posttrain.rewards.contract.request import RewardCandidate, RewardGroupRequest
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.metrics.contribution import MetricContribution

__all__ = ["Aggregation", "PairwiseJudge"]

Aggregation: TypeAlias = Literal["bradley_terry", "win_rate"]
"""From pairs to scores; see `posttrain.judges.pairwise.strength`."""

_BODY: Final = "The first response:\n{first}\n\nThe second response:\n{second}"
_ROLE: Final = "You compare two responses to a task. Which stands first is chance and says nothing."
_REMINDER: Final = "Which response is better? Give one JSON object with the key 'winner', whose value is {}."
_INCONSISTENCY: Final = "order_inconsistency"
_SHARES: Final = {"first": 1.0, "second": 0.0, "tie": 0.5}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseJudge:
    """The candidates of a group are compared two at a time, each pair in both orders.

    A pair's outcome is the mean of its two verdicts: a verdict that flips with the order is a tie. The share of pairs
    whose two verdicts differ is the diagnostic ``order_inconsistency``. With several samples an outcome is the mean
    over all of them. Candidates are told apart by what they are, not by where they stand: any order of the same
    candidates is asked about in the same way and gets the same scores.

    The one term is in [0, 1], 0.5 on average over the group.

    Raises:
        RewardConfigError: naming everything that is not valid.
    """

    criteria: str
    """What makes a response the better one."""
    term: str = "preference"
    """Name of the one term."""
    aggregation: Aggregation = "bradley_terry"
    """From pairs to scores."""
    prior: float = 1.0
    """Imagined games of each candidate that hold Bradley-Terry scores back; from 0.1 to 1000."""
    opponents: int | None = None
    """How many others each candidate meets, at least 2, each costing two calls a pair and sample; None: all others."""
    ties: bool = True
    """Whether the judge may call a pair a tie."""
    lone: float | None = None
    """Score of a group of one, which can't be compared, in [0, 1]; None: such a group is a contract error."""
    instructions: str = ""
    """Added to what the judge is told first."""
    template: str | None = None
    """Of the data, with {first}, {second} and, as wanted, {prompt} and {reference}; None: prompt and responses."""
    show_reference: bool = False
    """Whether the default template shows the reference."""
    show_truncation: bool = True
    """Whether the judge is told that a response was cut at its token limit."""
    explain: bool = False
    """Whether the judge writes its reasons into the answer before its verdict; costs tokens."""
    shown: Shown = "fenced"
    """How texts are shown; see `posttrain.judges.rendering`."""
    _page: Page = field(init=False, repr=False, compare=False)
    _system: FrozenJson = field(init=False, repr=False, compare=False)
    _schema: FrozenJson = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is not valid, all at once."""
        page = checked_page(self, _faults(self), body=_BODY, required=("first", "second"))
        object.__setattr__(self, "_page", page)
        object.__setattr__(self, "_system", message("system", self.system))
        object.__setattr__(self, "_schema", self.schema)

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
        """See the class."""
        return (_INCONSISTENCY,)

    @property
    def least_calls(self) -> int:
        """A group of two is one pair, shown in two orders."""
        return 2

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What the judge may answer."""
        return ("first", "second", "tie") if self.ties else ("first", "second")

    @property
    def system(self) -> str:
        """What the judge is told first."""
        criteria = f"What makes a response the better one:\n{self.criteria}"
        parts = [_ROLE, self.instructions, DATA_RULE, criteria, EXPLAIN if self.explain else ""]
        return "\n\n".join(part for part in parts if part)

    @property
    def reminder(self) -> str:
        """The last line of each question."""
        return _REMINDER.format(" or ".join(map(repr, self.verdicts)))

    @property
    def schema(self) -> FrozenJson:
        """JSON schema of the answer."""
        return object_schema(
            {**reasons_schema(explain=self.explain), "winner": {"type": "string", "enum": self.verdicts}}
        )

    def content(self) -> dict[str, Json]:
        """Everything of the judge that decides a question or what its answer means."""
        return {
            "method": "pairwise",
            "term": self.term,
            "aggregation": self.aggregation,
            "prior": float(self.prior),
            "opponents": self.opponents,
            "lone": None if self.lone is None else float(self.lone),
            "system": self.system,
            "reminder": self.reminder,
            "schema": self.schema,
            **self._page.content(),
        }

    def probe_reference(self) -> Json:
        """A reference that a made-up group may have."""
        return "5"

    def plan(self, request: RewardGroupRequest, samples: int) -> Plan:
        """Two calls for each pair and sample: the one order, then the other."""
        if len(request.candidates) == 1:
            scores = lone_scores(self.term, self.lone)
            return Plan(calls=(), settle=lambda _: scores)
        inputs = self._page.shown_inputs(request.context)
        order = canonical(request.candidates)
        pairs = schedule(len(order), self.opponents, group_seed(inputs, request.candidates, order))
        calls = []
        for one, other in pairs:
            left, right = request.candidates[order[one]], request.candidates[order[other]]
            for sample in range(samples):
                calls += [self._call(inputs, left, right, sample), self._call(inputs, right, left, sample)]
        return Plan(calls=calls, settle=partial(self._settle, order, pairs, samples))

    def _call(
        self, inputs: dict[str, str], first: RewardCandidate, second: RewardCandidate, sample: int
    ) -> JudgeCall[float]:
        responses = {"first": first.completion, "second": second.completion}
        cut = [name for name, each in (("first", first), ("second", second)) if each.is_length_truncated]
        user = self._page.render(inputs, responses, cut=cut, reminder=self.reminder)
        return JudgeCall(
            messages=(self._system, message("user", user)),
            parse=partial(
                _share_of_first, self.verdicts, (*inputs.values(), *responses.values()), explain=self.explain
            ),
            key=f"pair {first.trajectory_id!r}, {second.trajectory_id!r}",
            schema=self._schema,
            schema_name="verdict",
            sample=sample,
        )

    def _settle(
        self, order: Sequence[int], pairs: Sequence[tuple[int, int]], samples: int, values: Sequence[float]
    ) -> Settled:
        outcomes, flips, agreements = [], [], []
        for at, (one, other) in enumerate(pairs):
            mine = values[2 * samples * at : 2 * samples * (at + 1)]
            verdicts = [(mine[turn], 1.0 - mine[turn + 1]) for turn in range(0, len(mine), 2)]
            shares = [(forth + back) / 2 for forth, back in verdicts]
            outcomes.append(Outcome(one, other, fsum(shares) / samples))
            flips += [float(forth != back) for forth, back in verdicts]
            agreements += [agreement(shares, 1.0)] if samples > 1 else []
        size = len(order)
        ranked = (
            bradley_terry(size, outcomes, self.prior)
            if self.aggregation == "bradley_terry"
            else win_rate(size, outcomes)
        )
        terms: list[dict[str, float]] = [{} for _ in order]
        for place, score in zip(order, ranked, strict=True):
            terms[place] = {self.term: score}
        means = {_INCONSISTENCY: mean_of(flips), AGREEMENT: mean_of(agreements)}
        notes: dict[str, MetricContribution] = {name: mean for name, mean in means.items() if mean is not None}
        return Settled(terms=terms, diagnostics=notes)


def _share_of_first(verdicts: Sequence[str], shown: Sequence[str], reply: str, *, explain: bool) -> float:
    verdict = explained_verdict(reply, shown, ("winner",), explain=explain)
    winner = text_of_key("winner", verdict["winner"])
    if winner not in verdicts:
        raise JudgeReplyError("off_scale", f"'winner': expected one of {', '.join(verdicts)}, got {describe(winner)}")
    return _SHARES[winner]


def _faults(judge: PairwiseJudge) -> list[str]:
    faults = [*criteria_faults(judge.criteria, judge.term), *flag_faults({"ties": judge.ties})]
    if judge.aggregation not in ("bradley_terry", "win_rate"):
        faults.append(f"aggregation: expected 'bradley_terry' or 'win_rate', got {describe(judge.aggregation)}")
    if type(judge.prior) not in (int, float) or not 0.1 <= judge.prior <= 1e3:
        faults.append(f"prior: expected a number from 0.1 to 1000, got {describe(judge.prior)}")
    if judge.aggregation == "win_rate" and judge.prior != 1.0:
        faults.append("prior: it is that of bradley_terry; win_rate has none")
    if judge.opponents is not None and (type(judge.opponents) is not int or judge.opponents < 2):
        faults.append(f"opponents: expected an int of at least 2, or None for all, got {describe(judge.opponents)}")
    return faults + lone_faults(judge.lone)
