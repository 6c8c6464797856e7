# SPDX-License-Identifier: Apache-2.0
"""The one place where an exception of an author's code is classified. It never becomes a number."""

from __future__ import annotations

import os

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError, text_of

__all__ = ["classified"]

_STANDARD_LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120  # pathlib would cost the import more than it is worth

_HINT = "If an outside service or a worker failed, raise RewardUnavailableError, so that a failure policy can apply."


def classified(
    error: Exception,
    *,
    provider: str | None = None,
    group_id: str | None = None,
    trajectory_id: str | None = None,
) -> RewardError:
    """`error` as one of the tree, with the names that it does not carry yet; raise it ``from error``.

    An error of the tree keeps its kind and gains names. Any other exception is the provider's own fault, since
    nothing says that an outside service was to blame.
    """
    if not isinstance(error, RewardError):
        text = f"raised {type(error).__name__}: {text_of(error)}{_place(error)}"
        failure: RewardError = RewardContractError(f"{text}\n{_HINT}")
        failure.because_of(error)
    elif _names_another(error, provider, group_id, trajectory_id):
        # The author raised one exception object more than once; the names of the first time must stay its own.
        failure = _same_kind(error)
        failure.cause_type, failure.cause_text = error.cause_type, error.cause_text
    else:
        failure = error
        if error.__cause__ is not None and error.cause_type is None:
            error.because_of(error.__cause__)
    if failure is not error:
        for note in getattr(error, "__notes__", ()):
            failure.add_note(note)
    failure.provider = failure.provider or provider
    failure.group_id = failure.group_id or group_id
    failure.trajectory_id = failure.trajectory_id or trajectory_id
    return failure


def _place(error: Exception) -> str:
    """Where it was raised: the innermost step that is not the standard library's, which is hardly to blame."""
    place, step = "", error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        file = code.co_filename
        if not place or not file.startswith(_STANDARD_LIBRARY) or "site-packages" in file:
            place = f" (in {code.co_name}, line {step.tb_lineno} of {file})"
        step = step.tb_next
    return place


def _names_another(error: RewardError, *names: str | None) -> bool:
    carried = (error.provider, error.group_id, error.trajectory_id)
    pairs = zip(carried, names, strict=True)
    return any(have is not None and want is not None and have != want for have, want in pairs)


def _same_kind(error: RewardError) -> RewardError:
    """A fresh error of the tree; a subclass of the author's may not be made from a message alone."""
    for kind in (RewardContractError, RewardUnavailableError, RewardConfigError):
        if isinstance(error, kind):
            return kind(error.message)
    return RewardError(error.message)
