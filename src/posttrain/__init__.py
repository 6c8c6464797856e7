# SPDX-License-Identifier: Apache-2.0
"""Posttrain executes rewards for online RL post-training: whole groups in, exact advantages out, or nothing at all."""

__version__ = "0.1.0"
