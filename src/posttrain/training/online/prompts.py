# SPDX-License-Identifier: Apache-2.0
"""The training rows as the trainer takes them: a table whose n-th row is the n-th draw of the run's `Env`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, final

from posttrain.data import Env, EnvState, PromptBatch
from posttrain.errors import RewardContractError, listing
from posttrain.schema import Observation

__all__ = ["Prompts", "token_counter"]

_KEPT: Final = 2


@final
class Prompts:
    """Batches of prompts by their number, drawn when they are needed.

    Args:
        env: draws the rows.
        groups_per_batch: prompts that are sampled together.
        group_size: completions of each.
        first: number of the batch from which on `start` counts.
        start: the place in the data at which that batch begins; None: the beginning.
        longest: most tokens of a prompt; None: no bound.
        count: tells the tokens of a prompt.

    Raises:
        RewardConfigError: `start` is a place in other data.
    """

    def __init__(  # keyword-only settings, each with its own meaning
        self,
        env: Env,
        *,
        groups_per_batch: int,
        group_size: int,
        first: int = 0,
        start: EnvState | None = None,
        longest: int | None = None,
        count: Callable[[Any], int] | None = None,
    ) -> None:
        env.batches(1, 1, start=start)  # refuses a place in other data
        self._env = env
        self._groups, self._size, self._first = groups_per_batch, group_size, first
        self._start = env.start if start is None else start
        self._longest, self._count = longest, count
        self._kept: dict[int, PromptBatch] = {}

    def batch(self, number: int) -> PromptBatch:
        """The batch of this number, the same whenever it is asked for.

        Raises:
            RewardContractError: naming every row of it that can't be used.
        """
        if number not in self._kept:
            drawn = next(self._env.batches(self._groups, self._size, start=self._place(number)))
            self._refuse_long(drawn.observations)
            while len(self._kept) >= _KEPT:
                del self._kept[min(self._kept)]
            self._kept[number] = drawn
        return self._kept[number]

    def table(self, batches: int) -> Any:
        """A `datasets.Dataset` of the prompts of the first so many batches, counted from the run's beginning."""
        datasets: Any = import_module("datasets")
        numbers = list(range(batches * self._groups))
        columns = dict.fromkeys(("prompt", "reference", "row_id"), numbers)
        return datasets.Dataset.from_dict(columns).with_transform(_Drawn(self))

    def rows(self, numbers: Sequence[int]) -> dict[str, list[Any]]:
        """Columns of the prompts of these numbers."""
        drawn = [self.batch(number // self._groups).observations[number % self._groups] for number in numbers]
        return {
            "prompt": [each.prompt for each in drawn],
            "reference": [each.reference for each in drawn],
            "row_id": [each.row_id for each in drawn],
        }

    def _place(self, number: int) -> EnvState:
        start = self._start
        drawn = start.epoch * start.rows + start.position + (number - self._first) * self._groups
        # Before the place that a resumed run goes on from, the trainer only looks at what a row is like.
        drawn = max(drawn, 0)
        epoch, position = divmod(drawn, start.rows)
        return EnvState(epoch=epoch, position=position, rows=start.rows, seed=start.seed, shuffle=start.shuffle)

    def _refuse_long(self, observations: Sequence[Observation]) -> None:
        if self._longest is None or self._count is None:
            return
        counts = {each.id: (each.row_id, self._count(each.prompt)) for each in observations}
        faults = [f"row {row_id!r}: {count} tokens" for row_id, count in counts.values() if count > self._longest]
        if faults:
            raise RewardContractError(
                f"prompts of more than rl.grpo.max_prompt_length={self._longest} tokens; leave them out of the data, "
                f"or set it higher:\n{listing(faults)}"
            )


@final
class _Drawn:
    """What the table calls for its rows. The table hashes it, and its hash is its class."""

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts

    def __call__(self, numbers: dict[str, list[int]]) -> dict[str, list[Any]]:
        return self._prompts.rows(numbers["prompt"])

    def __reduce__(self) -> tuple[Any, ...]:
        return (str, ("drawn",))


def token_counter(tokenizer: Any) -> Callable[[Any], int]:
    """Counts the tokens of a prompt as the trainer makes them: through the template where it is a list of messages."""

    def count(prompt: Any) -> int:
        if isinstance(prompt, str):
            return len(tokenizer(text=[prompt])["input_ids"][0])
        made = tokenizer.apply_chat_template(
            conversation=[prompt], add_generation_prompt=True, tokenize=True, return_dict=True
        )
        return len(made["input_ids"][0])

    return count
