# SPDX-License-Identifier: Apache-2.0
"""Writes inspect_ai's logs: `python inspect_log.py FOLDER`, run where inspect_ai 0.3.285 is installed.

A real evaluation of four epochs against `mockllm/model`, whose outputs are known, scored by inspect_ai's `exact`.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

EPOCHS = 4
QUESTIONS = {"q1": ("1+1=", "2"), "q2": ("2+3=", "5"), "q3": ("9-2=", "7")}
REASONS = ("stop", "stop", "max_tokens", "content_filter")


def write(folder: Path, *, kind: str) -> None:
    """Evaluate, and copy the log to `folder`."""
    inspect_ai: Any = importlib.import_module("inspect_ai")
    dataset: Any = importlib.import_module("inspect_ai.dataset")
    models: Any = importlib.import_module("inspect_ai.model")
    scorer: Any = importlib.import_module("inspect_ai.scorer")
    asked: dict[str, int] = {}

    def answer(messages: list[Any], *_: object) -> Any:
        question = messages[-1].text
        right = next(target for text, target in QUESTIONS.values() if text == question)
        asked[question] = at = asked.get(question, -1) + 1
        text = (right, f" {right}\n", f"{right}0", "none")[at % EPOCHS]
        output = models.ModelOutput.from_content("mockllm/model", text, stop_reason=REASONS[at % EPOCHS])
        # Given, since mockllm would count tokens with a vocabulary that it would have to download.
        output.usage = models.ModelUsage(input_tokens=4, output_tokens=2, total_tokens=6)
        return output

    task = inspect_ai.Task(
        dataset=[dataset.Sample(input=text, target=target, id=name) for name, (text, target) in QUESTIONS.items()],
        scorer=scorer.exact(),
        epochs=EPOCHS,
        name="sums",
    )
    with tempfile.TemporaryDirectory() as logs:
        inspect_ai.eval(
            task,
            model=models.get_model("mockllm/model", custom_outputs=answer),
            log_dir=logs,
            log_format=kind,
            display="none",
            max_samples=1,
        )
        (log,) = Path(logs).glob(f"*.{kind}")
        shutil.copy(log, folder / f"sums.{kind}")


def main(folder: Path) -> None:
    """Both formats of a log."""
    (folder / "inspect").mkdir(parents=True, exist_ok=True)
    for kind in ("eval", "json"):
        write(folder / "inspect", kind=kind)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
