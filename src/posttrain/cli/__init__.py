# SPDX-License-Identifier: Apache-2.0
"""The `posttrain` command."""

from posttrain.cli.app import main

__all__ = ["main"]
