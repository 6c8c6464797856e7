# SPDX-License-Identifier: Apache-2.0
"""The example's judges run as documented, and its server makes what the schema of a judge allows, with a real model."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judging import answering, batch
from posttrain.judges import JudgeConfig, ListwiseJudge, PairwiseJudge, RubricItem, RubricJudge
from posttrain.rewards import RewardWorker
from posttrain.testing import FakeJudgeServer

Documented = Callable[[str], list[str]]


@pytest.fixture
def documented(repository: Path) -> Documented:
    """The documented command line, for one of the judges."""
    text = (repository / "examples/judges/catalog.py").read_text(encoding="utf-8").split('"""')[1]
    (found,) = re.findall(r"^ {4}posttrain ((?:.*\\\n)*.*)", text, re.MULTILINE)
    words = shlex.split(found.replace("\\\n", " "))
    assert words[-2:] == ["--reward", "rubric"]
    return lambda name: [*words[:-1], name]


def verdict(shown: dict[str, str]) -> Any:
    """Counts the candidate's lines."""
    if "response" in shown:
        return {"correct": 1, "steps": min(4, shown["response"].count("\n"))}
    if "first" in shown:
        first, second = shown["first"].count("\n"), shown["second"].count("\n")
        return {"winner": "first" if first > second else "second" if second > first else "tie"}
    return {name: min(10, text.count("\n")) for name, text in shown.items() if name not in ("prompt", "reference")}


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", ["rubric", "pairwise", "listwise"])
def test_the_documented_command_scores(
    name: str, documented: Documented, command: Any, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each judge of the catalog scores every rollout of the example file."""
    with FakeJudgeServer(answering(verdict)) as server:
        monkeypatch.setenv("JUDGE_BASE_URL", server.base_url)
        done = command(*documented(name), "--out", tmp_path / "out.jsonl", cwd=repository)
        assert (done.returncode, done.stderr) == (0, "")
    rollouts = rows_of(repository / "examples/rollouts/word_problems.jsonl")
    for row, rollout in zip(rows_of(tmp_path / "out.jsonl"), rollouts, strict=True):
        lines = rollout["completion"].count("\n")
        if name == "rubric":
            # (3 x 1 + 1 x lines / 4) / 4.
            assert row["reward"]["quality"] == pytest.approx((3 + min(4, lines) / 4) / 4)
        elif name == "listwise":
            assert row["reward"]["preference"] == min(10, lines)
        else:
            assert 0 < row["reward"]["preference"] < 1


@pytest.fixture(scope="module")
def serve_local(repository: Path) -> Any:
    """The server's module."""
    spec = importlib.util.spec_from_file_location("serve_local", repository / "examples/judges/serve_local.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tiny_model() -> tuple[Any, Any]:
    """A model of a few thousand random weights that reads and writes bytes."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({char: at for at, char in enumerate(alphabet)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")  # noqa: S106  # no password
    tokenizer.chat_template = "{% for each in messages %}{{ each['content'] }}\n{% endfor %}"
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=8192,
    )
    return transformers.LlamaForCausalLM(config).eval(), tokenizer


@pytest.fixture(scope="module")
def local_url(serve_local: Any) -> Iterator[str]:
    """That model behind the example's server."""
    model, tokenizer = tiny_model()
    with serve_local.Server(0, model, tokenizer, "tiny") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    "judge",
    [
        RubricJudge(items=[RubricItem("a", "A"), RubricItem("b", "B", scale=(1, 5), whole=True)], explain=True),
        PairwiseJudge(criteria="Better."),
        ListwiseJudge(criteria="Better.", scale=(0, 12), whole=True),
    ],
    ids=lambda judge: type(judge).__name__,
)
def test_the_local_server_holds_to_the_schema(judge: Any, local_url: str) -> None:
    """A model that knows nothing gives verdicts that every judge accepts, at once, the same each time."""
    config = JudgeConfig(model="tiny", revision="1", base_url=local_url, max_retries=0)
    rewards = []
    for _ in range(2):
        trajectories = batch({"g": ["42", "41"]})
        with RewardWorker(catalog={"judge": judge.spec(config)}, reward="judge", group_size=2) as worker:
            worker.score(trajectories)
        rewards.append([each.reward for each in trajectories])
    assert rewards[0] == rewards[1]


def test_options_come_from_the_schema(serve_local: Any) -> None:
    """Whole numbers one by one, other numbers in ten steps, and the values of an enumeration."""
    assert serve_local.options_of({"type": "integer", "minimum": 1, "maximum": 3}) == ["1", "2", "3"]
    assert serve_local.options_of({"type": "number", "minimum": 0.0, "maximum": 1.0})[:3] == ["0", "0.1", "0.2"]
    assert serve_local.options_of({"type": "string", "enum": ["first", "tie"]}) == ['"first"', '"tie"']
    assert serve_local.options_of({"type": "string"}) == []
