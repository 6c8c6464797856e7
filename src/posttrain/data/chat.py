# SPDX-License-Identifier: Apache-2.0
"""Prompts of text and chat, through a tokenizer's own template, padded to one length."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing, text_of
from posttrain.schema import Observation

__all__ = ["ChatTemplatePacker", "ChatTokenizer", "PackedPrompt", "PackedPrompts"]


class ChatTokenizer(Protocol):
    """What is asked of a tokenizer; those of transformers offer it."""

    @property
    def pad_token_id(self) -> int | None:
        """Fills the shorter prompts."""
        ...

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> Any:
        """With `tokenize` true and `return_dict` false: the token ids of a conversation."""
        ...

    def encode(self, text: str, **options: Any) -> Any:
        """The token ids of a text, with no chat template."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPrompt:
    """The tokens of one prompt."""

    group_id: str
    """The observation that it was made of."""
    input_ids: tuple[int, ...]
    """[tokens], never empty."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPrompts:
    """Prompts padded on the left to the length of the longest, so that generation begins at one place for all."""

    group_ids: tuple[str, ...]
    """[prompts] the observation that each row was made of."""
    input_ids: list[list[int]]
    """[prompts, longest] token ids."""
    attention_mask: list[list[int]]
    """[prompts, longest] 1 for the prompt's own tokens, 0 for padding."""

    def numpy(self) -> dict[str, Any]:
        """`input_ids` and `attention_mask` as numpy arrays, int64 [prompts, longest].

        Raises:
            RewardConfigError: numpy is not installed.
        """
        numpy = _installed("numpy", "data")
        return {
            "input_ids": numpy.array(self.input_ids, dtype=numpy.int64),
            "attention_mask": numpy.array(self.attention_mask, dtype=numpy.int64),
        }

    def torch(self) -> dict[str, Any]:
        """`input_ids` and `attention_mask` as CPU tensors, int64 [prompts, longest].

        Raises:
            RewardConfigError: torch is not installed.
        """
        torch = _installed("torch", "train")
        return {
            "input_ids": torch.tensor(self.input_ids, dtype=torch.int64),
            "attention_mask": torch.tensor(self.attention_mask, dtype=torch.int64),
        }


@final
class ChatTemplatePacker:
    """The `DataPacker` of models that take chat.

    A prompt that is a list of messages goes through the tokenizer's chat template. A prompt that is a text becomes
    one message first.

    Args:
        tokenizer: the model's own.
        text_role: role of the message that a text becomes. None: texts are tokenized as they are, without a template.
        add_generation_prompt: whether the template opens the assistant's turn.
        max_tokens: longest prompt that the model takes; a longer one is refused, never cut. None: any.
        template_options: more keyword arguments for the template, such as ``enable_thinking`` or ``tools``.

    Raises:
        RewardConfigError: the tokenizer has no padding token.
    """

    def __init__(
        self,
        tokenizer: ChatTokenizer,
        *,
        text_role: str | None = "user",
        add_generation_prompt: bool = True,
        max_tokens: int | None = None,
        template_options: Mapping[str, Any] | None = None,
    ) -> None:
        pad_id = tokenizer.pad_token_id
        if type(pad_id) is not int:
            raise RewardConfigError(
                "the tokenizer has no padding token: set tokenizer.pad_token, for example to tokenizer.eos_token"
            )
        self._tokenizer = tokenizer
        self._pad_id = pad_id
        self._text_role = text_role
        self._max_tokens = max_tokens
        self._options = {
            **(template_options or {}),
            "add_generation_prompt": add_generation_prompt,
            "tokenize": True,
            "return_dict": False,
        }

    def pack(self, observations: Sequence[Observation]) -> list[PackedPrompt]:
        """The tokens of each prompt, in the same order.

        Raises:
            RewardContractError: naming every observation whose prompt is neither text nor messages, is refused by the
                template, has no tokens or too many.
            RewardConfigError: the tokenizer lacks a package, such as the one that renders templates.
        """
        packed, faults = [], []
        cause: BaseException | None = None
        for observation in observations:
            try:
                packed.append(PackedPrompt(group_id=observation.id, input_ids=self._tokens(observation.prompt)))
            except RewardContractError as error:
                row = f" (row {observation.row_id!r})" if observation.row_id is not None else ""
                faults.append(f"group {observation.id!r}{row}: {error.message}")
                cause = cause or error.__cause__
        if faults:
            raise RewardContractError(f"prompts can't be packed:\n{listing(faults)}") from cause
        return packed

    def collate(self, items: Sequence[PackedPrompt]) -> PackedPrompts:
        """The prompts side by side; an item may stand there as often as completions are wanted of it.

        Raises:
            RewardContractError: there are none.
        """
        if not items:
            raise RewardContractError("a batch of prompts needs at least one")
        longest = max(len(item.input_ids) for item in items)
        gaps = [longest - len(item.input_ids) for item in items]
        return PackedPrompts(
            group_ids=tuple(item.group_id for item in items),
            input_ids=[[self._pad_id] * gap + [*item.input_ids] for gap, item in zip(gaps, items, strict=True)],
            attention_mask=[[0] * gap + [1] * (longest - gap) for gap in gaps],
        )

    def _tokens(self, prompt: Any) -> tuple[int, ...]:
        try:
            ids = self._encoded(prompt)
        except RewardContractError:
            raise
        except ImportError as error:
            raise RewardConfigError(f"the tokenizer can't work here: {text_of(error)}") from error
        except Exception as error:
            raise RewardContractError(
                f"the tokenizer refused the prompt: {type(error).__name__}: {text_of(error)}"
            ) from error
        if not isinstance(ids, (list, tuple)) or any(type(token) is not int for token in ids):
            raise RewardContractError(f"expected a list of token ids from the tokenizer, got {describe(ids)}")
        if not ids:
            raise RewardContractError("the prompt has no tokens: there is nothing to roll out")
        if self._max_tokens is not None and len(ids) > self._max_tokens:
            raise RewardContractError(
                f"the prompt has {len(ids)} tokens, more than max_tokens={self._max_tokens}: leave the row out, or "
                "raise the limit"
            )
        return tuple(ids)

    def _encoded(self, prompt: Any) -> Any:
        if isinstance(prompt, str):
            if self._text_role is None:
                return self._tokenizer.encode(prompt)
            prompt = [{"role": self._text_role, "content": prompt}]
        if not isinstance(prompt, (list, tuple)) or not all(isinstance(message, Mapping) for message in prompt):
            raise RewardContractError(f"expected a text or a list of messages, got {describe(prompt)}")
        return self._tokenizer.apply_chat_template([dict(message) for message in prompt], **self._options)


def _installed(name: str, extra: str) -> Any:
    """A package that is loaded only where it is used."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise RewardConfigError(f"this needs {name}: pip install 'posttrain[{extra}]'") from error
