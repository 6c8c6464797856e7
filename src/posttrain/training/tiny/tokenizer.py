# SPDX-License-Identifier: Apache-2.0
"""A tokenizer of single characters, made in the process."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["ALPHABET", "character_tokenizer"]

ALPHABET: Final = f"{string.digits}{string.ascii_letters}{string.punctuation} \n"
"""The characters that have a token; any other is the unknown token, and lost."""

_SPECIAL: Final = ("<pad>", "<eos>", "<unk>")
_TEMPLATE: Final = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def character_tokenizer() -> PreTrainedTokenizerFast:
    """One token for each character of `ALPHABET`, then ``<pad>``, ``<eos>`` and ``<unk>``.

    Texts of the alphabet survive the way through the tokens and back unchanged. Padding goes on the left, as
    generation wants it.
    """
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    pad, eos, unknown = _SPECIAL
    vocabulary = {token: index for index, token in enumerate([*ALPHABET, *_SPECIAL])}
    inner = Tokenizer(WordLevel(vocabulary, unk_token=unknown))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers leaves it without types
        tokenizer_object=inner,
        pad_token=pad,
        eos_token=eos,
        unk_token=unknown,
        chat_template=_TEMPLATE,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
