# SPDX-License-Identifier: Apache-2.0
"""Make `word_problems.jsonl`: rollouts of an imaginary policy on small word problems, the same on every run.

    python examples/rollouts/make_word_problems.py > examples/rollouts/word_problems.jsonl

Every group is one question with eight candidates. The policy gets better answers on easier questions; now and then it
forgets the answer's marker, writes the number in another notation, or runs into its token budget.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from typing import NamedTuple

GROUPS = 48
SIZE = 8


class Problem(NamedTuple):
    """A question with the steps that lead to its answer."""

    question: str
    steps: tuple[str, ...]
    answer: int
    difficulty: float
    """Chance that one candidate gets it wrong."""


def bakery(rng: random.Random) -> Problem:
    """Boxes of loaves, some sold."""
    boxes, each, sold = rng.randint(3, 12), rng.randint(4, 15), rng.randint(5, 11)
    total = boxes * each
    return Problem(
        f"A bakery packs {boxes} boxes with {each} loaves each and sells {sold} loaves before noon. "
        "How many loaves are left?",
        (
            f"There are {boxes} * {each} = {total} loaves.",
            f"After the sales {total} - {sold} = {total - sold} are left.",
        ),
        total - sold,
        0.25,
    )


def train(rng: random.Random) -> Problem:
    """A distance in two legs."""
    fast, slow, hours = rng.randint(70, 160), rng.randint(30, 65), rng.randint(2, 5)
    first, second = fast * hours, slow * (hours + 1)
    return Problem(
        f"A train runs {hours} hours at {fast} km/h and then {hours + 1} hours at {slow} km/h. How many km is that?",
        (
            f"The first leg is {fast} * {hours} = {first} km.",
            f"The second leg is {slow} * {hours + 1} = {second} km.",
            f"Together {first} + {second} = {first + second} km.",
        ),
        first + second,
        0.5,
    )


def workshop(rng: random.Random) -> Problem:
    """A price with a discount in whole dollars."""
    price, pieces, discount = rng.randint(110, 900), rng.randint(12, 40), rng.randint(1, 9) * 10
    total = price * pieces
    return Problem(
        f"A workshop orders {pieces} parts at ${price} each and gets ${discount} off the whole order. "
        "What does it pay, in dollars?",
        (
            f"The parts cost {pieces} * {price} = {total}.",
            f"With the discount it is {total} - {discount} = {total - discount}.",
        ),
        total - discount,
        0.75,
    )


PROBLEMS: tuple[Callable[[random.Random], Problem], ...] = (bakery, train, workshop)


def notation(value: int, rng: random.Random) -> str:
    """The same number as people write it."""
    return rng.choice([f"{value}", f"{value}", f"{value:,}", f"**{value}**", f"{value}.00", f"{value}."])


def completion(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """Text and finish reason of one candidate."""
    answer = problem.answer
    if rng.random() < problem.difficulty:
        answer += rng.choice([-10, -2, -1, 1, 2, 10, 100])
    text = "\n".join(problem.steps[: rng.randint(1, len(problem.steps))])
    luck = rng.random()
    if luck < 0.06:
        return text[: rng.randint(10, len(text))], "length"
    if luck < 0.12:
        return f"{text}\nThe answer is {answer}.", "stop"
    return f"{text}\n#### {notation(answer, rng)}", "stop"


def main() -> None:
    """Write the rows to standard output."""
    rng = random.Random(2026)
    for number in range(GROUPS):
        problem = PROBLEMS[number % len(PROBLEMS)](rng)
        for place in range(SIZE):
            text, finish_reason = completion(problem, rng)
            row = {
                "group_id": f"problem-{number:02d}",
                "trajectory_id": f"problem-{number:02d}/{place}",
                "prompt": problem.question,
                "completion": text,
                "reference": " ".join(problem.steps) + f" #### {problem.answer:,}",
                "finish_reason": finish_reason,
                "completion_token_count": max(1, len(text) // 4),
            }
            sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
