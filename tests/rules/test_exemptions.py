# SPDX-License-Identifier: Apache-2.0
"""An exemption from a check names the check and gives its reason in the same line."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

RULE = "a noqa or type: ignore names its codes and gives a reason: `# noqa: CODE  # why`"

_EXEMPTION = re.compile(r"#\s*(noqa|type:\s*ignore)\b")
_REASONED = re.compile(r"(#\s*(noqa:\s*[A-Z]+[0-9]+(,\s*[A-Z]+[0-9]+)*|type:\s*ignore\[[a-z, -]+\])\s+)+#\s*\w.*")


def _bare(text: str) -> Iterator[int]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and _EXEMPTION.search(token.string) and not _REASONED.fullmatch(token.string):
            yield token.start[0]


def exemption_faults(root: Path, *folders: str) -> list[str]:
    """The place of every exemption without codes or without a reason."""
    return [
        f"{file.relative_to(root)}:{line}"
        for folder in folders
        for file in sorted((root / folder).rglob("*.py"))
        for line in _bare(file.read_text())
    ]


def test_every_exemption_has_a_reason(repository: Path) -> None:
    """The package, its tests, examples and benchmarks keep to the rule."""
    faults = exemption_faults(repository, "src", "tests", "examples", "benchmarks")
    assert not faults, "\n".join([RULE, *faults])


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# noqa: E501",
        "# type: ignore",
        "# type: ignore[misc]",
        "# type: ignore  # why",
        "# noqa  # why",
        "#noqa:E501",
    ],
)
def test_a_bare_exemption_is_found(tmp_path: Path, comment: str) -> None:
    """The check can fail: without codes or without a reason the line is named."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(f"x = 1\ny = 2  {comment}\n")
    assert exemption_faults(tmp_path, "src") == ["src/a.py:2"]


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # noqa: E501  # a long link",
        "x = 1  # type: ignore[misc, call-arg]  # the mistake under test",
        "x = 1  # type: ignore[misc]  # noqa: S101, BLE001  # both on purpose",
        "x = '# noqa'",
        "x = 1  # an ordinary comment",
    ],
)
def test_a_reasoned_exemption_passes(tmp_path: Path, line: str) -> None:
    """Codes and a reason are enough, and text inside a string is no exemption."""
    (tmp_path / "a.py").write_text(f"{line}\n")
    assert exemption_faults(tmp_path, ".") == []
