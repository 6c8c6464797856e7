# SPDX-License-Identifier: Apache-2.0
"""One HTTP request, one answer, within a hard bound of wall time. `CurlTransport` is the one that ships."""

from posttrain.media.transport.curl import CurlTransport
from posttrain.media.transport.secret import Secret
from posttrain.media.transport.transport import Answer, FileBody, NoAnswer, Post, Reply, Transport

__all__ = ["Answer", "CurlTransport", "FileBody", "NoAnswer", "Post", "Reply", "Secret", "Transport"]
