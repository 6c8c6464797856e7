# SPDX-License-Identifier: Apache-2.0
"""Other ways to ask the same questions: raw sockets (nothing can be below them), aiohttp, and the openai client."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit


def body_of(text: str) -> dict[str, Any]:
    """The least that a chat completion takes."""
    return {"model": "judge", "messages": [{"role": "user", "content": text}]}


async def _with_workers(concurrency: int, texts: Sequence[str], one: Callable[[str], Awaitable[None]]) -> None:
    """So many workers that share one iterator: the cheapest bounded fan-out there is."""
    remaining = iter(texts)

    async def worker() -> None:
        for text in remaining:
            await one(text)

    await asyncio.gather(*(worker() for _ in range(concurrency)))


async def ask_raw(url: str, texts: Sequence[str], concurrency: int) -> None:
    """One connection a worker, no parser but two searches."""
    parts = urlsplit(url)
    remaining = iter(texts)
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: ".encode()

    async def worker() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for text in remaining:
            body = json.dumps(body_of(text)).encode()
            writer.write(head + str(len(body)).encode() + b"\r\n\r\n" + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            size = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            json.loads(await reader.readexactly(size))["choices"][0]["message"]["content"]
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(worker() for _ in range(concurrency)))


async def ask_aiohttp(url: str, texts: Sequence[str], concurrency: int) -> None:
    """One session, as its documentation shows it."""
    aiohttp: Any = importlib.import_module("aiohttp")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(text: str) -> None:
            async with session.post(f"{url}/chat/completions", json=body_of(text)) as response:
                (await response.json())["choices"][0]["message"]["content"]

        await _with_workers(concurrency, texts, one)


async def ask_openai(url: str, texts: Sequence[str], concurrency: int) -> None:
    """One shared AsyncOpenAI, and a semaphore around each call: the usual way."""
    openai: Any = importlib.import_module("openai")
    turns = asyncio.Semaphore(concurrency)
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def one(text: str) -> None:
            async with turns:
                response = await client.chat.completions.create(**body_of(text))
                assert response.choices[0].message.content  # noqa: S101  # a benchmark that gets no answer is none

        await asyncio.gather(*map(one, texts))
