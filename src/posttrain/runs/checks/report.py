# SPDX-License-Identifier: Apache-2.0
"""What preflight found: what is selected, what identifies it, and a verdict for each check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError, listing
from posttrain.rewards import ProviderIdentity
from posttrain.rewards.catalog.fingerprint import SourceFingerprint
from posttrain.rewards.metrics.report import Namespace
from posttrain.runs.checks.credentials import Credentials

__all__ = [
    "CHECKS",
    "Check",
    "CheckName",
    "GoldenScore",
    "PreflightReport",
    "ProbedData",
    "Selected",
    "Verdict",
    "failed",
    "failed_by",
    "passed",
    "skipped",
    "warned",
]

CheckName: TypeAlias = Literal[
    "catalog",
    "fresh process",
    "constructs",
    "stage",
    "deterministic",
    "no socket",
    "no process",
    "no GPU",
    "light",
    "no secret",
    "source",
    "machine",
    "outside calls",
    "data",
    "opens",
    "probe",
    "golden",
]
Verdict: TypeAlias = Literal["ok", "warning", "failed", "skipped"]
ExitCode: TypeAlias = Literal[0, 2, 3, 4]

CHECKS: Final[dict[CheckName, str]] = {
    "catalog": "the catalog resolves here, every selected name is in it, and no two selected providers share a term",
    "fresh process": "a fresh process finds the same catalog and constructs the same providers",
    "constructs": "every selected provider can be constructed here",
    "stage": "weights and the other settings of the stage fit the selected providers",
    "deterministic": "two constructions in one process, and those of processes with other hash seeds, are the same",
    "no socket": "construction opens no socket",
    "no process": "construction forks no process and leaves none behind; a program that ended again is a warning",
    "no GPU": "construction touches no GPU",
    "light": "construction is quick and pulls in no heavy package; a warning",
    "no secret": "no identity holds a resolved secret",
    "source": "no source changed while its revision did not; a warning",
    "machine": "this machine has what the providers say that they need: programs, variables, folders, space",
    "outside calls": "how many calls are in flight at services at once; what their providers warn of is a warning",
    "data": "the first rows of the data have what the selected providers need",
    "opens": "managed providers open and close",
    "probe": "providers that offer one real call for the sake of trying got an answer",
    "golden": "every golden completion is scored",
}
"""Every check, in the order in which they are reported, and what it shows."""


@final
class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check and what came of it."""

    name: CheckName
    verdict: Verdict
    lines: tuple[str, ...] = ()
    """The evidence: of a failure, every offender."""
    exit_code: ExitCode = 0
    """What the shell is told of a failure: 2 config, catalog or construction; 3 data or contract; 4 unavailable."""


@final
class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """One selected provider."""

    identity: ProviderIdentity
    used_for: tuple[Namespace, ...]
    """``train``, ``val`` or both."""
    needs: tuple[str, ...]
    terms: tuple[str, ...]
    diagnostics: tuple[str, ...]
    groups_in_flight: int
    """What it declares, or less where the config says so."""
    source: SourceFingerprint


@final
class ProbedData(msgspec.Struct, frozen=True, kw_only=True):
    """The data that the run will draw from."""

    title: str
    rows: int
    probed: int
    """How many of the first rows were looked at."""
    fingerprint: str


@final
class GoldenScore(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider gave one golden completion."""

    provider: str
    row: str
    """The row's stable id."""
    completion: str
    """How the completion begins."""
    terms: dict[str, float]


@final
class PreflightReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that preflight has to tell. No text in it holds a secret that is known."""

    posttrain: str
    """Version of Posttrain."""
    catalog: str | None
    """Normalised path; None: the built-ins alone, or it could not be resolved."""
    providers: tuple[Selected, ...]
    """Empty where the catalog could not be resolved in this process."""
    stages: dict[Namespace, str]
    """SHA-256 of the stage identity, of training and of validation."""
    data: ProbedData | None
    """None: no data is configured, or its probe failed."""
    checks: tuple[Check, ...]
    golden: tuple[GoldenScore, ...]
    seconds: float

    @property
    def verdict(self) -> Verdict:
        """The worst of all checks; one that was skipped counts as what stood in its way."""
        found = {check.verdict for check in self.checks}
        return "failed" if "failed" in found else "warning" if "warning" in found else "ok"

    @property
    def exit_code(self) -> ExitCode:
        """0: a run may begin, warnings or not; else the code of the most basic failure: 2, 3 or 4."""
        return min((check.exit_code for check in self.checks if check.verdict == "failed"), default=0)

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON, with the verdict and the exit code."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {"verdict": self.verdict, "exit_code": self.exit_code, **plain}

    def masked(self, credentials: Credentials) -> PreflightReport:
        """The same without what `credentials` knows to be secret, in whatever text it stands."""

        def clean(value: Any, kind: Any) -> Any:
            return msgspec.convert(credentials.masked_json(msgspec.to_builtins(value)), kind)

        return msgspec.structs.replace(
            self,
            catalog=clean(self.catalog, str | None),
            providers=clean(self.providers, tuple[Selected, ...]),
            data=clean(self.data, ProbedData | None),
            # Names and verdicts are words of ours, which a secret may happen to be.
            checks=tuple(
                # All lines at once: a key may stand on several.
                msgspec.structs.replace(check, lines=tuple(credentials.masked("\n".join(check.lines)).splitlines()))
                for check in self.checks
            ),
            golden=clean(self.golden, tuple[GoldenScore, ...]),
        )

    def raise_if_failed(self) -> None:
        """Let a run begin only if every check passed; warnings do.

        Raises:
            RewardConfigError: a check of config, catalog or construction failed.
            RewardContractError: the data, or a provider that was probed, broke the contract.
            RewardUnavailableError: an outside service could not answer.

        Each names every check that failed.
        """
        wrong = [check for check in self.checks if check.verdict == "failed"]
        if not wrong:
            return
        lines = [f"{check.name}: {line}" for check in wrong for line in check.lines]
        kinds: dict[int, type[RewardError]] = {2: RewardConfigError, 3: RewardContractError, 4: RewardUnavailableError}
        raise kinds[self.exit_code](f"preflight failed:\n{listing(lines, limit=len(lines))}")


def passed(name: CheckName, *lines: str) -> Check:
    """A check that found nothing wrong."""
    return Check(name=name, verdict="ok", lines=lines)


def skipped(name: CheckName, why: str) -> Check:
    """A check that could not be made, or that nobody asked for."""
    return Check(name=name, verdict="skipped", lines=(why,))


def warned(name: CheckName, lines: Iterable[str]) -> Check:
    """A check that found what a person should look at."""
    return Check(name=name, verdict="warning", lines=tuple(lines))


def failed(name: CheckName, lines: Iterable[str], exit_code: ExitCode = 2) -> Check:
    """A check that found what must not be."""
    return Check(name=name, verdict="failed", lines=tuple(lines), exit_code=exit_code)


def failed_by(name: CheckName, errors: Sequence[RewardError]) -> Check:
    """A check that raised; the most basic of its errors decides what the shell is told."""
    lines = [line for error in errors for line in _told(error)]
    codes: list[ExitCode] = [
        2 if isinstance(error, RewardConfigError) else 4 if isinstance(error, RewardUnavailableError) else 3
        for error in errors
    ]
    return failed(name, lines, min(codes))


def _told(error: RewardError) -> list[str]:
    return [*str(error).splitlines(), *getattr(error, "__notes__", ())]
