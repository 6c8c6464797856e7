# SPDX-License-Identifier: Apache-2.0
"""The documentation as text: its files and their code blocks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)

# The files whose blocks and links are checked, by patterns from the root of the checkout.
_PAGES = ("*.md", "docs/*.md", "docs/*/*.md")


@pytest.fixture(scope="session")
def pages(repository: Path) -> dict[str, str]:
    """Path from the root of the checkout to text."""
    files = [each for pattern in _PAGES for each in sorted(repository.glob(pattern))]
    return {each.relative_to(repository).as_posix(): each.read_text(encoding="utf-8") for each in files}


@pytest.fixture(scope="session")
def blocks(pages: dict[str, str]) -> Callable[[str, str], list[str]]:
    """The code blocks of a page in one language, those of list items too."""

    def find(page: str, language: str) -> list[str]:
        found = _BLOCK.finditer(pages[page])
        return [textwrap.dedent(each[3]) for each in found if each[2] == language]

    return find
