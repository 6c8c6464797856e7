# SPDX-License-Identifier: Apache-2.0
"""The model that is trained: made here, read from a file or a folder, or fetched from the hub."""

from posttrain.training.policy.load import Policy, load_policy

__all__ = ["Policy", "load_policy"]
