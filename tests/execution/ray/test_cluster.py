# SPDX-License-Identifier: Apache-2.0
"""Whose Ray it is: one that was there is left alone, a local one is stopped with the last that uses it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from execution.ray.batches import batch
from execution.ray.conftest import Pool
from posttrain.errors import RewardConfigError, RewardUnavailableError
from posttrain.execution.ray import RayEvaluator
from posttrain.rewards import RewardWorker


def test_a_ray_that_was_there_is_left_alone(pool: Pool, the_ray: Any) -> None:
    """The evaluator uses the Ray that this process is connected to, by its address too; closing does not stop it."""
    address = the_ray.get_runtime_context().gcs_address
    for settings in ({}, {"address": address}, {"address": "auto"}):
        worker = pool(num_cpus=0.1, **settings)
        worker.score(batch([{}]))
        worker.close()
        assert the_ray.is_initialized()
    worker = pool(address="127.0.0.1:1")
    with pytest.raises(RewardConfigError, match=r"connected to the Ray at 127\.0\.0\.1:\d+, not to 127\.0\.0\.1:1"):
        worker.stage.open()


LIFE = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from execution.ray.batches import batch, calls, until
from posttrain.errors import RewardUnavailableError
from posttrain.execution import RayEvaluator
from posttrain.rewards import RewardWorker

def made(**more):
    return RewardWorker(catalog="actor_rewards:catalog", reward="scripted", group_size=2,
                        evaluator=RayEvaluator(num_cpus=0.1, **more))

first, second = made(), made()
assert "ray" in sys.modules and not sys.modules["ray"].is_initialized()
first.score(batch([{}]))
import ray
assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:"), ray.get_runtime_context().gcs_address
folder = Path(ray._private.worker._global_node.get_session_dir_path()).parent
second.score(batch([{}]))
first.close()
assert ray.is_initialized()
second.score(batch([{}]))
second.close()
assert not ray.is_initialized() and not folder.exists()

# Another local one; somebody else stops it in the middle of a batch.
notes = Path(sys.argv[1])
found = []
def score():
    try:
        first.score(batch([{"do": "sleep", "seconds": 60, "folder": str(notes)}]))
    except BaseException as error:
        found.append(error)
thread = threading.Thread(target=score)
thread.start()
until(lambda: calls(notes, "g0"))
ray.shutdown()
thread.join(30)
assert len(found) == 1 and type(found[0]) is RewardUnavailableError, found
assert "Ray was shut down" in str(found[0]), found
# The next batch begins anew.
trajectories = batch([{}])
first.score(trajectories)
assert "final" in trajectories[0].reward
first.close()
first.close()
assert not ray.is_initialized()
assert [each.name for each in threading.enumerate()].count("posttrain-ray") == 0

# Ours is stopped by others, who then start one of their own: it is used, and left alone.
first.score(batch([{}]))
ray.shutdown()
import logging
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
         _temp_dir=sys.argv[2], object_store_memory=100 * 2**20)
first.score(batch([{}]))
second.score(batch([{}]))
first.close()
second.close()
assert ray.is_initialized()
ray.shutdown()
print("as it should be")
"""


@pytest.mark.slow
def test_the_life_of_a_local_ray(ray_environment: dict[str, str], repository: Path, tmp_path: Path) -> None:
    """Two evaluators share a local one, on loopback; it ends with the last; one that others stop is an error."""
    environment = {**ray_environment, "PYTHONPATH": f"{repository / 'tests'}:{ray_environment['PYTHONPATH']}"}
    short = tempfile.mkdtemp(prefix="pt-")
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(tmp_path), short],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    shutil.rmtree(short, ignore_errors=True)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["as it should be"]), done.stderr[-3000:]


def test_a_cluster_that_is_not_there_is_an_error(ray_environment: dict[str, str]) -> None:
    """A process of its own, since this one has a Ray: nobody listens at the address, which is named at once."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        program = (
            "from posttrain.execution import RayEvaluator\n"
            "from posttrain.rewards import RewardWorker\n"
            "RewardWorker(reward='nonempty', group_size=1, evaluator=RayEvaluator()).stage.open()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**ray_environment, "RAY_ADDRESS": address},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1
    expected = f"{RewardUnavailableError.__name__}: the Ray cluster at {address} can't be reached"
    assert expected in done.stderr


def test_the_package_loads_no_ray(fresh_python: Any) -> None:
    """Ray is imported when an evaluator is prepared, not before."""
    program = (
        "import sys\nfrom posttrain.execution import RayEvaluator\nRayEvaluator(min_actors=2)\n"
        "print('ray' in sys.modules)"
    )
    assert fresh_python(program) == "False\n"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to install."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RewardConfigError, match=r'^Ray is not installed: pip install "posttrain\[ray\]"$'):
        RewardWorker(reward="nonempty", group_size=1, evaluator=RayEvaluator())
