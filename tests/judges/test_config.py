# SPDX-License-Identifier: Apache-2.0
"""The config of a judge: what it refuses, what identifies it, what an answer is recorded under."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.judges.config import JudgeConfig
from posttrain.rewards.catalog.identity import identity_sha256

# Every field: another value, and whether the identity and the cache key are others with it.
MUTATIONS: dict[str, tuple[Any, bool, bool]] = {
    "model": ("other", True, True),
    "revision": ("2", True, True),
    "base_url": ("http://127.0.0.1:8001/v1", True, True),
    "preset": ("openai", True, False),  # the base URL is given; what is left of it is the credential
    "credential": ("OTHER_API_KEY", True, False),
    "temperature": (0.5, True, True),
    "top_p": (0.9, True, True),
    "max_tokens": (7, True, True),
    "seed": (1, True, True),
    "samples": (2, True, True),
    "structured_output": ("none", True, True),
    "extra_body": ({"top_k": 1}, True, True),
    "connect_timeout_s": (1.5, True, False),
    "read_timeout_s": (1.5, True, False),
    "total_timeout_s": (1.5, True, False),
    "max_retries": (1, True, False),
    "backoff_base_s": (0.25, True, False),
    "backoff_cap_s": (1.5, True, False),
    "concurrency": (1, True, False),
    "requests_per_minute": (10, True, False),
    "tokens_per_minute": (1000, True, False),
    "prompt_price_per_million": (1.0, False, False),  # a price reports, it decides nothing
    "completion_price_per_million": (2.0, False, False),
    "cache": ("answers.sqlite", False, False),  # this machine's own affair
    "max_response_bytes": (2048, True, False),
    "proxy_from_environment": (True, False, False),
}
# Prices come in pairs, so the config that is changed has both.
_PRICES = {"prompt_price_per_million": 0.5, "completion_price_per_million": 0.5}


def _config(**fields: Any) -> JudgeConfig:
    return JudgeConfig(**{"model": "m", "revision": "1", "base_url": "http://127.0.0.1:8000/v1", **fields})


def test_every_field_has_a_row() -> None:
    """A field that nobody has decided about fails here."""
    assert set(MUTATIONS) == {field.name for field in dataclasses.fields(JudgeConfig)}


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_a_field_changes(name: str) -> None:
    """Each field, changed alone, makes another identity and another cache key, or does not, as the table says."""
    value, in_identity, in_cache_key = MUTATIONS[name]
    one, other = _config(**_PRICES), _config(**{**_PRICES, name: value})
    assert getattr(one, name) != getattr(other, name)
    assert (identity_sha256(one.identity()) != identity_sha256(other.identity())) is in_identity
    assert (one.cache_identity() != other.cache_identity()) is in_cache_key


def test_the_identity_is_json_and_says_the_same_however_it_is_written() -> None:
    """A preset and its parts are one identity, as are 1 and 1.0 seconds and a slash at the end of the URL."""
    preset = _config(base_url=None, preset="openai")
    parts = _config(base_url="https://api.openai.com/v1/", credential="OPENAI_API_KEY", temperature=0)
    assert preset.identity() == parts.identity()
    assert json.loads(json.dumps(preset.identity())) == preset.identity()
    assert identity_sha256(_config(read_timeout_s=1).identity()) == identity_sha256(
        _config(read_timeout_s=1.0).identity()
    )


@pytest.mark.parametrize(
    ("preset", "url", "variable"),
    [
        ("nvidia_inference_hub", "https://inference-api.nvidia.com/v1", "NVIDIA_API_KEY"),
        ("nvidia_nim", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
        ("vllm", "http://localhost:8000/v1", None),
        ("sglang", "http://localhost:30000/v1", None),
        ("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    ],
)
def test_presets(preset: str, url: str, variable: str | None) -> None:
    """A preset is a base URL and the name of a variable, and each can be replaced."""
    config = JudgeConfig(model="m", revision="1", preset=preset)
    assert (config.url, config.credential_variable) == (url, variable)
    mine = JudgeConfig(model="m", revision="1", preset=preset, base_url="http://gpu7:9/v1", credential="MY_KEY")
    assert (mine.url, mine.credential_variable) == ("http://gpu7:9/v1", "MY_KEY")


def test_every_fault_is_told_at_once() -> None:
    """One error names each field that is wrong, what was expected and what came."""
    with pytest.raises(RewardConfigError, match="JudgeConfig is not valid") as caught:
        JudgeConfig(
            model=" ",
            revision=1,  # type: ignore[arg-type]  # the mistake under test
            preset="nim",
            temperature=float("nan"),
            top_p=0,
            max_tokens=True,
            samples=0,
            structured_output="xml",  # type: ignore[arg-type]  # as above
            extra_body={"stream": True, "x": {1}, "api_key": "k"},
            total_timeout_s=0,
            max_retries=-1,
            concurrency=0,
            requests_per_minute=0,
            prompt_price_per_million=1.0,
            cache="",
            proxy_from_environment=1,  # type: ignore[arg-type]  # as above
        )
    lines = caught.value.message.splitlines()[1:]
    names = [line.strip().partition(":")[0].partition(".")[0] for line in lines]
    assert names == [
        *("model", "revision", "cache", "structured_output", "proxy_from_environment", "preset"),
        *("temperature", "top_p", "total_timeout_s", "samples", "max_retries", "concurrency", "max_tokens"),
        *("requests_per_minute", "prompt_price_per_million and completion_price_per_million", "extra_body"),
    ]
    assert "expected a number above 0 and at most 1, or None, got 0 (int)" in caught.value.message


@pytest.mark.parametrize("name", ["stream", "n", "messages", "model", "temperature", "response_format"])
def test_an_extra_field_may_not_replace_one_of_the_judges(name: str) -> None:
    """What the judge sets itself can't be changed behind its back."""
    with pytest.raises(RewardConfigError, match=f"extra_body: '{name}' is set by the judge itself"):
        _config(extra_body={name: 1})


@pytest.mark.parametrize("name", ["api_key", "Authorization", "API-KEY", "password"])
def test_an_extra_field_may_not_be_a_secret(name: str) -> None:
    """A field that is named as a secret is refused, and its value is not shown."""
    with pytest.raises(RewardConfigError, match="looks like a secret") as caught:
        _config(extra_body={name: "hunter2hunter2"})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(RewardConfigError, match="looks like a secret") as caught:
        _config(extra_body={"upstream": [{"headers": {f"x-{name}": "hunter2hunter2"}}]})
    assert "hunter2" not in str(caught.value)


def test_the_extra_body_is_frozen() -> None:
    """What the caller does to his mapping afterwards changes nothing."""
    mine = {"chat_template_kwargs": {"enable_thinking": False}}
    config = _config(extra_body=mine)
    mine["chat_template_kwargs"]["enable_thinking"] = True
    assert config.extra_body == {"chat_template_kwargs": {"enable_thinking": False}}
    with pytest.raises(TypeError, match="frozen"):
        config.extra_body["x"] = 1  # type: ignore[index]  # the mistake under test


@pytest.mark.parametrize(
    "key",
    [
        "nvapi-Ab1_cd2Ef3gh4Ij5kl6Mn7op8",
        "sk-proj-abcdefgh12345678",
        "hf_AbCdEfGhIjKlMnOpQrStUvWx",
        "AKIAABCDEFGHIJKLMNOP",
        "A1B2C3D4E5F6A7B8C9D0E1F2",
        "my key",
        "",
    ],
)
def test_a_key_in_the_place_of_its_name_is_refused_and_not_shown(key: str) -> None:
    """What is no name of a variable may be the key itself: neither the error nor anything else shows it."""
    with pytest.raises(RewardConfigError, match="expected the NAME of an environment variable") as caught:
        _config(credential=key)
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("http://user:hunter2@host/v1", "holds a user name or password"),
        ("http://host/v1?api-key=hunter2", "has a query or a fragment"),
        ("http://host/v1#hunter2", "has a query or a fragment"),
        ("ftp://host/v1", "expected http:// or https:// and a host"),
        ("file:///etc/passwd", "expected http:// or https:// and a host"),
        ("localhost:8000", "expected http:// or https:// and a host"),
        ("http:///v1", "expected http:// or https:// and a host"),
        ("http://host:99999/v1", "can't be read"),
        ("http://ho st/v1", "without spaces"),
        ("http://host/v1?", "leave out all from '\\?'"),
        ("http://host/v1#", "leave out all from '\\?'"),
        ("http://host/v1/chat/completions", "leave out /chat/completions"),
        (8000, "expected a text"),
    ],
)
def test_a_base_url_that_can_not_be_one(url: Any, fault: str) -> None:
    """It is refused with the reason; what may be a secret in it is not shown."""
    with pytest.raises(RewardConfigError, match=fault) as caught:
        _config(base_url=url)
    assert "hunter2" not in str(caught.value)


def test_neither_url_nor_preset() -> None:
    """One of the two is needed."""
    with pytest.raises(RewardConfigError, match="base_url: set it, or a preset of nvidia_inference_hub"):
        JudgeConfig(model="m", revision="1")


@pytest.mark.parametrize(
    "model",
    [
        *("gpt-4o", "gpt-4.1-mini", "openai/openai/gpt-5", "chatgpt-4o-latest", "o3", "o4-mini", "claude-sonnet-4"),
        *("gemini-2.5-pro", "grok-4", "mistral-large-latest", "judge:latest", "my-judge@main", "default", "a-preview"),
    ],
)
def test_a_floating_alias_draws_a_caution(model: str) -> None:
    """A hosted name without a snapshot, or one that says so itself, is told once, and is no error."""
    (caution,) = _config(model=model).cautions()
    assert repr(model) in caution
    assert "name a dated one" in caution


@pytest.mark.parametrize(
    "model",
    [
        *("gpt-4o-2024-08-06", "gpt-4-0613", "claude-sonnet-4-20250514", "gemini-1.5-pro-002", "mistral-large-2411"),
        *("gpt-oss-120b", "meta/llama-3.3-70b-instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", "mainframe-7b"),
        *("org/judge@0123abc", "gemini-2.5-pro-preview-05-06", "Qwen/Qwen2.5-7B-Instruct"),
    ],
)
def test_a_lasting_name_draws_none(model: str) -> None:
    """A dated snapshot, a numbered one, a commit and the name of open weights pass."""
    assert _config(model=model).cautions() == ()


def test_a_key_in_clear_draws_a_caution() -> None:
    """A key that would leave this machine without encryption is told."""
    (caution,) = _config(base_url="http://gpu7:8000/v1", credential="MY_KEY").cautions()
    assert caution == "the key of MY_KEY is sent to http://gpu7:8000/v1 without encryption: use https"
    assert _config(base_url="https://gpu7:8000/v1", credential="MY_KEY").cautions() == ()
    assert _config(credential="MY_KEY").cautions() == ()


def test_the_config_needs_the_standard_library_alone(fresh_python: Callable[[str], str]) -> None:
    """Importing it loads neither the HTTP client nor anything else that is installed."""
    program = (
        "import sys, importlib\n"
        "importlib.import_module('posttrain.judges.config')\n"
        "roots = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(roots & {'aiohttp', 'asyncio', 'sqlite3', 'numpy', 'torch', 'yarl'}))"
    )
    assert fresh_python(program).strip() == "[]"
