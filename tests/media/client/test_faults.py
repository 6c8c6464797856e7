# SPDX-License-Identifier: Apache-2.0
"""The fault matrix: for each misbehaviour of the service what the client does, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest

from posttrain.errors import RewardError
from reward_service_faults import DEADLINE, FAULTS, TOKEN, Fault, children, run_fault

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at what is left through /proc")


def _held() -> tuple[list[int], int, int]:
    """Children, open descriptors and threads of this process."""
    return children(), len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208  # names are enough


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_each_fault_has_its_outcome_and_leaves_nothing(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error or the score, the requests made, the orphans; no process, descriptor, thread or file stays."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = _held()
    done = run_fault(fault)
    assert _held() == before
    assert list(tmp_path.iterdir()) == []

    assert done.name == fault.outcome, str(done.result)
    assert done.enqueues == fault.enqueues
    at_least = int(fault.pulls.rstrip("+"))
    assert done.pulls >= at_least if fault.pulls.endswith("+") else done.pulls == at_least
    assert done.orphans == fault.orphans
    if isinstance(done.result, RewardError):
        assert re.search(fault.says, str(done.result)), str(done.result)
        assert TOKEN not in str(done.result)
    # A bound that a busy machine keeps, far above the largest of the fault's own.
    assert done.seconds < 20 + DEADLINE


def test_the_documented_matrix_is_this_one(repository: Path) -> None:
    """Every fault stands in the document with the outcome that is pinned here, and no other does."""
    text = (repository / "docs" / "reward-service-faults.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")][2:]
    documented = {row[0]: (row[1], int(row[2]), int(row[5]), row[6]) for row in rows}
    assert documented == {fault.what: (fault.outcome, fault.enqueues, fault.orphans, "nothing") for fault in FAULTS}
