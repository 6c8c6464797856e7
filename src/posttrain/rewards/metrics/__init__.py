# SPDX-License-Identifier: Apache-2.0
"""Numbers for reports: exact, mergeable, never part of a reward."""
