# SPDX-License-Identifier: Apache-2.0
"""Exchanges recorded from the public server: our encoder writes what it took, our reader reads what it said."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from posttrain.errors import RewardContractError
from posttrain.media.wire import (
    Enqueued,
    Pending,
    Quoter,
    Scored,
    Unanswered,
    enqueue_line,
    pull_form,
    read_enqueued,
    read_pulled,
)


@pytest.fixture(scope="module")
def exchanges(repository: Path) -> list[dict[str, Any]]:
    """Every recorded exchange, its request body decoded."""
    file = repository.parent / "shared" / "data" / "reward_service" / "transcripts.jsonl"
    if not file.is_file():
        pytest.skip("the recorded exchanges are not part of the repository")
    found: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    for each in found:
        each["sent"] = base64.b64decode(each["request"].get("body_base64") or "")
        each["path"] = each["request"]["line"].split(" ")[1]
    return found


def test_our_lines_are_those_that_the_server_took(exchanges: list[dict[str, Any]]) -> None:
    """Encoded from the same values, our line equals the recorded one byte for byte."""
    taken = [
        each
        for each in exchanges
        if each["path"] == "/api/reward/enqueue" and each["response"]["status"] == 200 and each["sent"]
    ]
    assert len(taken) >= 3
    for each in taken:
        line, _, array = each["sent"].partition(b"\n")
        meta = json.loads(line)
        infos = meta.get("video_infos")
        ours = enqueue_line(
            media_type=meta["media_type"],
            reward=next(iter(meta["reward_fn"])),
            fps=infos[0]["video_fps"] if infos else None,
            prompts=meta["prompts"],
        )
        assert ours == line + b"\n"
        assert array.startswith(b"\x93NUMPY")
        assert isinstance(read_enqueued(each["response"]["body"].encode()), Enqueued)


def test_our_forms_are_those_that_the_server_took(exchanges: list[dict[str, Any]]) -> None:
    """The same fields in the same form give the recorded body; the recorder wrote its oddest uuid unescaped."""
    forms = [each["sent"] for each in exchanges if each["path"] == "/api/reward/pull" and b"&type=" in each["sent"]]
    plain = [form for form in forms if b" " not in form and not form.startswith(b"uuid=&")]
    assert len(plain) >= 20
    for form in plain:
        fields = {name: values[0] for name, values in parse_qs(form.decode()).items()}
        assert pull_form(fields["uuid"], fields["type"]) == form


def test_every_recorded_pull_is_read_for_what_it_is(exchanges: list[dict[str, Any]]) -> None:
    """Pending stays pending, one score is taken as it stands, a 500 may pass, and all else is an error."""
    seen = {"pending": 0, "scored": 0, "may pass": 0, "error": 0}
    for each in exchanges:
        fields = parse_qs(each["sent"].decode("latin-1"))
        if each["path"] != "/api/reward/pull" or "uuid" not in fields or each["request"]["line"].startswith("GET"):
            continue
        status, text = each["response"]["status"], each["response"]["body"]
        key = {"dance_grpo": "overall_reward"}.get(fields.get("type", [""])[0], fields.get("type", [""])[0])
        try:
            found = read_pulled(
                status, text.encode(), uuid=fields["uuid"][0], score_key=key, what="pull", quoted=Quoter()
            )
        except RewardContractError:
            seen["error"] += 1
            value = json.loads(text)
            # Not one number in the series that was asked for.
            assert status != 200 or not isinstance(value, dict) or value["scores"] is None or _is_no_single(value, key)
            continue
        if isinstance(found, Scored):
            assert [found.value] == json.loads(text)["scores"][key]
        seen["scored"] += isinstance(found, Scored)
        seen["pending"] += isinstance(found, Pending)
        seen["may pass"] += isinstance(found, Unanswered)
        assert isinstance(found, Pending) == (status == 400)
        assert isinstance(found, Unanswered) == (status >= 500)
    assert min(seen.values()) >= 2, seen


def _is_no_single(value: dict[str, Any], key: str) -> bool:
    series = value["scores"].get(key)
    return not (isinstance(series, list) and len(series) == 1)
