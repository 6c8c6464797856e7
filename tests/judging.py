# SPDX-License-Identifier: Apache-2.0
"""Reads a judge's question as the model would, answers it, and builds the groups that are judged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posttrain.judges import JudgeConfig
from posttrain.judges.method import JudgeMethod
from posttrain.rewards import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.schema import Observation, Trajectory
from posttrain.testing import FakeJudgeServer, JudgeRequest

__all__ = ["Verdict", "answering", "asked", "batch", "blocks_of", "config_of", "group", "settled", "user_of"]

_BLOCK = re.compile(r"<<<(\w+) ([0-9a-f]{16,})\n(.*?)\n\2 \1>>>", re.DOTALL)

Verdict = Callable[[dict[str, str]], Any]
"""Blocks of a question, in the order in which they are shown, to the verdict: JSON, or the reply's text itself."""


def blocks_of(message: str) -> dict[str, str]:
    """Name to text of every block of a message; a JSON string is read as such where it is one."""
    return {name: _read(body) for name, _, body in _BLOCK.findall(message)}


def _read(body: str) -> str:
    if body[:1] == '"' and body[-1:] == '"':
        try:
            text: str = json.loads(body)
        except ValueError:
            return body
        return text
    return body


def user_of(call: Any) -> str:
    """The user message of a call."""
    content: str = call.messages[1]["content"]
    return content


def reply_to(verdict: Verdict, message: str) -> str:
    """The text of the judge's reply to a message."""
    answer = verdict(blocks_of(message))
    return answer if isinstance(answer, str) else json.dumps(answer)


def answering(verdict: Verdict) -> Callable[[JudgeRequest], str]:
    """A script for `FakeJudgeServer` that answers each question by `verdict`."""
    return lambda request: reply_to(verdict, request.body["messages"][1]["content"])


def asked(server: FakeJudgeServer) -> list[dict[str, str]]:
    """The blocks of each question that came."""
    return [blocks_of(request.body["messages"][1]["content"]) for request in server.requests]


def config_of(server: FakeJudgeServer, **settings: Any) -> JudgeConfig:
    """A config for that server that retries once, at once."""
    fields = {"model": "fake", "revision": "1", "base_url": server.base_url, "max_retries": 1, "backoff_base_s": 0.001}
    return JudgeConfig(**{**fields, **settings})


def settled(judge: JudgeMethod, request: RewardGroupRequest, verdict: Verdict, samples: int = 1) -> Any:
    """What a judge makes of a group when `verdict` answers each of its questions, without any endpoint."""
    plan = judge.plan(request, samples)
    return plan.settle([call.parse(reply_to(verdict, user_of(call))) for call in plan.calls])


def group(
    *completions: str,
    prompt: Any = "What is 6 x 7?",
    reference: Any = None,
    ids: Sequence[str] | None = None,
    cut: Sequence[int] = (),
) -> RewardGroupRequest:
    """A request with these completions; `cut` are the places of those that the engine cut."""
    names = ids or [f"t{at}" for at in range(len(completions))]
    candidates = tuple(
        RewardCandidate(name, text, finish_reason="length" if at in cut else "stop")
        for at, (name, text) in enumerate(zip(names, completions, strict=True))
    )
    return RewardGroupRequest("g", candidates, RewardContext(prompt, reference))


def batch(
    groups: Mapping[str, Sequence[str]], prompt: Any = "What is 6 x 7?", reference: Any = None
) -> list[Trajectory]:
    """Trajectories of these completions, by group id; the ids are ``<group>/<place>``."""
    return [
        Trajectory(
            trajectory_id=f"{name}/{at}",
            group_id=name,
            obs=Observation(id=name, prompt=prompt, reference=reference),
            completion=text,
            policy_info={"finish_reason": "stop"},
        )
        for name, texts in groups.items()
        for at, text in enumerate(texts)
    ]
