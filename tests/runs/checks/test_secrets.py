# SPDX-License-Identifier: Apache-2.0
"""A resolved secret in an identity fails preflight, and comes out of it nowhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs.checks import PreflightReport
from posttrain.runs.checks.processes import run_fresh

Flight = Callable[..., PreflightReport]
Found = Callable[[PreflightReport], dict[str, tuple[str, ...]]]

SECRET = "tok-TEST-111-abcdefgh"  # noqa: S105  # made up, to be looked for
CATALOG = Path(__file__).parent / "providers" / "secretive.py"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge's key is in the environment."""
    monkeypatch.setenv("JUDGE_API_KEY", SECRET)


@pytest.mark.parametrize(
    ("misdeed", "line"),
    [
        (
            "secret_in_identity",
            "provider 'it': semantic_identity.headers[0].Authorization holds the value of JUDGE_API_KEY",
        ),
        (
            "secret_in_key",
            "provider 'it': semantic_identity['[value of JUDGE_API_KEY]']: the key holds the value of JUDGE_API_KEY",
        ),
        ("secret_from_file", "provider 'it': revision holds the value of LATE_TOKEN"),
    ],
)
def test_a_secret_in_an_identity(
    flight: Flight, found: Found, monkeypatch: pytest.MonkeyPatch, misdeed: str, line: str
) -> None:
    """The place and the variable are named, the value is not, also where the catalog itself sets the variable."""
    monkeypatch.setenv("LATE_TOKEN", "")
    report = flight(misdeed)
    assert list(found(report)) == ["no secret"]
    assert found(report)["no secret"][0] == line
    assert report.exit_code == 2
    assert SECRET not in repr(report)
    assert "late-arrival-0001" not in repr(report)
    assert SECRET not in str(report.to_json())


def test_the_name_of_a_credential_is_fine(flight: Flight, found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """An identity is to hold the variable's name, and may."""
    monkeypatch.setenv("JUDGE_API_KEY", "JUDGE_API_KEY")
    assert found(flight("secret_in_identity")) == {}


@pytest.mark.parametrize("misdeed", ["secret_in_identity", "secret_in_key", "secret_in_error", "secret_printed"])
@pytest.mark.parametrize("output", [[], ["--json"]])
def test_it_comes_out_nowhere(shell: Callable[..., Any], tmp_path: Path, misdeed: str, output: list[str]) -> None:
    """Case secrets-02, for the children that there are: the secret is on no stream, in no file, on no command line."""
    done = shell(
        "preflight",
        *output,
        "rl.reward=it",
        "rl.group_size=2",
        f"rl.reward_catalog={CATALOG}:{misdeed}",
        JUDGE_API_KEY=SECRET,
    )
    assert done.returncode == 2
    assert done.stdout
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    for text in (done.stdout, done.stderr, *map(repr, files.values())):
        # Not even its first half: an error may have cut it off there.
        assert SECRET[: len(SECRET) // 2] not in text
    if misdeed == "secret_printed":
        # Two fresh processes; each wrote down its own command line.
        assert len(files) == 2
        assert all(b"posttrain.runs.checks.fresh" in content for content in files.values())
        assert "using [value of JUDGE_API_KEY]" in re.sub(r"\s+", " ", done.stdout)


def test_a_key_of_many_lines(flight: Flight, found: Found) -> None:
    """A private key whose first line is no longer among those that are shown is masked all the same."""
    report = flight("private_key_printed")
    assert list(found(report)) == ["fresh process"]
    assert "of-the-key" not in repr(report)
    assert found(report)["fresh process"][-1] == "  [a private key]"


def test_a_secret_where_a_print_is_cut(flight: Flight, found: Found) -> None:
    """Of a print that is too long to be kept whole, no line is shown whose front is cut off."""
    report = flight("secret_where_it_is_cut")
    assert found(report)["fresh process"][1:] == ("the last that it printed:", "  the last words")
    assert SECRET[10:] not in repr(report)


def test_a_fresh_process_finds_them_by_itself() -> None:
    """A variable that the catalog sets counts where it was set, and travels to nobody."""
    for fresh in run_fresh(f"{CATALOG}:secret_from_file", None, ["it"], deadline_s=60):
        assert fresh.answer is not None
        for made in fresh.answer.constructions:
            assert made.secrets == ("revision holds the value of LATE_TOKEN",)
            assert "late-arrival-0001" not in repr(made)


def test_an_error_of_a_refused_run(flight: Flight) -> None:
    """The error that ends a run holds it no more than the report does."""
    with pytest.raises(Exception, match="preflight failed") as caught:
        flight("secret_in_error").raise_if_failed()
    assert SECRET[:10] not in str(caught.value)
    assert "refused [value of JUDGE_API_KEY]" in str(caught.value)
