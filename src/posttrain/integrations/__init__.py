# SPDX-License-Identifier: Apache-2.0
"""The reward stage inside other trainers, one package for each."""
