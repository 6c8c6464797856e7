# SPDX-License-Identifier: Apache-2.0
"""One Ray for all of these tests, on loopback, in a folder of its own."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from posttrain.execution.ray import RayEvaluator
from posttrain.rewards import RewardWorker

HERE = Path(__file__).parent
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray would write a token of its own into the home folder; nothing but this machine can reach it here.
    "RAY_AUTH_MODE": "disabled",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ray leaves files and sockets of its own to the garbage collector; warnings of ours still fail a test."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def ray_environment() -> Iterator[dict[str, str]]:
    """The environment in which Ray starts: ours, and with the folder of the actors' catalog on the path."""
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ENVIRONMENT, "PYTHONPATH": path}.items():
            patch.setenv(name, value)
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.syspath_prepend(str(HERE))
        yield dict(os.environ)


@pytest.fixture(scope="session")
def the_ray(ray_environment: dict[str, str]) -> Iterator[Any]:
    """The running Ray, with room for 16 actors."""
    folder = tempfile.mkdtemp(prefix="pt-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, on import and start
        import ray

        ray.init(
            address="local",
            num_cpus=16,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=128 * 2**20,
            _temp_dir=folder,
        )
        yield ray
        ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


Pool: TypeAlias = Callable[..., RewardWorker]


def _made(made: list[RewardWorker]) -> Pool:
    of_worker = {"reward", "group_size", "on_unavailable", "max_dropped_fraction", "groups_in_flight", "weights"}

    def make(**settings: Any) -> RewardWorker:
        evaluator = RayEvaluator(**{key: value for key, value in settings.items() if key not in of_worker})
        chosen: dict[str, Any] = {"reward": "scripted", "group_size": 2, "max_dropped_fraction": 1.0}
        chosen |= {key: value for key, value in settings.items() if key in of_worker}
        worker = RewardWorker(catalog="actor_rewards:catalog", evaluator=evaluator, **chosen)
        made.append(worker)
        return worker

    return make


@pytest.fixture
def pool(the_ray: Any) -> Iterator[Pool]:
    """Make a worker on reward actors, closed when the test is over. Keywords go to the evaluator or to the worker."""
    made: list[RewardWorker] = []
    yield _made(made)
    for worker in made:
        worker.close()


@pytest.fixture(scope="module")
def module_pool(the_ray: Any) -> Iterator[Pool]:
    """The same for workers that several tests of a module share."""
    made: list[RewardWorker] = []
    yield _made(made)
    for worker in made:
        worker.close()
