# SPDX-License-Identifier: Apache-2.0
"""The whole provider spec of a judge."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Final

from posttrain.errors import RewardConfigError, describe
from posttrain.frozen import Json
from posttrain.judges.config import JudgeConfig
from posttrain.judges.diagnostics import AGREEMENT, COMMON, COST
from posttrain.judges.method import JudgeMethod
from posttrain.judges.provider import JudgeProvider
from posttrain.judges.replies import PARSER_VERSION
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec

__all__ = ["content_sha256", "judge_spec"]

_JUDGE_VERSION: Final = 1
"""Part of every judge's content: changes whenever the code could ask or aggregate in another way."""
_MOST_GROUPS: Final = 512
_FAILURE_POLICY: Final = "a group is scored from all of its answers, every sample included, or not at all"


def content_sha256(method: JudgeMethod) -> str:
    """SHA-256 of the complete judge content: everything that decides a question or what its answer means."""
    content: Json = {"judge": method.content(), "judge_version": _JUDGE_VERSION, "parser_version": PARSER_VERSION}
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def judge_spec(method: JudgeMethod, config: JudgeConfig) -> RewardProviderSpec:
    """The spec: terms, diagnostics, identity, and enough groups in flight to fill the declared concurrency.

    How large a group will be is not known here. So many groups may be in flight that even the smallest, with the
    fewest calls each, keep `JudgeConfig.concurrency` calls going while one of them ends; larger groups queue at the
    endpoint's limit, which costs no more than a waiting thread each. `rl.reward_stage.groups_in_flight` may lower it.
    """
    if not isinstance(config, JudgeConfig):
        raise RewardConfigError(f"spec takes a JudgeConfig, got {describe(config)}")
    sha256 = content_sha256(method)
    extra = [COST] if config.prompt_price_per_million is not None else []
    extra += [AGREEMENT] if config.samples > 1 else []
    least = method.least_calls * config.samples
    return RewardProviderSpec(
        factory=partial(JudgeProvider, method, config, sha256),
        revision=config.revision,
        terms=method.terms,
        needs=method.needs,
        diagnostics=(*COMMON, *method.diagnostics, *extra),
        semantic_identity={
            "judge": type(method).__name__,
            "content_sha256": sha256,
            "endpoint": config.identity(),
            "failure_policy": _FAILURE_POLICY,
        },
        execution=ProviderExecution(
            groups_in_flight=min(_MOST_GROUPS, -(-config.concurrency // least) + 1),
            # With a cache the answers that came before the loss of a worker are found again, and nothing is paid twice.
            repeatable=config.cache is not None,
        ),
    )
