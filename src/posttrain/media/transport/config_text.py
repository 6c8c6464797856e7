# SPDX-License-Identifier: Apache-2.0
"""One request as the text of a curl config, which goes to curl's standard input and so shows in no process list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from posttrain.errors import RewardConfigError
from posttrain.media.transport.transport import FileBody, Post

__all__ = ["config_text"]

_LONGEST: Final = 32_768


def config_text(request: Post, mark: str) -> bytes:
    """The config of `request`.

    Args:
        request: what to send.
        mark: begins the line that curl writes to standard error at the end: the mark, HTTP status, bytes of the
            request's head that were sent, bytes of its body, target of a redirect.

    Raises:
        RewardConfigError: the URL or a header is none, or could smuggle in another option.
    """
    text = "".join(f"{line}\n" for line in _lines(request, mark)).encode()
    if len(text) > _LONGEST:
        raise RewardConfigError(
            f"the request's URL, headers and form have {len(text)} bytes together, curl is given at most {_LONGEST}: "
            "shorten the URL or the reward's name"
        )
    return text


def _lines(request: Post, mark: str) -> Iterator[str]:
    yield _option("url", _checked_url(request.url))
    yield _option("request", "POST")
    # http only, also if a URL should say otherwise; no brackets that curl expands; the path as it stands.
    yield _option("proto", "=http,https")
    yield from ("globoff", "path-as-is", "http1.1", "silent", "show-error")
    # Neither a proxy of the environment nor a redirect may see the credential or the sample.
    yield _option("noproxy", "*")
    yield _option("max-redirs", "0")
    yield _option("connect-timeout", _seconds(min(request.connect_timeout_s, request.timeout_s)))
    yield _option("max-time", _seconds(request.timeout_s))
    yield _option("max-filesize", str(request.max_response_bytes))
    report = "%{http_code} %{size_request} %{size_upload} %{redirect_url}"
    yield f'write-out = "%{{stderr}}\\n{mark} {report}\\n"'
    # A server that does not know `Expect` would hold up each upload by a second.
    yield _option("header", "Expect:")
    yield _option("header", f"Content-Type: {request.content_type}")
    for name, value in request.headers:
        yield _option("header", f"{name}: {value}")
    if request.token is not None:
        yield _option("header", f"Authorization: Bearer {request.token.reveal()}")
    if isinstance(request.body, FileBody):
        # Not data-binary, which reads the whole file into memory first.
        yield _option("upload-file", f"/dev/fd/{request.body.fd}")
    else:
        yield _option("data-raw", request.body.decode("ascii"))


def _option(name: str, value: str) -> str:
    if any(each < " " or each == "\x7f" for each in value):
        raise RewardConfigError(f"a request's {name} holds a line break or another control character")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name} = "{escaped}"'


def _seconds(value: float) -> str:
    # curl takes 0 for no limit at all.
    return f"{max(value, 0.001):.3f}"


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise RewardConfigError("the URL is malformed: expected http://host[:port]/path") from None
    if not sound or not url.isascii() or " " in url:
        raise RewardConfigError("the URL is malformed: expected http://host[:port]/path in ASCII without spaces")
    if parts.username is not None or parts.password is not None:
        raise RewardConfigError("the URL holds a user name or a password: name a variable as the credential instead")
    return url
