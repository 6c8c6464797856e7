# SPDX-License-Identifier: Apache-2.0
"""One request over the shared session: a body goes out, a status and a bounded body come back."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, NamedTuple, final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from posttrain.errors import RewardConfigError, text_of
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint.credential import Credential
from posttrain.judges.endpoint.retry import is_retried

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Link", "Received", "SendError", "proxy_of"]

_USER: Final = re.compile(r"//[^/\s]*@")
"""Name and password in a URL."""


class Received(NamedTuple):
    """What came back, whatever its status."""

    status: int
    reason: str
    retry_after: str | None
    body: bytes
    is_whole: bool
    """False: the body is longer than allowed, and cut."""


@final
class SendError(Exception):
    """No answer came: the connection failed, broke or took too long. Its text is one line, without the key."""


@final
class Link:
    """Where requests go, and what they carry besides their body. Its methods run in the loop's thread.

    Args:
        config: URL, timeouts, bounds.
        credential: the key.
        http: the session.
    """

    def __init__(self, config: JudgeConfig, credential: Credential, http: aiohttp.ClientSession) -> None:
        import aiohttp

        self._http = http
        self._url = f"{config.url}/chat/completions"
        # One reply of bounded size: compression would save little, and could hide a large one.
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            **credential.headers(),
        }
        self._credential = credential
        self._connect_s, self._read_s = config.connect_timeout_s, config.read_timeout_s
        self._timeout = aiohttp.ClientTimeout(connect=config.connect_timeout_s, ceil_threshold=float("inf"))
        self._most = config.max_response_bytes
        self._proxy = proxy_of(self._url) if config.proxy_from_environment else None
        self._broken = (aiohttp.ClientError, OSError)
        self._by_proxy = aiohttp.ClientHttpProxyError
        self._final = (aiohttp.ClientConnectorCertificateError, aiohttp.InvalidURL)

    async def send(self, body: bytes, deadline: float) -> Received:
        """Send one request.

        Args:
            body: the JSON.
            deadline: by the loop's clock, until when the whole answer may take.

        Raises:
            SendError: no whole answer came.
            RewardConfigError: the endpoint's certificate is not trusted, or the proxy refuses.
        """
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(min(deadline, started + self._connect_s + self._read_s)):
                async with self._http.post(
                    self._url,
                    data=body,
                    headers=self._headers,
                    timeout=self._timeout,
                    allow_redirects=False,
                    proxy=self._proxy,
                ) as response:
                    received = await self._received(response)
        except TimeoutError as error:
            raise SendError(self._too_long(error, started, deadline)) from error
        except self._final as error:
            raise RewardConfigError(self._told(error)) from error
        except self._by_proxy as error:
            if is_retried(error.status):
                raise SendError(self._told(error)) from error
            # Its text has the proxy's URL, password and all, so it is no cause that travels along.
            raise RewardConfigError(f"the environment's proxy refuses: {self._told(error)}") from None
        except self._broken as error:
            raise SendError(self._told(error)) from error
        return received

    async def _received(self, response: aiohttp.ClientResponse) -> Received:
        content, chunks, size = response.content, list[bytes](), 0
        while size <= self._most and (chunk := await content.readany()):
            chunks.append(chunk)
            size += len(chunk)
        is_whole = size <= self._most
        if not is_whole:
            response.close()
        header = response.headers.get("Retry-After")
        return Received(response.status, response.reason or "", header, b"".join(chunks)[: self._most], is_whole)

    def _too_long(self, error: TimeoutError, started: float, deadline: float) -> str:
        import aiohttp

        if isinstance(error, aiohttp.ServerTimeoutError):
            return f"no connection within {self._connect_s:g} s"
        if deadline <= started + self._connect_s + self._read_s:
            return f"no whole answer within the {deadline - started:.3g} s that were left"
        return f"no whole answer within {self._connect_s + self._read_s:g} s"

    def _told(self, error: BaseException) -> str:
        said = self._credential.masked(" ".join(f"{type(error).__name__}: {text_of(error)}".split()))
        return _USER.sub("//[credential]@", said)


def proxy_of(url: str) -> str | None:
    """The proxy that the environment names for `url`; None: none.

    Raises:
        RewardConfigError: it is no HTTP proxy; it may hold a password and is not shown.
    """
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if proxy is None or proxy_bypass(parts.hostname or ""):
        return None
    try:
        found = urlsplit(proxy)
        is_usable = found.scheme in {"http", "https"} and bool(found.hostname) and found.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise RewardConfigError(
            f"the environment's {parts.scheme}_proxy, not shown, can't be used: expected http://host:port, or set "
            "proxy_from_environment to False"
        )
    return proxy
