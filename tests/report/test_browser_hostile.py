# SPDX-License-Identifier: Apache-2.0
"""What models write is inert: in a real browser no text becomes markup, runs, loads, or hides what stands beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.report import build_report, open_scores, write_report

Rows = Callable[..., list[dict[str, Any]]]
Run = Callable[..., Path]
Opened = Callable[..., Any]

HOSTILE = {
    "script": "</script><script>window.pwned = 1</script>",
    "image": "<img src=x onerror='window.pwned = 1'>",
    "svg": "<svg/onload=window.pwned=1>",
    "frame": "<iframe srcdoc='<script>parent.pwned = 1</script>'></iframe>",
    "style": "</style><style>body { display: none }</style>",
    "comment": "--><!-- ]]> <![CDATA[",
    "template": "{{constructor.constructor('window.pwned = 1')()}} ${window.pwned = 1}",
    "link": "javascript:window.pwned=1",
    "separators": "one\u2028two\u2029three",
    "nul": "nul\x00and\x1b[31mred\x07",
    "half": "half \ud83d and \ude00 apart",
    "right to left": "\u202etxt.exe\u202c \u05e9\u05dc\u05d5\u05dd \u2067\u2066",
    "quotes": "\"'`&lt;&amp;\\u003c\\",
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467 fine",
}


def _run(run: Run, rows: Rows, dropped: Rows, texts: list[str], name: str) -> Path:
    """A run that has each text in every place where a name or a text can stand."""
    steps: dict[int, list[dict[str, Any]]] = {1: [], 2: rows("plain", {"right": [1.0, 0.0]}, completion_token_count=1)}
    for at, text in enumerate(texts):
        # One length for all, so that no chart has more bars than another.
        more = {"prompt": [{"role": text, "content": text}], "reference": {text: [text]}, "completion_token_count": 1}
        terms = {f"{text}{at}": [1.0, 0.0]}
        found = rows(f"{text}{at}", terms, texts=[text, text], finish_reason=text, row_id=text, **more)
        steps[1] += [*found, *dropped(f"{text}{at}-dropped", 1, cause=text)]
    # Our own records are Unicode; half a pair can't get into them.
    told = [text.encode("utf-8", "replace").decode() for text in texts]
    metrics = {
        f"{place}/{text}{at}": 1.0 for at, text in enumerate(told) for place in ("val", "train/reward_provider/p")
    }
    slow = {
        f"{text}{at}": {
            "seconds": 1,
            "slowest_seconds": 1,
            "slowest_group": f"{text}{at}" if text == texts[at] else "plain",
        }
        for at, text in enumerate(told)
    }
    return run(
        steps,
        metrics=[{"step": step, **metrics} for step in (1, 2)],
        provenance={
            "stage": {
                "providers": [{"provider": text, "revision": text} for text in told],
                "weights": {},
                "estimator": told[0],
            }
        },
        state={"report": {"providers": slow}},
        name=name,
    )


def test_hostile_texts_are_shown_and_do_nothing(
    opened: Opened, run: Run, rows: Rows, dropped: Rows, tmp_path: Path
) -> None:
    """Whatever stands in texts and names, the page has the elements that it has for harmless ones, and no others."""
    elements = {}
    for kind, texts in (("harmless", ["x"] * len(HOSTILE)), ("hostile", list(HOSTILE.values()))):
        file = tmp_path / f"{kind}.html"
        write_report(build_report(open_scores(_run(run, rows, dropped, texts, kind))), file)
        with opened(file) as page:
            for at, text in enumerate(texts):
                page.locator(".groups tbody tr .link").nth(2 * at).click()
                box = page.locator("dialog[open] .candidate .text").first
                box.wait_for()
                _assert_shown(box, text)
                if at < len(texts) - 1:
                    page.keyboard.press("Escape")
            elements[kind] = page.evaluate(
                "[...document.querySelectorAll('*:not(.hidden-char)')].map((each) => each.tagName).sort().join(' ')"
            )
            assert page.evaluate("window.pwned") is None
            assert page.locator("body").is_visible()
    assert elements["hostile"] == elements["harmless"]


def _assert_shown(box: Any, text: str) -> None:
    """The text stands there to the letter; characters that nobody can see are named by their codes."""
    shown = box.evaluate(
        "(node) => [...node.childNodes].map((each) => each.nodeType === 3 ? each.data : `<${each.textContent}>`)"
    )
    expected = "".join(
        f"<U+{ord(letter):04X}>" if letter in "\u2028\u2029\x00\x1b\x07\ud83d\ude00\u202e\u202c\u2067\u2066" else letter
        for letter in text
    )
    assert "".join(shown) == expected


def test_the_name_of_a_file_is_no_markup(
    opened: Opened, written: Callable[..., Path], rows: Rows, tmp_path: Path
) -> None:
    """A hostile name stands in the title and in the heading."""
    name = "<img src=x onerror=alert(1)>&amp;.jsonl"
    path = written(name, rows("g", {"x": [1.0, 0.0]}))
    write_report(build_report(open_scores(path)), tmp_path / "r.html")
    with opened(tmp_path / "r.html") as page:
        assert page.title() == f"{name} · Posttrain report"
        assert page.locator("h1").inner_text() == name
