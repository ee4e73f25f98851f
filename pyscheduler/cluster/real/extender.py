"""The connection to a scheduler extender: HTTP or HTTPS, with the TLS settings of the extender's configuration.

Differs from kube-scheduler: only redirects with the codes 307 and 308 are followed.
Source: kube-scheduler 1.36, `NewHTTPExtender`, `makeTransport`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import attrs
from yarl import URL

from pyscheduler.cluster.real.proxies import environment_proxy
from pyscheduler.cluster.real.tls import make_context
from pyscheduler.framework.errors import ConfigError, TransportError
from pyscheduler.scheduler.ports import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pyscheduler.config.types import Extender, ExtenderTLS

__all__ = ["HTTPExtenderConnection"]

_KEEP_ALIVE_SECONDS: Final = 90.0
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None)
_KEEPS_THE_QUESTION: Final = frozenset({307, 308})
_REDIRECTS: Final = 10
#: What an answer may have at most, in bytes.
_LARGEST: Final = 256 << 20
#: Pieces of a question are sent together up to this size.
_TOGETHER: Final = 128 << 10


class HTTPExtenderConnection:
    """Talks to one extender. Close it when done; the timeout of a call is its caller's business."""

    def __init__(self, config: Extender) -> None:
        tls = config.tls_config
        self._ssl: ssl.SSLContext | bool = _context(config, tls) if tls is not None or config.enable_https else True
        self._server_name = (tls.server_name or None) if tls is not None else None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def post(self, url: str, body: Sequence[bytes]) -> Response:
        """Send JSON, given in pieces; raise `TransportError` when no answer came."""
        try:
            target = URL(url)
            for _ in range(_REDIRECTS):
                response = await self._send(target, body)
                location = response.headers.get("location")
                if response.status not in _KEEPS_THE_QUESTION or not location:
                    return response
                target = target.join(URL(location))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(f'Post "{url}": {_why(error)}') from error
        raise TransportError(f'Post "{url}": stopped after {_REDIRECTS} redirects')

    async def close(self) -> None:
        """Close the connections; idempotent."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send(self, url: URL, body: Sequence[bytes]) -> Response:
        size = sum(map(len, body))
        async with self._open(url).post(
            url,
            data=_together(body) if size else b"",
            # Not every extender reads a body of unknown length.
            headers={"Content-Type": "application/json", "Content-Length": str(size)},
            server_hostname=self._server_name,
            proxy=environment_proxy(str(url), os.environ),
            allow_redirects=False,
        ) as response:
            text = bytearray()
            async for chunk in response.content.iter_any():
                text += chunk
                if len(text) > _LARGEST:
                    raise TransportError(f'Post "{url}": the answer has more than {_LARGEST >> 20} MiB')
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Response(response.status, bytes(text), headers)

    def _open(self, url: URL) -> aiohttp.ClientSession:
        if self._closed:
            raise TransportError(f'Post "{url}": the scheduler is stopping')
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._ssl, keepalive_timeout=_KEEP_ALIVE_SECONDS),
                headers={"User-Agent": "pyscheduler"},
                timeout=_NO_TIMEOUT,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


async def _together(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces, small ones joined; a question about thousands of nodes is never one text."""
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= _TOGETHER:
            yield b"".join(gathered)
            gathered.clear()
            size = 0
            await asyncio.sleep(0)
    if gathered:
        yield b"".join(gathered)


@attrs.define
class _Files:
    """TLS settings in the form in which those of a kubeconfig come."""

    ssl_ca_cert: str | None
    ca_cert_data: str | bytes | None
    cert_file: str | None
    key_file: str | None
    verify_ssl: bool


def _context(config: Extender, tls: ExtenderTLS | None) -> ssl.SSLContext | bool:
    """Return how to speak TLS; raise `ConfigError` for settings that contradict themselves or cannot be used.

    HTTPS that is enabled without an authority trusts any server, as in kube-scheduler.
    """
    if tls is None:
        return make_context(_Files(None, None, None, None, verify_ssl=False), config.url_prefix)
    has_authority = bool(tls.ca_data or tls.ca_file)
    insecure = tls.insecure or (config.enable_https and not has_authority)
    if insecure and has_authority:
        raise ConfigError("specifying a root certificates file with the insecure flag is not allowed")
    certificate = bool(tls.cert_data or tls.cert_file)
    if certificate != bool(tls.key_data or tls.key_file):
        raise ConfigError("a client certificate needs its key, and a key its certificate")
    with tempfile.TemporaryDirectory(prefix="pyscheduler-") as folder:
        # Python reads certificates from files only; the folder is the owner's alone, and gone at once.
        files = _Files(
            ssl_ca_cert=None if tls.ca_data else tls.ca_file or None,
            ca_cert_data=tls.ca_data.decode(errors="replace") or None,
            cert_file=_in_file(tls.cert_data, tls.cert_file, Path(folder, "tls.crt")),
            key_file=_in_file(tls.key_data, tls.key_file, Path(folder, "tls.key")),
            verify_ssl=not insecure,
        )
        return make_context(files, f"extender {config.url_prefix}")


def _in_file(data: bytes, file: str, place: Path) -> str | None:
    """Return where the certificate or key lies; its contents, where they are given, win over a file."""
    if not data:
        return file or None
    place.write_bytes(data)
    return str(place)


def _why(error: Exception) -> str:
    """Return in one line, in Go's words where it has some, why no answer came."""
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as refused):
            return f"tls: failed to verify certificate: x509: {refused.verify_message}"
        case aiohttp.ClientConnectorDNSError(host=str(host)):
            return f"dial tcp: lookup {host}: no such host"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError(), host=str(host), port=port):
            return f"dial tcp {host}:{port}: connect: connection refused"
        case aiohttp.ClientConnectorError(os_error=OSError(strerror=str(reason))) if reason:
            return f"dial tcp: {' '.join(reason.split()).lower()}"
        case aiohttp.ServerDisconnectedError():
            return "EOF"
        case aiohttp.ClientPayloadError():
            return "unexpected EOF"
        case aiohttp.NonHttpUrlClientError() | aiohttp.InvalidURL():
            scheme = str(error).partition(":")[0] if "://" in str(error) else ""
            return f'unsupported protocol scheme "{scheme}"'
    return " ".join(str(error).split()) or type(error).__name__
