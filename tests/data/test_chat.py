# SPDX-License-Identifier: Apache-2.0
"""Packing of chat prompts: templating, tokens, left padding, and what a tokenizer refuses."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.chat import ChatTemplatePacker, PackedPrompt, PackedPrompts
from posttrain.data.packer import DataPacker
from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.schema import Observation

PAD = 0

TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


class Letters:
    """A tokenizer by hand: a letter's token is its code point, and a message is ``<role>content|``."""

    pad_token_id: int | None = PAD

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> Any:
        """Refuses roles that it does not know, as templates do."""
        assert options.pop("tokenize") is True
        assert options.pop("return_dict") is False
        text = "".join(f"<{message['role']}>{message['content']}|" for message in conversation)
        if "critic" in text:
            raise ValueError("no such role: critic")
        if options.pop("add_generation_prompt"):
            text += "<assistant>"
        return self.encode(text + options.pop("suffix", ""), **options)

    def encode(self, text: str, **options: Any) -> Any:
        """One token a letter."""
        assert not options
        return [ord(letter) for letter in text]


def tokens(text: str) -> tuple[int, ...]:
    """What `Letters` makes of a text."""
    return tuple(map(ord, text))


def observe(*prompts: Any) -> list[Observation]:
    """An observation of each prompt."""
    return [Observation(id=f"g{at}", prompt=prompt, row_id=f"r{at}") for at, prompt in enumerate(prompts)]


def test_messages_go_through_the_template() -> None:
    """A conversation is templated, with the assistant's turn opened, and keeps its group's id."""
    conversation = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    (packed,) = ChatTemplatePacker(Letters()).pack(observe(conversation))
    assert packed == PackedPrompt(group_id="g0", input_ids=tokens("<system>S|<user>U|<assistant>"))


def test_frozen_messages_do_as_well() -> None:
    """Messages may be a tuple of read-only mappings."""
    from posttrain.frozen import freeze

    frozen = freeze([{"role": "user", "content": "U"}])
    (packed,) = ChatTemplatePacker(Letters(), add_generation_prompt=False).pack(observe(frozen))
    assert packed.input_ids == tokens("<user>U|")


def test_texts_become_a_message_or_stay_texts() -> None:
    """A text is one message of the chosen role, or goes to the tokenizer as it is."""
    for role, expected in (("user", "<user>Hi|<assistant>"), ("human", "<human>Hi|<assistant>"), (None, "Hi")):
        (packed,) = ChatTemplatePacker(Letters(), text_role=role).pack(observe("Hi"))
        assert packed.input_ids == tokens(expected)


def test_the_template_gets_its_options() -> None:
    """More options reach the template, and can't undo those that the packer relies on."""
    packer = ChatTemplatePacker(Letters(), template_options={"suffix": "!", "tokenize": False, "return_dict": True})
    assert packer.pack(observe("Hi"))[0].input_ids == tokens("<user>Hi|<assistant>!")


def test_prompts_are_padded_on_the_left() -> None:
    """All prompts end at the same place, and the mask tells tokens from padding, also where a token looks like it."""
    packer = ChatTemplatePacker(Letters(), text_role=None)
    batch = packer.collate(packer.pack(observe("abc", "d", "\0e")))
    assert batch.group_ids == ("g0", "g1", "g2")
    assert batch.input_ids == [[97, 98, 99], [PAD, PAD, 100], [PAD, 0, 101]]
    assert batch.attention_mask == [[1, 1, 1], [0, 0, 1], [0, 1, 1]]


def test_an_item_may_repeat() -> None:
    """A prompt stands in a batch as often as completions are wanted of it."""
    packer = ChatTemplatePacker(Letters(), text_role=None)
    items = packer.pack(observe("a", "bc"))
    batch = packer.collate([item for item in items for _ in range(2)])
    assert batch.group_ids == ("g0", "g0", "g1", "g1")
    assert batch.input_ids == [[PAD, 97]] * 2 + [[98, 99]] * 2


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=1, max_size=6))
def test_nothing_is_lost_or_added(prompts: list[str]) -> None:
    """The tokens under the mask are the prompt's, in order and at the right end, and all rows are equally long."""
    packer = ChatTemplatePacker(Letters(), text_role=None)
    batch = packer.collate(packer.pack(observe(*prompts)))
    for prompt, ids, mask in zip(prompts, batch.input_ids, batch.attention_mask, strict=True):
        assert len(ids) == len(mask) == max(map(len, prompts))
        assert tuple(ids[len(ids) - len(prompt) :]) == tokens(prompt)
        assert mask == [0] * (len(ids) - len(prompt)) + [1] * len(prompt)


def test_every_prompt_that_does_not_fit_is_named() -> None:
    """Prompts that are no chat, refused by the template, empty or too long come in one error, and none is cut."""
    packer = ChatTemplatePacker(Letters(), text_role=None, max_tokens=20, add_generation_prompt=False)
    prompts = ["x" * 20, "x" * 21, "", [{"role": "critic", "content": ""}], {"role": "user"}, ["a"], 3, []]
    with pytest.raises(RewardContractError, match="prompts can't be packed") as caught:
        packer.pack(observe(*prompts))
    fix = "leave the row out, or raise the limit"
    assert str(caught.value).splitlines()[1:] == [
        f"  group 'g1' (row 'r1'): the prompt has 21 tokens, more than max_tokens=20: {fix}",
        "  group 'g2' (row 'r2'): the prompt has no tokens: there is nothing to roll out",
        "  group 'g3' (row 'r3'): the tokenizer refused the prompt: ValueError: no such role: critic",
        "  group 'g4' (row 'r4'): expected a text or a list of messages, got {'role': 'user'} (dict)",
        "  group 'g5' (row 'r5'): expected a text or a list of messages, got ['a'] (list)",
        "  group 'g6' (row 'r6'): expected a text or a list of messages, got 3 (int)",
        "  group 'g7' (row 'r7'): the prompt has no tokens: there is nothing to roll out",
    ]
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_tokenizer_that_gives_something_else() -> None:
    """Token ids that are none are refused, so that no model is run on them."""

    class Strange(Letters):
        def encode(self, text: str, **options: Any) -> Any:
            return {"input_ids": [1]} if text == "dict" else [[1, 2]]

    packer = ChatTemplatePacker(Strange(), text_role=None)
    with pytest.raises(RewardContractError, match="expected a list of token ids from the tokenizer") as caught:
        packer.pack(observe("dict", "nested"))
    assert "got {'input_ids': [1]} (dict)" in str(caught.value)
    assert "got [[1, 2]] (list)" in str(caught.value)


def test_a_tokenizer_that_lacks_a_package() -> None:
    """What is not installed is a matter of set-up, and no prompt is blamed for it."""

    class Needy(Letters):
        def encode(self, text: str, **options: Any) -> Any:
            raise ImportError("pip install jinja2")

    with pytest.raises(RewardConfigError, match=r"^the tokenizer can't work here: pip install jinja2$"):
        ChatTemplatePacker(Needy()).pack(observe("a"))


def test_a_tokenizer_without_padding() -> None:
    """A tokenizer that can't pad is refused when the packer is made, with the line that mends it."""

    class Unpadded(Letters):
        pad_token_id = None

    with pytest.raises(RewardConfigError, match=r"has no padding token: set tokenizer\.pad_token"):
        ChatTemplatePacker(Unpadded())


def test_a_batch_of_nothing() -> None:
    """There is no batch without prompts."""
    with pytest.raises(RewardContractError, match="a batch of prompts needs at least one"):
        ChatTemplatePacker(Letters()).collate([])


def test_it_is_a_data_packer() -> None:
    """The chat packer fits the protocol, with its own kinds of item and batch."""
    packer: DataPacker[PackedPrompt, PackedPrompts] = ChatTemplatePacker(Letters())
    assert packer.collate(packer.pack(observe("a"))).group_ids == ("g0",)


def test_arrays_of_numpy() -> None:
    """A batch becomes two int64 arrays of prompts by tokens."""
    packer = ChatTemplatePacker(Letters(), text_role=None)
    arrays = packer.collate(packer.pack(observe("ab", "c"))).numpy()
    assert sorted(arrays) == ["attention_mask", "input_ids"]
    assert {each.dtype for each in arrays.values()} == {np.dtype("int64")}
    assert arrays["input_ids"].tolist() == [[97, 98], [PAD, 99]]
    assert arrays["attention_mask"].tolist() == [[1, 1], [0, 1]]


def test_tensors_of_torch() -> None:
    """A batch becomes two int64 tensors of prompts by tokens."""
    torch: Any = pytest.importorskip("torch")
    packer = ChatTemplatePacker(Letters(), text_role=None)
    tensors = packer.collate(packer.pack(observe("ab", "c"))).torch()
    assert tensors["input_ids"].dtype == tensors["attention_mask"].dtype == torch.int64
    assert tensors["input_ids"].tolist() == [[97, 98], [PAD, 99]]
    assert tensors["attention_mask"].tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(("package", "extra"), [("numpy", "data"), ("torch", "train")])
def test_arrays_need_their_package(monkeypatch: pytest.MonkeyPatch, package: str, extra: str) -> None:
    """Where a package is not installed, the one line says what to install."""
    packer = ChatTemplatePacker(Letters())
    batch = packer.collate(packer.pack(observe("a")))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RewardConfigError, match=rf"this needs {package}: pip install 'posttrain\[{extra}\]'"):
        getattr(batch, package)()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A character tokenizer with a chat template and a padding token."""
    for needed in ("transformers", "jinja2"):
        pytest.importorskip(needed)
    tokenizers: Any = importlib.import_module("tokenizers")
    transformers: Any = importlib.import_module("transformers")
    letters = ["<pad>", *map(chr, range(32, 127)), "\n"]
    model = tokenizers.models.WordLevel({letter: at for at, letter in enumerate(letters)}, unk_token="<pad>")  # noqa: S106  # no password
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    made.decoder = tokenizers.decoders.Fuse()
    padding = {"pad_token": "<pad>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, chat_template=TEMPLATE, **padding)


class TestWithTransformers:
    """The same with a real tokenizer, built in this process."""

    def test_the_tokens_are_those_of_the_rendered_template(self, tokenizer: Any) -> None:
        """Decoding what was packed gives the text that the template describes."""
        conversation = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}]
        packed = ChatTemplatePacker(tokenizer).pack(observe(conversation, "Hi"))
        assert [tokenizer.decode(each.input_ids) for each in packed] == [
            "<system>Be brief.\n<user>1 + 1?\n<assistant>",
            "<user>Hi\n<assistant>",
        ]

    def test_the_padding_is_that_of_the_tokenizer(self, tokenizer: Any) -> None:
        """Ids and mask are those that the tokenizer's own left padding gives."""
        prompts = ["Hi", "A longer prompt.", "?"]
        packer = ChatTemplatePacker(tokenizer, text_role=None)
        batch = packer.collate(packer.pack(observe(*prompts)))
        expected = tokenizer(prompts, padding=True, padding_side="left")
        assert batch.input_ids == expected["input_ids"]
        assert batch.attention_mask == expected["attention_mask"]

    def test_a_template_that_refuses(self, tokenizer: Any) -> None:
        """What a template raises comes through by group."""
        packer = ChatTemplatePacker(tokenizer, template_options={"chat_template": "{{ raise_exception('no system') }}"})
        with pytest.raises(RewardContractError, match=r"group 'g0' .*TemplateError: no system"):
            packer.pack(observe("Hi"))
