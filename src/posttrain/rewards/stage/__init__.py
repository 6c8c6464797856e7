# SPDX-License-Identifier: Apache-2.0
"""The reward stage: bind, evaluate, check, combine, annotate, commit; whole or not at all."""
