# SPDX-License-Identifier: Apache-2.0
"""What a reward author sees: the request, the result, the provider and its spec."""
