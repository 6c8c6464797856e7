# SPDX-License-Identifier: Apache-2.0
"""A node of a cluster is taken away in the middle of a batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from ray.cluster_utils import Cluster
import ray
from execution.ray.batches import batch, calls, until, written
from posttrain.execution import RayEvaluator
from posttrain.rewards import RewardWorker

notes = Path(sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=1, resources={"spare": 1})
ray.init(address=cluster.address, log_to_driver=False)
evaluator = RayEvaluator(min_actors=2, num_cpus=1, group_timeout_s=60, start_timeout_s=90)
worker = RewardWorker(catalog="actor_rewards:catalog", reward="scripted", group_size=2, evaluator=evaluator)
worker.stage.open()
scripts = [{"folder": str(notes), "do": "sleep", "seconds": 0.4} for _ in range(40)]
trajectories = batch(scripts)
found = []

def score():
    try:
        found.append(worker.score(trajectories))
    except BaseException as error:
        found.append(error)

thread = threading.Thread(target=score)
thread.start()
until(lambda: len(list(notes.iterdir())) > 8)
cluster.remove_node(node, allow_graceful=False)
thread.join(120)
assert not thread.is_alive()
assert len(found) == 1 and not isinstance(found[0], BaseException), found
here = batch([{}] * 40)
RewardWorker(catalog="actor_rewards:catalog", reward="scripted", group_size=2).score(here)
assert written(trajectories) == written(here)
assert max(len(calls(notes, f"g{number}")) for number in range(40)) == 2
worker.close()
ray.shutdown()
cluster.shutdown()
print("as it should be")
"""


@pytest.mark.slow
def test_groups_of_a_lost_node_are_scored_by_the_others(
    ray_environment: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    """Two nodes with an actor each; one node's processes are killed: the batch is whole, on the one that is left."""
    environment = {**ray_environment, "PYTHONPATH": f"{repository / 'tests'}:{ray_environment['PYTHONPATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment,
        cwd=tmp_path.parent,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["as it should be"]), done.stderr[-3000:]
