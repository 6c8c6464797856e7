# SPDX-License-Identifier: Apache-2.0
"""What a run records of how it was made: enough to tell, readable elsewhere, and nothing that must stay here."""

from __future__ import annotations

import json
import platform
import socket
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from posttrain import __version__
from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rewards import RewardWorker, load_catalog
from posttrain.rewards.catalog.fingerprint import fingerprint_provider
from posttrain.rewards.catalog.identity import identity_sha256
from posttrain.runs.directory import Provenance, RecordedRun, RunDirectory, read_provenance

Begin = Callable[..., RunDirectory]

CATALOG = """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates

def score(candidate, context):
    return RewardProviderResult({"task": 1.0})

def spec(term, **semantics):
    return RewardProviderSpec(
        factory=partial(map_candidates, score), revision="7", terms=(term,), semantic_identity=semantics
    )

def catalog():
    return {"judge": spec("task", credential="env:JUDGE_TOKEN", model="m-1"), "held_out": spec("other")}
"""


@pytest.fixture
def catalog_file(tmp_path: Path) -> Iterator[Path]:
    """A catalog file in a folder of its own."""
    before = set(sys.modules)
    file = tmp_path / "project" / "rewards.py"
    file.parent.mkdir()
    file.write_text(textwrap.dedent(CATALOG))
    yield file
    for name in set(sys.modules) - before:
        if name.startswith("posttrain_catalog_"):
            del sys.modules[name]


def _worker(file: Path, path: str = "rewards.py:catalog") -> RewardWorker:
    return RewardWorker(catalog=load_catalog(path, base=file.parent), reward=["judge", "gsm8k"], group_size=2)


def test_it_names_everything_that_made_the_scores(catalog_file: Path, tmp_path: Path) -> None:
    """Versions, each provider with revision, identity and source, those of the validation too, stage and data."""
    worker = _worker(catalog_file)
    data = {"rows": 7473, "files": [{"name": "train.jsonl", "sha256": "ab"}]}
    made = Provenance.of(worker.stage, validation=("held_out", "judge"), data=data)
    assert (made.posttrain, made.python, made.data) == (__version__, platform.python_version(), data)
    catalog = worker.stage.selection.catalog
    assert [each.provider for each in made.providers] == ["judge", "gsm8k", "held_out"]
    assert made.providers[0].catalog == catalog.path
    assert made.providers[0].revision == "7"
    assert made.providers[0].sha256 == identity_sha256({"credential": "env:JUDGE_TOKEN", "model": "m-1"})
    assert made.sources == tuple(
        fingerprint_provider(name, catalog.spec(name)) for name in ("judge", "gsm8k", "held_out")
    )
    assert set(made.sources[0].modules) == {"rewards.py"}
    assert (made.stage, made.stage_sha256) == (worker.stage_identity, worker.stage_identity.sha256)
    file = tmp_path / "provenance.json"
    file.write_bytes(made.encode())
    assert read_provenance(file) == made


def test_the_data_is_a_private_copy(batch: Any) -> None:
    """What the caller changes later is not in the record; no data is an empty mapping."""
    data: dict[str, Any] = {"files": ["a"]}
    made = Provenance.of(batch.worker.stage, data=data)
    data["files"].append("b")
    assert made.data == {"files": ["a"]}
    assert Provenance.of(batch.worker.stage).data == {}
    with pytest.raises(RewardContractError, match=r"data.digest: expected a JSON type, got b'x'"):
        Provenance.of(batch.worker.stage, data={"digest": b"x"})


def test_paths_of_this_machine_are_refused(batch: Any) -> None:
    """Every absolute path in the data is named by its place, on whatever system; relative ones and slashes are fine."""
    data = {
        "path": "/home/somebody/train.jsonl",
        "files": ["C:\\data\\train.jsonl", "data/train.jsonl", "//server/share/x", "~/train.jsonl"],
        "split": "/",
        "url": "https://example.org/train.jsonl",
        "/mnt/x": 1,
    }
    with pytest.raises(RewardConfigError, match="a run's record is to be read on other machines") as caught:
        Provenance.of(batch.worker.stage, data=data)
    assert str(caught.value).splitlines()[1:] == [
        "  data.path: '/home/somebody/train.jsonl'; record the file's name and digest",
        "  data.files[0]: 'C:\\\\data\\\\train.jsonl'; record the file's name and digest",
        "  data.files[2]: '//server/share/x'; record the file's name and digest",
        "  data.files[3]: '~/train.jsonl'; record the file's name and digest",
        "  data, key: '/mnt/x'; record the file's name and digest",
    ]


def test_a_catalog_file_elsewhere_is_not_recorded_by_its_whole_path(catalog_file: Path, tmp_path: Path) -> None:
    """A catalog file outside of the config's folder that was given by its absolute path is refused with the way out."""
    base = tmp_path / "elsewhere"
    base.mkdir()
    relative = load_catalog("../project/rewards.py:catalog", base=base)
    worker = RewardWorker(catalog=relative, reward="judge", group_size=2)
    assert Provenance.of(worker.stage).providers[0].catalog == relative.path
    absolute = load_catalog(f"{catalog_file}:catalog", base=base)
    worker = RewardWorker(catalog=absolute, reward="judge", group_size=2)
    recorded = absolute.path or ""
    if recorded.startswith("/"):
        with pytest.raises(
            RewardConfigError, match=r"catalog '/.*/project/rewards.py@sha256:.*': give the file relative"
        ):
            Provenance.of(worker.stage)
    else:
        assert Provenance.of(worker.stage).providers[0].catalog == recorded


SECRET = "tok-TEST-111"  # noqa: S105  # the value that must not be found


def test_no_secret_and_no_path_of_this_machine_is_in_any_file(
    catalog_file: Path, tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch, batch: Any
) -> None:
    """A resolved credential, the environment, the host's name and the folders of this machine are in none of them."""
    monkeypatch.setenv("JUDGE_TOKEN", SECRET)
    monkeypatch.setenv("POSTTRAIN_MARK", "value-of-the-environment")
    worker = _worker(catalog_file, f"{catalog_file}:catalog")
    with begin(provenance=Provenance.of(worker.stage, validation=("held_out",), data={"rows": 3})) as run:
        run.record_step(1, batch.trajectories, batch.outcome)
        run.metrics.write(1, batch.report.metrics())
        run.save_state(1, worker.stage_identity, batch.report)
    with RunDirectory.resume(run.path, config_text="", provenance=Provenance.of(worker.stage)):
        pass
    content = b"".join(each.read_bytes() for each in run.path.rglob("*") if each.is_file()).decode()
    assert "rewards.py@sha256:" in content
    here = {str(tmp_path), str(catalog_file.parent), str(Path.home()), sys.prefix, sys.base_prefix, str(Path.cwd())}
    forbidden = {SECRET, "value-of-the-environment", socket.gethostname(), *here} - {"/", ""}
    # A short host's name may be a part of any word.
    found = [each for each in forbidden if len(each) > 4 and each in content]
    assert found == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda record: {**record, "format": 2}, r"has format 2, and this version of Posttrain reads 1"),
        (lambda record: [1], r"has format None, and this version"),
        (lambda record: {**record, "stage_sha256": "0" * 64}, r"is damaged: the stage identity in it is not that"),
        (lambda record: {**record, "more": 1}, r"is no record of a run: .*unknown field `more`"),
        (lambda record: {**record, "stage": {}}, r"is no record of a run: .*missing required field"),
        (lambda record: {**record, "sources": None}, r"is no record of a run: Expected `array`"),
    ],
)
def test_a_damaged_record_is_refused(begin: Begin, change: Any, why: str) -> None:
    """Another format, fields that this version does not know, and a stage that is not that of its hash."""
    with begin() as run:
        file = run.path / "provenance.json"
        file.write_text(json.dumps(change(json.loads(file.read_bytes()))))
        with pytest.raises(RewardConfigError, match=why):
            _ = RecordedRun(run.path).provenance
        file.write_text("{")
        with pytest.raises(RewardConfigError, match=r"provenance.json is no record of a run: Input data was truncated"):
            _ = RecordedRun(run.path).provenance


def test_a_provider_that_became_another_has_no_source_any_more(catalog_file: Path, batch: Any) -> None:
    """Accepting an identity by its hash says nothing of its source, so none is recorded; the others keep theirs."""
    made = Provenance.of(_worker(catalog_file).stage, validation=("held_out",))
    judge, gsm8k = made.stage.providers
    newer = msgspec.structs.replace(made.stage, providers=(msgspec.structs.replace(judge, revision="8"), gsm8k))
    under = made.under(newer, 5)
    assert [each.provider for each in under.sources] == ["gsm8k", "held_out"]
    assert [(each.provider, each.revision) for each in under.providers] == [
        ("judge", "8"),
        ("gsm8k", gsm8k.revision),
        ("held_out", "7"),
    ]
    assert under.lineage == (made.as_ancestor(5),)
