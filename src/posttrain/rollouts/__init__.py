# SPDX-License-Identifier: Apache-2.0
"""Saved rollouts in, results out: whole groups from files of any length, and writers that survive a kill."""
