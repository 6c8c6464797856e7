# SPDX-License-Identifier: Apache-2.0
"""Samples of an archive: every way of packing, and every way of being broken."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rollouts.importers import dump_source
from posttrain.rollouts.importers.eval_zip import DamagedMember, listed_members, read_member


def sample(name: Any, epoch: int, text: str = "a", **more: Any) -> dict[str, Any]:
    """A sample of a log, with the fields that are read."""
    output = {"choices": [{"stop_reason": "stop"}], "completion": text}
    return {"id": name, "epoch": epoch, "input": "q", "target": "t", "output": output, **more}


def log(path: Path, *samples: dict[str, Any] | str, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """An archive of samples; NaN is written as inspect_ai writes it."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("header.json", "{}")
        for each in samples:
            name = (
                f"samples/{each['id']}_epoch_{each['epoch']}.json"
                if isinstance(each, dict)
                else "samples/x_epoch_1.json"
            )
            archive.writestr(name, json.dumps(each) if isinstance(each, dict) else each)
    return path


def completions(path: Path) -> list[tuple[str, list[str | None]]]:
    """Ids and completions."""
    groups = dump_source(path, "inspect").groups()
    return [(group.group_id, [each.completion for each in group.trajectories]) for group in groups]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_samples_are_sorted_by_id_and_epoch(tmp_path: Path, method: int) -> None:
    """Ids in the order in which they first stand, epochs by number: 10 comes behind 9."""
    samples = [sample(name, epoch, f"{name}{epoch}") for epoch in (10, 9) for name in ("b", 7)]
    path = log(tmp_path / "x.eval", *samples, method=method)
    assert completions(path) == [("b", ["b9", "b10"]), ("7", ["79", "710"])]


def test_the_last_of_two_members_of_one_name_counts(tmp_path: Path) -> None:
    """A sample that was written again replaces the earlier one."""
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = log(tmp_path / "x.eval", sample("a", 1, "old"), sample("a", 1, "new"))
    assert completions(path) == [("a", ["new"])]


def test_nan_in_what_is_not_read_does_no_harm(tmp_path: Path) -> None:
    """A score of NaN, which is no JSON, stands beside fields that are read."""
    path = log(tmp_path / "x.eval", sample("a", 1, scores={"s": {"value": float("nan")}}))
    assert completions(path) == [("a", ["a"])]
    whole = tmp_path / "x.json"
    whole.write_text(json.dumps({"samples": [sample("a", 1, scores={"s": {"value": float("nan")}})]}))
    assert completions(whole) == [("a", ["a"])]


def test_every_sample_at_fault_is_named(tmp_path: Path) -> None:
    """Failed samples, several choices, other records and broken text: all of them, with sample and field."""
    many = {"choices": [{"stop_reason": "stop"}] * 2, "completion": "a"}
    path = log(
        tmp_path / "x.eval",
        sample("ok", 1),
        sample("failed", 1, error={"message": "boom"}),
        sample("refused", 1, output={"choices": [], "completion": "", "error": "503"}),
        sample("empty", 1, output={"choices": [], "completion": ""}),
        sample("many", 2, output=many),
        "{",
    )
    with pytest.raises(RewardContractError, match="5 faults in the rows") as caught:
        completions(path)
    text = str(caught.value)
    assert "row 2: sample 'failed', epoch 1, field 'error': it failed" in text
    assert "row 3: sample 'refused', epoch 1, field 'output.error': it failed" in text
    assert "row 4: sample 'empty', epoch 1, field 'output.choices': expected one, got 0" in text
    assert "row 5: sample 'many', epoch 2, field 'output.choices': expected one, got 2" in text
    assert "row 6: samples/x_epoch_1.json is no sample of inspect_ai" in text


@pytest.mark.parametrize(("kind", "content"), [("eval", b"PK none"), ("eval", b""), ("json", b"{"), ("json", b"[]")])
def test_what_is_no_log_is_refused(tmp_path: Path, kind: str, content: bytes) -> None:
    """Anything else under that name is refused as a whole."""
    path = tmp_path / f"x.{kind}"
    path.write_bytes(content)
    with pytest.raises(RewardConfigError, match=r"can't be read as an archive|is no log of inspect_ai"):
        completions(path)


def test_damage_is_seen_in_every_byte_of_a_member(data: Path, tmp_path: Path) -> None:
    """Whichever byte of a packed sample is changed, reading it fails; it never gives other data."""
    good = (data / "inspect" / "sums.eval").read_bytes()
    member = next(each for each in listed_members(data / "inspect" / "sums.eval") if "q2_epoch_1" in each.filename)
    begin = member.header_offset + 30 + len(member.filename)
    path = tmp_path / "x.eval"
    with (data / "inspect" / "sums.eval").open("rb") as file:
        whole = read_member(file, member)
    for at in range(begin, begin + member.compress_size, 37):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        with path.open("rb") as file:
            try:
                assert read_member(file, member) == whole
            except DamagedMember as fault:
                assert "damaged" in str(fault)  # noqa: PT017  # a changed byte may also be one that zstd ignores


def test_the_verdict_map(lines: Callable[..., Path], tmp_path: Path) -> None:
    """Words of inspect_ai's own for what the engine said become no verdict, and none becomes `length`."""
    reasons = ["stop", "max_tokens", "model_length", "tool_calls", "content_filter", "unknown", "length"]
    samples = [
        sample("a", at, output={"choices": [{"stop_reason": reason}], "completion": "a"})
        for at, reason in enumerate(reasons)
    ]
    (group,) = dump_source(log(tmp_path / "x.eval", *samples), "inspect").groups()
    verdicts = [each.policy_info["finish_reason"] for each in group.trajectories]
    assert verdicts == ["stop", None, None, "tool_calls", "content_filter", None, None]
