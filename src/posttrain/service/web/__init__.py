# SPDX-License-Identifier: Apache-2.0
"""The HTTP side: routes, token, logs, metrics, and the life of the server."""
