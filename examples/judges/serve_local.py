# SPDX-License-Identifier: Apache-2.0
"""A small language model behind an OpenAI-compatible endpoint on this machine, for trying judges without a key.

It needs transformers and torch, and a model on disk: a folder as transformers saves it, or a GGUF file:

    python examples/judges/serve_local.py path/to/model --port 8000
    python examples/judges/serve_local.py path/to/SmolLM2-135M-Instruct.Q4_1.gguf --port 8000

One request at a time. A JSON schema is held to while the text is made: keys are written for the model, and each value
is chosen from what the schema allows, token by token, by the model's own chances (at temperature 0 the likeliest). For
many requests serve the model with vLLM or SGLang; the judge's config is the same but for the URL.
"""

from __future__ import annotations

import argparse
import inspect
import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

GRID = 10
"""A number is chosen from so many steps between the ends of its scale."""
LONGEST_TEXT = 96
"""Tokens of a free text inside a JSON object."""


def options_of(schema: dict[str, Any]) -> list[str]:
    """What a property may be, as JSON; empty for free text."""
    if "enum" in schema:
        return [json.dumps(value) for value in schema["enum"]]
    if schema["type"] == "boolean":
        return ["true", "false"]
    if schema["type"] == "string":
        return []
    low, high = schema.get("minimum", 0), schema.get("maximum", 10)
    if schema["type"] == "integer":
        return [str(value) for value in range(int(low), int(high) + 1)]
    return [f"{low + (high - low) * step / GRID:.3g}" for step in range(GRID + 1)]


class Writer:
    """One answer in the making: the tokens so far, and what the model thinks comes next."""

    def __init__(self, model: Any, tokenizer: Any, prompt: Sequence[int], temperature: float, seed: int | None) -> None:
        import torch
        from transformers import DynamicCache

        self.torch, self.model, self.tokenizer = torch, model, tokenizer
        self.temperature = temperature
        self.draw = torch.Generator().manual_seed(0 if seed is None else seed)
        # Releases of transformers differ in what they call it.
        parameters = inspect.signature(model.forward).parameters
        self.cache = {"cache" if "cache" in parameters else "past_key_values": DynamicCache(config=model.config)}
        self.made: list[int] = []
        self.logits = self._read(prompt)

    def _read(self, tokens: Sequence[int]) -> Any:
        with self.torch.inference_mode():
            out = self.model(self.torch.tensor([list(tokens)]), use_cache=True, logits_to_keep=1, **self.cache)
        return out.logits[0, -1].float()

    def write(self, text: str) -> None:
        """Put text there for the model."""
        tokens = self.tokenizer.encode(text, add_special_tokens=False)
        self.made += tokens
        self.logits = self._read(tokens)

    def step(self, allowed: Sequence[int] | None = None) -> int:
        """Let the model write one token, of those that are allowed."""
        logits = self.logits
        if allowed is not None:
            masked = self.torch.full_like(logits, -self.torch.inf)
            masked[list(allowed)] = logits[list(allowed)]
            logits = masked
        if self.temperature > 0:
            chances = self.torch.softmax(logits / self.temperature, -1)
            token = int(self.torch.multinomial(chances, 1, generator=self.draw))
        else:
            token = int(logits.argmax())
        self.made.append(token)
        self.logits = self._read([token])
        return token

    def choose(self, options: Sequence[str]) -> str:
        """Let the model write one of some texts, none of which begins another."""
        paths = {text: self.tokenizer.encode(text, add_special_tokens=False) for text in options}
        at = 0
        while len(paths) > 1:
            token = self.step(sorted({path[at] for path in paths.values()}))
            at += 1
            paths = {text: path for text, path in paths.items() if path[at - 1] == token}
        ((text, path),) = paths.items()
        if path[at:]:
            self.made += path[at:]
            self.logits = self._read(path[at:])
        return text

    def free(self, most: int, stops: Sequence[str]) -> tuple[str, bool]:
        """Let the model write; gives the text and whether it came to an end by itself."""
        begun = len(self.made)
        while len(self.made) - begun < most:
            if self.step() == self.tokenizer.eos_token_id:
                return self.tokenizer.decode(self.made[begun:-1]), True
            text = self.tokenizer.decode(self.made[begun:])
            for stop in stops:
                if stop in text:
                    return text.split(stop)[0], True
        return self.tokenizer.decode(self.made[begun:]), False


def fill(writer: Writer, schema: dict[str, Any]) -> str:
    """One JSON object of a flat schema."""
    text = "{"
    names = list(schema["properties"])
    for name in names:
        end = "}" if name == names[-1] else ", "
        key = f"{json.dumps(name)}: "
        writer.write(text[-1:] + key if text == "{" else key)
        text += key
        if options := options_of(schema["properties"][name]):
            text += writer.choose([option + end for option in options])
        else:
            writer.write('"')
            said, _ = writer.free(LONGEST_TEXT, ['"', "\n"])
            writer.write('"' + end)
            text += json.dumps(said) + end
    return text


class Server(ThreadingHTTPServer):
    """Answers with one model, one request after the other."""

    daemon_threads = True

    def __init__(self, port: int, model: Any, tokenizer: Any, name: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.turn = threading.Lock()

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """A chat completion."""
        prompt = self.tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, tokenize=True, return_dict=False
        )
        with self.turn:
            writer = Writer(self.model, self.tokenizer, prompt, body.get("temperature", 1.0), body.get("seed"))
            form = body.get("response_format") or {}
            if form.get("type") == "json_schema":
                text, ended = fill(writer, form["json_schema"]["schema"]), True
            else:
                text, ended = writer.free(body.get("max_tokens", 256), [])
        return {
            "object": "chat.completion",
            "model": self.name,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop" if ended else "length",
                }
            ],
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(writer.made)},
        }


class Handler(BaseHTTPRequestHandler):
    """The two addresses that judges and people use."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """The model's name."""
        self._send(200, {"object": "list", "data": [{"id": self.server.name, "object": "model"}]})

    def do_POST(self) -> None:
        """A chat completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/chat/completions":
            self._send(200, self.server.complete(body))
        else:
            self._send(404, {"error": {"message": f"nothing at {self.path}"}})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def load(path: Path) -> tuple[Any, Any]:
    """The model and its tokenizer, from a folder or a GGUF file."""
    import torch
    import transformers

    torch.set_num_threads(1)
    gguf = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    folder = str(path.parent if gguf else path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **gguf)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **gguf)
    model.train(mode=False)
    return model, tokenizer


def main() -> None:
    """Load the model and serve it until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder, or a GGUF file")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--name", default="SmolLM2-135M-Instruct", help="what clients call the model")
    given = parser.parse_args()
    model, tokenizer = load(given.model)
    with Server(given.port, model, tokenizer, given.name) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
