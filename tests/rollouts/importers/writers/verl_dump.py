# SPDX-License-Identifier: Apache-2.0
"""Writes verl's rollout dump: `python verl_dump.py FOLDER RAY_TRAINER`, with the path of verl's `ray_trainer.py`.

That module can't be imported without a cluster's worth of packages, and its writer needs nothing of them: the method
`RayPPOTrainer._dump_generations` is cut out of the file and called as it stands.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

QUESTIONS = {"1+1=": "2", "2+3=": "5", "9-2=": "7"}
# What balancing the batch over the ranks does to the order: no two rows of a prompt stand together.
BALANCED = (0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11)


def writer(ray_trainer: Path) -> Any:
    """The method, as a function."""
    tree = ast.parse(ray_trainer.read_text())
    method = next(
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_dump_generations"
    )
    found: dict[str, Any] = {"json": json, "os": os}
    exec(compile(ast.Module([method], []), str(ray_trainer), "exec"), found)  # noqa: S102  # verl's own file
    return found["_dump_generations"]


def write(folder: Path, dump: Any, order: tuple[int, ...], *, step: int) -> None:
    """Four completions of each question, in `order`, scored by equality up to white space and case."""
    rows = [
        (f"user\n{question}\nassistant\n", text, right)
        for question, right in QUESTIONS.items()
        for text in (right, f" {right}\n", f"{right}0", "")
    ]
    rows = [rows[at] for at in order]
    scores = [float(text.strip().casefold() == right) for _, text, right in rows]
    dump(
        SimpleNamespace(global_steps=step),
        inputs=[row[0] for row in rows],
        outputs=[row[1] for row in rows],
        gts=[row[2] for row in rows],
        scores=scores,
        reward_extra_infos_dict={"acc": [score == 1.0 for score in scores], "of_another_length": [1]},
        dump_path=str(folder),
    )


def main(folder: Path, ray_trainer: Path) -> None:
    """Step 1 as generated, step 2 as balanced."""
    dump = writer(ray_trainer)
    write(folder / "verl", dump, tuple(range(12)), step=1)
    write(folder / "verl", dump, BALANCED, step=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
