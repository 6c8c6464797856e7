# SPDX-License-Identifier: Apache-2.0
"""Whole runs over real ranks: torch's launcher, curl, a server on loopback, a tiny diffusion model."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from posttrain.runs.directory import RecordedRun, read_provenance
from posttrain.testing import FakeRewardService
from posttrain.testing.reward_service import Exchange, answer, enqueued, pending, scored
from posttrain.training.nft import read_telemetry
from training.nft.nft_runs import launched, overrides_of, ranks_of, torchrun

pytestmark = pytest.mark.slow

# Advantages of two groups of two whose four rewards are 0, 1, 3 and 4: the mean over the batch is 2, the population
# variance (4 + 1 + 1 + 4) / 4 = 2.5. Whichever two share a group are half their distance from its mean, over that
# deviation: the first of the two as it stands here is below.
SCALE = 2.5**0.5 + 1e-4
BY_HAND = {
    (0.0, 1.0): 0.5 / SCALE,
    (0.0, 3.0): 1.5 / SCALE,
    (0.0, 4.0): 2.0 / SCALE,
    (1.0, 3.0): 1.0 / SCALE,
    (1.0, 4.0): 1.5 / SCALE,
    (3.0, 4.0): 0.5 / SCALE,
}


def test_four_ranks_two_groups_of_two(tmp_path: Path) -> None:
    """Under torchrun: advantages as derived by hand, complete telemetry, weights that are one on all ranks."""
    pulls = [pending(), *(scored({"brightness": [score]}) for score in (1.0, 3.0, 0.0, 4.0))]
    with FakeRewardService(pull=pulls) as service:
        done = torchrun(overrides_of(tmp_path, service, "rl.nft.steps=1"), ranks=4)
    assert done.returncode == 0, done.stderr
    assert "1 batches; mean reward 2.0000 -> 2.0000" in done.stdout
    assert len(service.enqueues) == 4
    run = tmp_path / "runs" / "it"
    (batch,) = read_telemetry(run)
    assert sorted(rank for group in batch.groups for rank in group.ranks) == [0, 1, 2, 3]
    assert sorted(reward for group in batch.groups for reward in group.final) == [0.0, 1.0, 3.0, 4.0]
    for group in batch.groups:
        low, high = sorted(group.final)
        expected = {low: -BY_HAND[low, high], high: BY_HAND[low, high]}
        assert list(group.advantages) == pytest.approx([expected[each] for each in group.final], rel=1e-12)
        assert group.optimality == tuple(0.5 + 0.5 * max(-1, min(1, each)) for each in group.advantages)
    # Plain JSON that only the owner can read.
    (file,) = (run / "telemetry").iterdir()
    assert [each["final"] for each in json.loads(file.read_text())["groups"]] == [list(g.final) for g in batch.groups]
    assert file.stat().st_mode & 0o077 == 0
    rows = {row.trajectory_id: row for row in RecordedRun(run).candidates()}
    for group in batch.groups:
        assert [rows[each].advantage for each in group.trajectory_ids] == list(group.advantages)
        assert {rows[each].prompt for each in group.trajectory_ids} < {"a lamp", "snow", "the sun"}
    metrics = RecordedRun(run).metrics()[1]
    assert metrics["train/reward_provider/image/sample_count"] == 4
    assert metrics["train/reward/image/mean"] == 2.0
    assert metrics["train/nft/eta"] == 0.001
    assert batch.report.metrics().items() <= metrics.items()
    assert list((tmp_path / "spool").iterdir()) == []
    assert read_provenance(run / "provenance.json").stage.estimator == "group_mean_batch_std"


def test_resume_does_what_was_not_interrupted(tmp_path: Path) -> None:
    """A run that is stopped after batch 2 and resumed ends with the weights of one that was not, to the bit."""
    weights, folder = [], tmp_path
    # What a sample scores hangs on its bytes alone, so that both runs see the same rewards.
    for name, stretches in (("whole", [4]), ("in parts", [2, 4])):
        folder = tmp_path / name
        folder.mkdir()
        with _scoring_bytes() as service:
            for steps in stretches:
                flags = ["--resume"] if steps != stretches[0] else []
                with launched(overrides_of(folder, service, f"rl.nft.steps={steps}", "rl.nft.rounds=2"), *flags) as run:
                    code, told = run.end()
                assert code == 0, told
        saved = torch.load(folder / "runs/it/checkpoints/step-00000004.pt", weights_only=True)["weights"]
        weights.append(saved)
        assert [batch.step for batch in read_telemetry(folder / "runs/it")] == [1, 2, 3, 4]
    for which in ("trained", "old"):
        assert all(torch.equal(weights[0][which][key], weights[1][which][key]) for key in weights[0][which])
    assert not all(torch.equal(weights[0]["trained"][key], weights[0]["old"][key]) for key in weights[0]["old"])
    with _scoring_bytes() as service:
        other = overrides_of(folder, service, "rl.nft.rounds=2", "rl.nft.reward.provider_revision=r2")
        with launched(other, "--resume") as run:
            code, told = run.end()
    assert code == 2
    assert 'providers[0].revision: recorded "r1", now "r2"' in told


def _scoring_bytes() -> FakeRewardService:
    """Scores a sample by its bytes, of which it knows the digest from the enqueue on."""
    scores: dict[str, float] = {}

    def enqueue(exchange: Exchange) -> None:
        exchange.read()
        scores[exchange.new_uuid] = int(exchange.received.sha256[:4], 16) / 65536
        enqueued(exchange.new_uuid)(exchange)

    def pull(exchange: Exchange) -> None:
        score = scores[exchange.asked_for()]
        answer(200, {"scores": {"brightness": [score]}, "type": "brightness"})(exchange)

    return FakeRewardService(enqueue=[enqueue], pull=[pull])


def test_a_rank_whose_reward_fails_ends_all_with_its_error(tmp_path: Path) -> None:
    """One of two samples gets a score that is none: both ranks tell the same, which names the rank and the sample."""
    pulls = [scored({"brightness": [0.5]}), scored({"brightness": [float("nan")]})]
    with FakeRewardService(pull=pulls) as service, launched(overrides_of(tmp_path, service)) as run:
        code, told = run.end()
    assert code == 3, told
    lines = [line for line in told.splitlines() if line.startswith("posttrain: contract broken")]
    assert len(lines) == 2
    assert len(set(lines)) == 1
    assert "provider 'image', group 'train-s0-e0-0', trajectory 'train-s0-e0-0/" in lines[0]
    assert ": rank 0: " in lines[0] or ": rank 1: " in lines[0]
    assert RecordedRun(tmp_path / "runs/it").metrics() == {}
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("way", ["hangs", "dies"])
def test_a_rank_that_is_gone_is_named_by_the_others(tmp_path: Path, way: str) -> None:
    """Rank 1 is stopped or killed while its sample is scored: the others name it inside the bound; nothing is left."""
    bound = 5.0
    overrides = overrides_of(
        tmp_path, "http://127.0.0.1:1", f"rl.nft.ranks_timeout_s={bound}", "rl.nft.reward.evaluation_timeout_s=4.9"
    )
    names = f"rank 1 did not come to the step 'evaluate' within {bound:g} s: hung or dead"
    is_gone = threading.Event()

    def pull(exchange: Exchange) -> None:
        (scored({"brightness": [0.5]}) if is_gone.is_set() else pending())(exchange)

    with FakeRewardService(pull=[pull]) as service:
        held = [each.replace("http://127.0.0.1:1", service.url) for each in overrides]
        with launched(held) as run:
            service.wait_until(lambda now: len(now.enqueues) >= 1, 90)
            ranks = ranks_of(run.process.pid)
            assert sorted(ranks) == [0, 1]
            os.kill(ranks[1], signal.SIGSTOP if way == "hangs" else signal.SIGKILL)
            is_gone.set()
            run.wait_until_told("hung or dead")
            if way == "hangs":
                os.kill(ranks[1], signal.SIGCONT)
            code, told = run.end()
    assert code == 4, told
    lines = [line for line in told.splitlines() if line.startswith("posttrain:")]
    assert set(lines) == {f"posttrain: unavailable: {names}"}
    assert len(lines) == (2 if way == "hangs" else 1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_machine_that_lacks_something_ends_before_a_rank_starts(tmp_path: Path) -> None:
    """Preflight comes first: a token that is not set, exit code 2, and no folder of a run."""
    overrides = overrides_of(tmp_path, "http://127.0.0.1:1", "rl.nft.reward.credential=NO_SUCH_VARIABLE")
    with launched(overrides) as run:
        code, told = run.end()
    assert code == 2
    assert "NO_SUCH_VARIABLE" in told
    assert not (tmp_path / "runs").exists()
