# SPDX-License-Identifier: Apache-2.0
"""From an upload to a result: the spool, the queue, the seam to the processes."""
