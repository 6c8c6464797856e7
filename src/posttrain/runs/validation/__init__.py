# SPDX-License-Identifier: Apache-2.0
"""Held-out validation: rollouts saved whole, scored by providers of the run's own catalog, under one identity."""

from posttrain.runs.validation.background import RunningValidation
from posttrain.runs.validation.held_out import HeldOutValidation, is_due
from posttrain.runs.validation.pending import PendingValidation
from posttrain.runs.validation.record import ValidationRecord, pending_validations, validation_folder
from posttrain.runs.validation.result import ValidationResult

__all__ = [
    "HeldOutValidation",
    "PendingValidation",
    "RunningValidation",
    "ValidationRecord",
    "ValidationResult",
    "is_due",
    "pending_validations",
    "validation_folder",
]
