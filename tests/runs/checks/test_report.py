# SPDX-License-Identifier: Apache-2.0
"""The report: its verdict, its exit code, its error, its JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.runs.checks import PreflightReport
from posttrain.runs.checks.credentials import Credentials
from posttrain.runs.checks.report import CHECKS, Check, failed, failed_by, passed, skipped, warned


def _report(*checks: Check) -> PreflightReport:
    return PreflightReport(
        posttrain="0", catalog=None, providers=(), stages={}, data=None, checks=checks, golden=(), seconds=0.0
    )


@pytest.mark.parametrize(
    ("checks", "verdict", "exit_code", "kind"),
    [
        ([passed("catalog"), skipped("data", "none")], "ok", 0, None),
        ([passed("catalog"), warned("light", ["slow"])], "warning", 0, None),
        ([failed("no GPU", ["gpu"]), warned("light", ["slow"])], "failed", 2, RewardConfigError),
        ([failed("data", ["rows"], 3), passed("catalog")], "failed", 3, RewardContractError),
        ([failed("opens", ["503"], 4)], "failed", 4, RewardUnavailableError),
        ([failed("opens", ["503"], 4), failed("data", ["rows"], 3)], "failed", 3, RewardContractError),
        ([failed("golden", ["a", "b"], 3), failed("stage", ["x"])], "failed", 2, RewardConfigError),
    ],
)
def test_the_verdict_over_all(
    checks: list[Check], verdict: str, exit_code: int, kind: type[RewardError] | None
) -> None:
    """The worst check decides; of several failures the most basic one gives the exit code and the kind of error."""
    report = _report(*checks)
    assert (report.verdict, report.exit_code) == (verdict, exit_code)
    if kind is None:
        report.raise_if_failed()
        return
    with pytest.raises(kind, match="preflight failed") as caught:
        report.raise_if_failed()
    assert type(caught.value) is kind
    lines = [f"  {check.name}: {line}" for check in checks if check.verdict == "failed" for line in check.lines]
    assert caught.value.message.splitlines()[1:] == lines


def test_an_error_as_a_check() -> None:
    """A check that raised tells every line of each error, its notes and whom it is about."""
    first = RewardContractError("wrong:\n  one\n  two", provider="p")
    first.add_note("while it was opened")
    check = failed_by("golden", [first, RewardUnavailableError("503")])
    assert check.lines == ("provider 'p': wrong:", "  one", "  two", "while it was opened", "503")
    assert check.exit_code == 3
    assert failed_by("data", [RewardUnavailableError("503"), RewardConfigError("no")]).exit_code == 2


def test_the_json_of_a_report(flight: Callable[..., PreflightReport]) -> None:
    """It is plain JSON with the verdict, and every field of the report."""
    report = flight("sound", "rl.reward_stage.weights.x=1")
    plain = report.to_json()
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["verdict"], plain["exit_code"]) == ("failed", 2)
    assert {check["name"]: check["verdict"] for check in plain["checks"]}["stage"] == "failed"
    assert plain["providers"][0]["identity"]["revision"] == "1"
    assert plain["providers"][0]["source"]["sha256"] == report.providers[0].source.sha256
    assert set(plain) == {"verdict", "exit_code", *PreflightReport.__struct_fields__}


def test_a_mask_over_all_lines() -> None:
    """A secret that stands on several lines is masked as well; the words of the report itself never are."""
    credentials = Credentials({"SIGNING_KEY": "constructs"})
    key = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", "-----END PRIVATE KEY-----", "constructs"]
    (check,) = _report(failed("constructs", key)).masked(credentials).checks
    assert (check.name, check.lines) == ("constructs", ("[a private key]", "[value of SIGNING_KEY]"))


def test_every_check_is_documented(repository: Path) -> None:
    """The page for users has a row for each check, in the order of the report."""
    page = (repository / "docs" / "preflight.md").read_text()
    assert re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) == list(CHECKS)
