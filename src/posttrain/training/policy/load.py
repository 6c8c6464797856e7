# SPDX-License-Identifier: Apache-2.0
"""`load_policy`: the model, the tokenizer and the adapters that ``rl.policy`` describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError, text_of
from posttrain.runs.config.policy import PolicyConfig
from posttrain.training.policy.gguf import load_gguf
from posttrain.training.tiny.model import tiny_llama
from posttrain.training.tiny.tokenizer import character_tokenizer
from posttrain.training.tiny.warm_start import warm_start

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["GGUF", "TINY", "Policy", "load_policy"]

TINY: Final = "tiny"
"""The model that is made in the process."""
GGUF: Final = "gguf:"
"""Begins the name of a GGUF file."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A model with its tokenizer, in float32 on the CPU; a trainer moves it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    adapters: Any = None
    """Config of the LoRA adapters that are to be trained; None: all weights are."""
    is_fetched: bool = False
    """Whether its name alone gives the same weights again: it was neither made nor changed here."""


def load_policy(
    settings: PolicyConfig,
    rows: Callable[[], Sequence[Mapping[str, Any]]],
    *,
    is_resumed: bool = False,
    watch: Callable[[int], None] | None = None,
) -> Policy:
    """The policy that a run starts from.

    Args:
        settings: ``rl.policy``, with a model.
        rows: gives training rows with ``prompt`` and ``reference``, for the warm start.
        is_resumed: what is trained comes from a checkpoint afterwards.
        watch: told the number of each step of the warm start.

    Raises:
        RewardConfigError: there is no such model, or it can't be read.
        RewardContractError: a row can't be trained on as it is.
        RewardUnavailableError: the hub could not answer.
    """
    name = str(settings.model)
    if name == TINY:
        tokenizer: Any = character_tokenizer()
        model: Any = tiny_llama(tokenizer, seed=settings.seed)
    elif name.startswith(GGUF):
        model, tokenizer = load_gguf(Path(name.removeprefix(GGUF)))
    else:
        model, tokenizer = _pretrained(name, settings.revision)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    # A checkpoint of adapters has nothing else in it, so that what they stand on is made again, and alike.
    if settings.warm_start_steps and (settings.lora_rank is not None or not is_resumed):
        warm_start(model, tokenizer, _texts(rows()), steps=settings.warm_start_steps, seed=settings.seed, watch=watch)
    is_fetched = name != TINY and not name.startswith(GGUF) and not settings.warm_start_steps
    return Policy(model=model, tokenizer=tokenizer, adapters=_adapters(settings), is_fetched=is_fetched)


def _pretrained(name: str, revision: str | None) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision or "main", padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(name, revision=revision or "main", dtype=torch.float32)
    except (ConnectionError, TimeoutError) as error:
        raise RewardUnavailableError(
            f"rl.policy.model: the hub could not answer for {name}: {text_of(error)}"
        ) from error
    except (OSError, ValueError) as error:
        first = text_of(error).partition("\n")[0]
        raise RewardConfigError(
            f"rl.policy.model: {name} can't be loaded: {first}; expected tiny, gguf:FILE, a folder of transformers, or "
            "the name of a model on the hub"
        ) from error
    return model, tokenizer


def _adapters(settings: PolicyConfig) -> Any:
    if settings.lora_rank is None:
        return None
    try:
        from peft import LoraConfig
    except ImportError as error:
        raise RewardConfigError('rl.policy.lora_rank needs peft: pip install "posttrain[train]"') from error
    alpha = settings.lora_alpha or 2 * settings.lora_rank
    return LoraConfig(
        r=settings.lora_rank, lora_alpha=alpha, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
    )


def _texts(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, str]]:
    """The rows, once it is known that both of their columns are texts."""
    for index, row in enumerate(rows):
        for column in ("prompt", "reference"):
            if not isinstance(row[column], str):
                raise RewardContractError(
                    f"rl.policy.warm_start_steps: row [{index}]: the {column} is {type(row[column]).__name__}, and a "
                    "warm start needs texts; set it to 0, or begin with a model that needs none"
                )
    return list(rows)
