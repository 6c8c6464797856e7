# SPDX-License-Identifier: Apache-2.0
"""Groups: `POST /v1/score`."""
