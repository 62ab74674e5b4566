"""HTTP/1.1 for asyncio, by the standard library alone: POSTs of JSON over connections that are kept.

It goes straight to the server, by no proxy. What it is asked to send may be sent again after a cut, so the caller tries
again whatever the error. One that breaks a kept connection ends them all: a server that has restarted closed each.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .. import __version__

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Lost(Exception):
    """No answer, or a part of one: what was asked may or may not have been done."""


class Answer(NamedTuple):
    status: int
    retry_after: float  # seconds; 0 where the server said nothing
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body's object; empty for one that is none, as a proxy's page of an error."""
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def encoded(body: Any) -> bytes:
    """JSON, with numpy's numbers and arrays as what they hold; ValueError or TypeError for what is no JSON."""
    return json.dumps(body, default=lambda value: value.tolist(), allow_nan=False).encode()


class Wire:
    """Connections of one process to servers."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str], list[Connection]] = {}
        self._process = os.getpid()
        self._trusted: ssl.SSLContext | None = None

    async def post(self, url: str, body: bytes, key: str | None, timeout: float) -> Answer:
        """Sends one request. Raises Lost when no whole answer came within `timeout` seconds."""
        if os.getpid() != self._process:
            os._exit(70)  # a child of an environment that forked, with copies of the parent's connections and games
        parts = urlsplit(url)
        host = (parts.scheme, parts.netloc)
        path = parts.path + ("?" + parts.query if parts.query else "")
        head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: millrace-env/{__version__}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        head += f"Authorization: Bearer {key}\r\n\r\n" if key else "\r\n"
        idle = self._idle.setdefault(host, [])
        while idle and (idle[-1][0].at_eof() or idle[-1][1].is_closing()):
            idle.pop()[1].close()
        try:
            reader, writer = idle.pop() if idle else await asyncio.wait_for(self._open(parts), timeout)
        except (OSError, asyncio.TimeoutError) as err:
            raise Lost(f"{parts.netloc}: {err or 'no connection'}") from err
        bell = asyncio.get_running_loop().call_later(timeout, writer.transport.abort)
        kept = False
        try:
            writer.write(head.encode() + body)
            await writer.drain()
            answer, kept = await _read(reader)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as err:
            while idle:
                idle.pop()[1].close()
            raise Lost(f"{parts.netloc}: {type(err).__name__}: {err}") from err
        finally:
            bell.cancel()
            if kept:
                idle.append((reader, writer))
            else:
                writer.close()
        return answer

    def close(self) -> None:
        for connections in self._idle.values():
            while connections:
                connections.pop()[1].close()

    async def _open(self, parts: Any) -> Connection:
        context = None
        if parts.scheme == "https":
            if self._trusted is None:
                self._trusted = ssl.create_default_context()
                if authorities := os.environ.get("MILLRACE_CA_FILE"):
                    self._trusted.load_verify_locations(authorities)  # besides the system's own
            context = self._trusted
        port = parts.port or (443 if context else 80)
        return await asyncio.open_connection(parts.hostname, port, ssl=context)


async def _read(reader: asyncio.StreamReader) -> tuple[Answer, bool]:
    """An answer, and whether the connection may be used again."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    version, status, *_ = head[0].split(" ")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    length = fields.get("content-length")
    whole = True
    if fields.get("transfer-encoding", "").lower() == "chunked":
        body = await _chunks(reader)
    elif length is not None:
        body = await reader.readexactly(int(length))
    elif status == "204":
        body = b""
    else:
        body, whole = await reader.read(), False
    kept = whole and version == "HTTP/1.1" and fields.get("connection", "").lower() != "close"
    later = fields.get("retry-after", "")
    return Answer(int(status), float(later) if later.isdigit() else 0.0, body), kept


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers
    return b"".join(parts)
