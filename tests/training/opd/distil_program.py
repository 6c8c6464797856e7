# SPDX-License-Identifier: Apache-2.0
"""What the ranks of `test_two_ranks` run: steps of distillation with a different number of tokens on each rank."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from integrations.spy import config, rows, worker_telling
from posttrain.errors import RewardError
from posttrain.training.opd.teacher import weights_sha256
from training.opd.distilling import DistillingSpy, spread, tiny_teacher

RANK = int(os.environ.get("RANK", "0"))


def _step(folder: str, name: str) -> dict[str, Any]:
    """Two steps over 12 completions: three groups of four, six completions a rank."""
    teacher = tiny_teacher()
    if name == "not finite" and RANK == 1:
        with torch.no_grad():
            teacher.get_output_embeddings().weight[3] = float("nan")
    args = config(Path(folder), per_device_train_batch_size=6, max_steps=2, ddp_timeout=60)
    settings = {"train_dataset": rows(3), "ranks_timeout_s": 20.0, "ends": (0, 1, 3, 4) if RANK == 0 else ()}
    divergence = "sampled" if name == "sampled" else "full"
    spy = DistillingSpy(args, worker_telling(spread), teacher=teacher, divergence=divergence, **settings)
    try:
        spy.train()
    except RewardError as error:
        return {"error": [type(error).__name__, str(error), spy.state.global_step]}
    model: Any = spy.model
    return {
        "weights": weights_sha256(model),
        "tokens": int(spy.inputs[0]["completion_mask"].sum()),
        "num_items": float(spy.inputs[0]["num_items_in_batch"]),
        "divergence": spy.logged["train/opd/reverse_kl"],
        "loss": spy.logged["loss"],
    }


def main(folder: str, *names: str) -> int:
    """Run the scenarios."""
    ends = {name: _step(folder, name) for name in names}
    Path(folder, f"rank-{RANK}.json").write_text(json.dumps({"pid": os.getpid(), **ends}))
    return 0


if __name__ == "__main__":
    # No clean end of the process group: the ranks that are gone would be waited for.
    os._exit(main(*sys.argv[1:]))
