# SPDX-License-Identifier: Apache-2.0
"""A language model, its tokenizer and its tasks, made in the process: what the recipes need that need nothing else."""
