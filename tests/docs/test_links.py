# SPDX-License-Identifier: Apache-2.0
"""Links between the pages lead somewhere, and every decision is listed."""

from __future__ import annotations

import re
from pathlib import Path

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """What the headings of a page can be linked by."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in _HEADING.findall(text)}


def broken_links(root: Path, page: str, text: str) -> list[str]:
    """Every link of a page, within the repository, that leads nowhere."""
    broken = []
    for link in _LINK.findall(text):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (root / page).parent / path if path else root / page
        if not target.exists():
            broken.append(f"{page}: {link}")
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            broken.append(f"{page}: {link} (no such heading)")
    return broken


def test_every_link_leads_somewhere(pages: dict[str, str], repository: Path) -> None:
    """Files, folders and headings that a page links to are there."""
    assert [each for page, text in pages.items() for each in broken_links(repository, page, text)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """The check can fail, for a file and for a heading."""
    text = "# One two!\n[a](nowhere.md) [b](#one-two) [c](page.md#three) [d](https://example.org) [e](sub/)\n"
    (tmp_path / "page.md").write_text(text)
    (tmp_path / "sub").mkdir()
    assert broken_links(tmp_path, "page.md", text) == [
        "page.md: nowhere.md",
        "page.md: page.md#three (no such heading)",
    ]


def test_every_decision_is_listed(pages: dict[str, str]) -> None:
    """The index of the decisions has each note once, with the number and in the order of its file."""
    notes = sorted(page.split("/")[-1] for page in pages if re.match(r"docs/design/\d", page))
    listed = re.findall(r"^\| \[(\d+)\]\((\S+)\) \|", pages["docs/design/README.md"], re.MULTILINE)
    assert [name for _, name in listed] == notes
    assert all(name.startswith(f"{number}-") for number, name in listed)
    assert all(pages[f"docs/design/{name}"].startswith(f"# {number}: ") for number, name in listed)


def test_pages_that_are_cited_exist(pages: dict[str, str], source: Path, repository: Path) -> None:
    """A page of the documentation that running text, a comment or an error of the package names is there."""
    cited = re.compile(r"\bdocs/(?!design/NNN)[\w./-]+\.md\b")
    texts = {
        **pages,
        **{each.relative_to(repository).as_posix(): each.read_text() for each in sorted(source.rglob("*.py"))},
    }
    found = {(page, path) for page, text in texts.items() for path in cited.findall(text)}
    assert {each for each in found if not (repository / each[1]).is_file()} == set()
    assert ("src/posttrain/rewards/contract/spec.py", "docs/migrating.md") in found
