# SPDX-License-Identifier: Apache-2.0
"""The bytes of the protocol: what comes in is checked, what goes out has the shapes of the public service."""
