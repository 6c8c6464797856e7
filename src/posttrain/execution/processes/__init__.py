# SPDX-License-Identifier: Apache-2.0
"""Killable workers on one machine: each evaluates one group at a time, and can be ended without harm to the caller."""
