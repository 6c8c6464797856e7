# SPDX-License-Identifier: Apache-2.0
"""Scorers of images and videos, and the process that each of them runs in."""
