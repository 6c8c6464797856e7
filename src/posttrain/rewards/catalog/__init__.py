# SPDX-License-Identifier: Apache-2.0
"""The run-bound catalog: which providers there are, where they come from, and what identifies them."""
