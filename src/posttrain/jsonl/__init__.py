# SPDX-License-Identifier: Apache-2.0
"""JSONL files, read strictly: the one reader below rollouts and training rows."""
