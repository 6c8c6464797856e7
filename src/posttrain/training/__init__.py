# SPDX-License-Identifier: Apache-2.0
"""Entries of online runs: GRPO, on-policy distillation and DiffusionNFT, each with the reward stage inside."""
