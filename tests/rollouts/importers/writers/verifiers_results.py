# SPDX-License-Identifier: Apache-2.0
"""Writes verifiers' saved results: `python verifiers_results.py FOLDER`, run where verifiers 0.3.1 is installed.

`Environment.evaluate(save_results=True)`, which is what `vf-eval --save-results` calls, against a chat endpoint on this
machine whose answers are known.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import shutil
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

ROLLOUTS = 4
QUESTIONS = {"1+1=": "2", "2+3=": "5", "9-2=": "7"}


class Answers(BaseHTTPRequestHandler):
    """A chat endpoint: right, right but for white space, wrong and cut, wrong."""

    asked: dict[str, int] = {}  # noqa: RUF012  # one process, one run
    lock = Lock()

    def do_POST(self) -> None:
        """One completion."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = request["messages"][-1]["content"]
        with self.lock:
            self.asked[question] = at = self.asked.get(question, -1) + 1
        right = QUESTIONS[question]
        text = (right, f" {right}\n", f"{right}0", "none")[at % ROLLOUTS]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "length" if at % ROLLOUTS == 2 else "stop",
        }
        body = json.dumps(
            {
                "id": "chat",
                "object": "chat.completion",
                "created": 0,
                "model": request["model"],
                "choices": [choice],
                "usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def exact(completion: list[Any], answer: str, **_: object) -> float:
    """1.0 where the text is the answer up to white space and case."""
    last = completion[-1]
    text = last["content"] if isinstance(last, dict) else last.content
    return float(text.strip().casefold() == answer)


def main(folder: Path) -> None:
    """Evaluate three examples, four rollouts each, and copy the results to `folder`."""
    verifiers: Any = importlib.import_module("verifiers")
    types: Any = importlib.import_module("verifiers.legacy.types")
    datasets: Any = importlib.import_module("datasets")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    os.environ["FAKE_KEY"] = "none"
    rows = [{"question": question, "answer": answer} for question, answer in QUESTIONS.items()]
    environment = verifiers.SingleTurnEnv(
        dataset=datasets.Dataset.from_list(rows), rubric=verifiers.Rubric(funcs=[exact])
    )
    (folder / "verifiers").mkdir(parents=True, exist_ok=True)
    client = types.ClientConfig(api_key_var="FAKE_KEY", api_base_url=f"http://127.0.0.1:{server.server_port}/v1")
    # Scored one by one, the rollouts are saved round after round: those of an example lie apart.
    for name, independent in (("results", False), ("results-independent", True)):
        with tempfile.TemporaryDirectory() as results:
            asyncio.run(
                environment.evaluate(
                    client,
                    model="fake",
                    rollouts_per_example=ROLLOUTS,
                    max_concurrent=1,
                    results_path=Path(results),
                    save_results=True,
                    independent_scoring=independent,
                )
            )
            shutil.copy(Path(results, "results.jsonl"), folder / "verifiers" / f"{name}.jsonl")
    server.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
