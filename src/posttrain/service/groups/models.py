# SPDX-License-Identifier: Apache-2.0
"""The bodies of `POST /v1/score`: a group in, terms out, or one typed error."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

__all__ = ["FAILURES", "CandidateIn", "CandidateOut", "FailureOut", "FailureText", "GroupIn", "GroupOut"]

_Id = Annotated[StrictStr, Field(min_length=1)]


class CandidateIn(BaseModel):
    """One completion of the group's prompt."""

    model_config = ConfigDict(extra="forbid")

    trajectory_id: _Id = Field(description="Identity of the candidate, once in the group; its result repeats it.")
    completion: StrictStr = Field(description="Completion text; may be empty.")
    completion_token_count: Annotated[StrictInt, Field(ge=0)] | None = Field(
        default=None, description="Number of tokens that the rollout counted."
    )
    finish_reason: StrictStr | None = Field(
        default=None, description='The engine\'s verbatim verdict on how the completion ended; "length": it was cut.'
    )


class GroupIn(BaseModel):
    """One complete group for one provider: every candidate of one prompt."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "provider": "gsm8k",
                    "group_id": "problem-07",
                    "reference": "#### 18",
                    "candidates": [
                        {"trajectory_id": "problem-07/0", "completion": "It is #### 18", "finish_reason": "stop"},
                        {"trajectory_id": "problem-07/1", "completion": "It is #### 17", "finish_reason": "length"},
                    ],
                }
            ]
        },
    )

    provider: _Id = Field(description="Name in the served catalog.")
    group_id: _Id = Field(description="Identity of the group; the answer repeats it.")
    prompt: Any = Field(default=None, description="Any JSON value; needed where the provider declares it.")
    reference: Any = Field(default=None, description="Any JSON value; needed where the provider declares it.")
    candidates: list[CandidateIn] = Field(min_length=1, description="Every candidate, in rollout order.")


class CandidateOut(BaseModel):
    """The terms of one candidate."""

    trajectory_id: str
    terms: dict[str, float] = Field(description="Every term that the provider declares, each a finite number.")


class GroupOut(BaseModel):
    """The scores of a whole group: there is never one without all of them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "provider": "gsm8k",
                    "revision": "1",
                    "identity_sha256": "74234e98afe7f1ad0c4b0e5e4ef7e4b3c9c3b5c1f8d1d9c3d3f5c2b8a7e6d5c4",
                    "group_id": "problem-07",
                    "items": [
                        {"trajectory_id": "problem-07/0", "terms": {"gsm8k": 1.0}},
                        {"trajectory_id": "problem-07/1", "terms": {"gsm8k": 0.0}},
                    ],
                    "diagnostics": {},
                    "seconds": 0.0012,
                }
            ]
        }
    )

    provider: str
    revision: str = Field(description="Declared revision of the provider.")
    identity_sha256: str = Field(description="SHA-256 of what else decides its scores.")
    group_id: str
    items: list[CandidateOut] = Field(description="One a candidate, in the order of the request.")
    diagnostics: dict[str, float] = Field(description="Reporting only, merged over the group.")
    seconds: float = Field(description="Wall time of the provider.")


class FailureText(BaseModel):
    """What went wrong, and who it is about."""

    kind: Literal["contract", "unavailable", "config", "busy", "request"] = Field(
        description="contract: provider, group or data are at fault; unavailable: trying again may work; config: the "
        "service or the name of the provider is; busy: come back later; request: the body can't be read."
    )
    message: str
    provider: str | None = None
    group_id: str | None = None
    trajectory_id: str | None = None


class FailureOut(BaseModel):
    """There are no scores."""

    error: FailureText


FAILURES: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": FailureOut, "description": "The body is not JSON of this form, or no such provider is served."},
    408: {"model": FailureOut, "description": "The body came too slowly."},
    413: {"model": FailureOut, "description": "The body is too long."},
    422: {"model": FailureOut, "description": "The contract was broken: by the group, or by what the provider did."},
    429: {"model": FailureOut, "description": "Too many groups are waiting; see Retry-After."},
    503: {"model": FailureOut, "description": "The provider, or what it calls, could not answer."},
}
"""Status to what it means."""
