# SPDX-License-Identifier: Apache-2.0
"""A divergence over the vocabulary means something only where both models mean the same by every token id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from posttrain.errors import RewardConfigError, listing

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["check_same_vocabulary"]


def check_same_vocabulary(
    student: PreTrainedTokenizerBase, teacher: PreTrainedTokenizerBase, *, student_size: int, teacher_size: int
) -> None:
    """Refuse a teacher whose tokens are not the student's.

    Which of the tokens pads and which one ends a text may differ: padding is masked, and a text ends where the student
    ends it.

    Args:
        student: its tokenizer.
        teacher: its tokenizer.
        student_size: logits that the student gives for a position.
        teacher_size: logits that the teacher gives for a position.

    Raises:
        RewardConfigError: telling the sizes and the tokens that differ.
    """
    faults = [*_size_faults(student, teacher, student_size, teacher_size), *_token_faults(student, teacher)]
    if faults:
        raise RewardConfigError(
            "rl.opd.teacher: the divergence compares the two models token by token, and this teacher has another "
            f"vocabulary than the student; take one of the same family:\n{listing(faults)}"
        )


def _size_faults(
    student: PreTrainedTokenizerBase, teacher: PreTrainedTokenizerBase, student_size: int, teacher_size: int
) -> Iterator[str]:
    if student_size != teacher_size:
        yield f"logits of a position: the student has {student_size}, the teacher {teacher_size}"
    if len(student) != len(teacher):
        yield f"tokens of the tokenizer: the student has {len(student)}, the teacher {len(teacher)}"


def _token_faults(student: PreTrainedTokenizerBase, teacher: PreTrainedTokenizerBase) -> Iterator[str]:
    ours, theirs = student.get_vocab(), teacher.get_vocab()
    for token in sorted(ours.keys() | theirs.keys(), key=lambda each: (ours.get(each, len(ours)), each)):
        if ours.get(token) != theirs.get(token):
            yield f"{token!r}: id {_id(ours, token)} of the student, {_id(theirs, token)} of the teacher"


def _id(vocabulary: dict[str, int], token: str) -> str:
    found = vocabulary.get(token)
    return "none" if found is None else str(found)
