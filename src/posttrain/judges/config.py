# SPDX-License-Identifier: Apache-2.0
"""How a judge is reached and asked: one frozen value, from the standard library alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, final
from urllib.parse import urlsplit

from posttrain.errors import RewardConfigError, listing
from posttrain.frozen import FrozenJson, freeze
from posttrain.judges.config_faults import config_faults
from posttrain.judges.floating import floating_alias
from posttrain.judges.presets import PRESETS

__all__ = ["JudgeConfig", "StructuredOutput"]

StructuredOutput: TypeAlias = Literal["json_schema", "json_object", "none"]
"""What the endpoint is asked to hold the answer to: a schema, any JSON object, or nothing. Answers are parsed strictly
in each case."""

_FAILURE_POLICY: Final = (
    "408, 409, 429, 5xx, transport errors and unusable answers are retried until the deadline, then unavailable; "
    "other statuses are final"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfig:
    """An OpenAI-compatible endpoint, a model behind it, and how it is asked.

    Nothing is read or called when one is made: no key, no network. Fields that decide a score are part of the
    identity; those that decide an answer are part of the cache key; see `identity` and `cache_identity`.

    Raises:
        RewardConfigError: naming every field that is not valid.

    Example:
        ::

            JudgeConfig(model="nvidia/llama-3.3-nemotron-super-49b-v1.5", revision="2026-11", preset="nvidia_nim")
            JudgeConfig(model="HuggingFaceTB/SmolLM2-135M-Instruct", revision="1", base_url="http://gpu7:8000/v1")
    """

    model: str
    """The name by which the endpoint knows the model."""
    revision: str
    """Your own mark of this judge; change it when the model behind the name changes."""
    base_url: str | None = None
    """Up to and without ``/chat/completions``, for example ``http://localhost:8000/v1``; by default the preset's."""
    preset: str | None = None
    """``nvidia_inference_hub``, ``nvidia_nim``, ``vllm``, ``sglang`` or ``openai``: a base URL and a credential."""
    credential: str | None = None
    """NAME of the environment variable with the key, never the key; by default the preset's; None: no key is sent."""
    temperature: float | None = 0.0
    """0 or more; None: it is not sent, for models that refuse it."""
    top_p: float | None = 1.0
    """Above 0, at most 1; None: it is not sent."""
    max_tokens: int | None = 1024
    """Tokens that an answer may have, reasoning included; None: it is not sent, for models that want
    ``max_completion_tokens`` in `extra_body` instead."""
    seed: int | None = None
    """Sent with each request, plus the sample's index; None: none is sent."""
    samples: int = 1
    """How often each question is asked; at least 1."""
    structured_output: StructuredOutput = "json_schema"
    """What the endpoint is asked to hold the answer to."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """JSON fields that are added to each request, for example ``{"chat_template_kwargs": {"enable_thinking": False}}``;
    frozen."""
    connect_timeout_s: float = 10.0
    """Seconds to reach the endpoint, name look-up and TLS included."""
    read_timeout_s: float = 120.0
    """Seconds from the connection to the whole answer, of each attempt."""
    total_timeout_s: float = 300.0
    """Seconds from the first attempt to the accepted answer, retries and the waits between them included; what a call
    waits for its first turn under the limits does not count."""
    max_retries: int = 6
    """Attempts after the first, at least 0."""
    backoff_base_s: float = 0.5
    """Longest wait before the first retry; it doubles with each, and half to the whole of it is drawn."""
    backoff_cap_s: float = 30.0
    """What that wait never exceeds. A ``Retry-After`` of the endpoint may be longer, and is kept."""
    concurrency: int = 64
    """Calls in flight at once, over all groups, threads and judges of this process that share URL, model and key."""
    requests_per_minute: int | None = None
    """Calls in any 60 seconds, shared likewise; None: no limit."""
    tokens_per_minute: int | None = None
    """Prompt and answer tokens in any 60 seconds, shared likewise: estimated before a call, corrected after it."""
    prompt_price_per_million: float | None = None
    """Price of a million prompt tokens, in the currency of your choice; with the other, `JudgeAnswer.cost` is told."""
    completion_price_per_million: float | None = None
    """Price of a million answer tokens."""
    cache: str | None = None
    """File of recorded answers; None: none. It is this machine's own affair and no part of the identity."""
    max_response_bytes: int = 4 * 1024 * 1024
    """An answer that is longer is refused."""
    proxy_from_environment: bool = False
    """Whether ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` are heeded; no part of the identity."""

    def __post_init__(self) -> None:
        """Refuse what is not valid, all at once, and settle what the preset gives."""
        faults = config_faults(self)
        if faults:
            raise RewardConfigError(f"JudgeConfig is not valid:\n{listing(faults)}")
        object.__setattr__(self, "extra_body", freeze(self.extra_body, "extra_body"))

    @property
    def url(self) -> str:
        """The base URL in use, without a slash at its end."""
        given = self.base_url if self.base_url is not None else PRESETS[str(self.preset)].base_url
        return given.rstrip("/")

    @property
    def credential_variable(self) -> str | None:
        """Name of the variable in use; None: no key is sent."""
        if self.credential is not None or self.preset is None:
            return self.credential
        return PRESETS[self.preset].credential

    def identity(self) -> dict[str, FrozenJson]:
        """Everything here that decides a score, for `semantic_identity`: names and numbers, never a key."""
        return {
            **self.cache_identity(),
            "credential": self.credential_variable,
            "connect_timeout_s": float(self.connect_timeout_s),
            "read_timeout_s": float(self.read_timeout_s),
            "total_timeout_s": float(self.total_timeout_s),
            "max_retries": self.max_retries,
            "backoff_base_s": float(self.backoff_base_s),
            "backoff_cap_s": float(self.backoff_cap_s),
            "concurrency": self.concurrency,
            "requests_per_minute": self.requests_per_minute,
            "tokens_per_minute": self.tokens_per_minute,
            "max_response_bytes": self.max_response_bytes,
            "failure_policy": _FAILURE_POLICY,
        }

    def cache_identity(self) -> dict[str, FrozenJson]:
        """Everything here that decides an answer: part of the key of a recorded one. No timeout, no limit."""
        return {
            "model": self.model,
            "revision": self.revision,
            "base_url": self.url,
            "temperature": None if self.temperature is None else float(self.temperature),
            "top_p": None if self.top_p is None else float(self.top_p),
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "samples": self.samples,
            "structured_output": self.structured_output,
            "extra_body": self.extra_body,
        }

    def cautions(self) -> tuple[str, ...]:
        """What may surprise, one line each: a model name that may mean another model tomorrow, a key sent in clear."""
        found = []
        if (why := floating_alias(self.model)) is not None:
            found.append(why)
        if self.credential_variable is not None and self._in_clear():
            found.append(f"the key of {self.credential_variable} is sent to {self.url} without encryption: use https")
        return tuple(found)

    def _in_clear(self) -> bool:
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}
