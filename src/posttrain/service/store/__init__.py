# SPDX-License-Identifier: Apache-2.0
"""Where results wait to be pulled: in memory, or in Redis."""
