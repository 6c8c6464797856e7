# SPDX-License-Identifier: Apache-2.0
"""Runs of the stage: on saved rollouts, and what surrounds it in training."""
