"""The HTTP transport: connections to an API server, with credentials that are renewed in time."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import math
import re
import socket
import ssl
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import aiohttp
import attrs
from yarl import URL

from pyscheduler.cluster.real.base_transport import ConnectingTransport
from pyscheduler.cluster.real.concurrency import FULL
from pyscheduler.cluster.real.tls import AUTHORITY_SETTING
from pyscheduler.cluster.real.write_connections import BrokenAnswerError, ConnectionPool
from pyscheduler.framework.errors import TransportError
from pyscheduler.scheduler.ports import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.cluster.real.auth import Credentials
    from pyscheduler.framework.recorder import Recorder

__all__ = ["HTTPTransport"]

#: What the client path has in flight at most, and room for informers' lists, which do not wait for a turn there.
_CONNECTIONS: Final = FULL + 16
_KEEP_ALIVE_SECONDS: Final = 60.0
_SECONDS: Final = 30.0
#: A watch may be silent for long; how long is for its reader to say.
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=30.0)
_HEADERS: Final = {"User-Agent": "pyscheduler", "Accept": "application/json"}
#: OpenSSL's number for an expired certificate.
_EXPIRED: Final = 10
#: Of a certificate for another host name, and for another address.
_OTHER_NAME: Final = frozenset({62, 64})
_UNAUTHORIZED: Final = 401
#: What may be sent once more where a connection that was idle turns out to be closed.
_REPEATABLE: Final = frozenset({"PUT", "DELETE"})
#: Paths that need no quoting, which is all of them unless somebody made an object with a strange name.
_PLAIN: Final = re.compile(r"[A-Za-z0-9/._~:-]*")
#: The user in a URL, and the password.
_USER: Final = re.compile(r"://[^/\s]*@")
#: When the other end of an idle connection is asked whether it is still there, how often then, and how many times.
_PROBE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class _HTTPStream:
    __slots__ = ("_read", "_where", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, where: str) -> None:
        self._read = response.content.readany
        self._where = where
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    def __aiter__(self) -> _HTTPStream:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._read()
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"GET {self._where}: cut off: {_why(error)}") from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


@attrs.define
class _Rotation:
    """Notices when a client certificate has taken another's place."""

    _certificates: int
    _since: float
    _clock: Clock
    _recorder: Recorder

    def note(self, certificates: int) -> None:
        """Record the age of the last certificate, if this is another."""
        if certificates != self._certificates:
            now = self._clock.now()
            self._recorder.observe("rest_client_exec_plugin_certificate_rotation_age", now - self._since)
            self._certificates, self._since = certificates, now


class HTTPTransport(ConnectingTransport):
    """Carries requests to one API server. Made inside a running event loop; close it when done."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        #: Without a user and a password, which messages must not tell: they end up in events that everybody reads.
        self._base = _without_password(credentials.server.rstrip("/"))
        self._url = URL(self._base)
        #: What these come to as a header, where the credentials have none.
        self._own = _basic(URL(credentials.server))
        self._sessions: dict[tuple[str, int], aiohttp.ClientSession] = {}
        #: For writes, by the number of the TLS context.
        self._pools: dict[int, ConnectionPool] = {}
        #: Whether writes need nothing that only aiohttp can do.
        self._writes_directly = credentials.proxy is None
        #: What is the same in each write, for the credential that was used last.
        self._head = b""
        self._head_authorization: str | None = None
        #: Answers that are being read.
        self._open: set[aiohttp.ClientResponse] = set()
        self._closed = False
        #: Closes the connections that are no longer used.
        self._closing: set[asyncio.Task[None]] = set()
        #: How often a session was asked for and was there, and how often one had to be made.
        self._hits = 0
        self._misses = 0
        self._rotation: _Rotation | None = None

    @property
    def server(self) -> str:
        """Return the URL of the API server, for messages."""
        return self._base

    @property
    def host(self) -> str:
        """Return the server's host and port, as its URL has them."""
        return urlsplit(self._base).netloc

    def measure(self, *, clock: Clock, recorder: Recorder) -> None:
        """Measure connection pools and client certificates with `recorder`."""
        self._rotation = _Rotation(self._credentials.certificates, clock.now(), clock, recorder)
        recorder.gauge(
            "rest_client_transport_cache_entries", lambda: {(): float(len(self._sessions) + len(self._pools))}
        )
        recorder.counter("rest_client_transport_create_calls_total", self._session_calls)
        recorder.counter("rest_client_transport_cert_rotation_gc_calls_total", lambda: {(): 0.0})
        recorder.gauge("rest_client_exec_plugin_ttl_seconds", self._certificate_seconds)

    def _session_calls(self) -> dict[tuple[tuple[str, str], ...], float]:
        counts = {"hit": self._hits, "miss": self._misses}
        return {(("result", result),): float(count) for result, count in counts.items() if count}

    def _certificate_seconds(self) -> dict[tuple[tuple[str, str], ...], float]:
        """Return infinity; nothing once certificates are renewed, whose end nobody here reads."""
        return {} if self._credentials.certificates else {(): math.inf}

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> Response:
        """Send one request and read the whole answer, for at most `timeout_seconds` (30 where it is None)."""
        send = self._write if self._writes_directly and method != "GET" else self._send
        seconds = _SECONDS if timeout_seconds is None else timeout_seconds
        authorization = await self._credentials.authorization()
        self.check_fence(method, path, self._base)
        answer = await send(method, path, query, body, content_type, authorization, seconds)
        # A 401 means that nothing was done. An expired credential is renewed, and the request sent once more.
        if answer.status == _UNAUTHORIZED and await self._credentials.renew(authorization):
            authorization = await self._credentials.authorization()
            self.check_fence(method, path, self._base)
            answer = await send(method, path, query, body, content_type, authorization, seconds)
        return answer

    async def _write(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        authorization: str | None,
        seconds: float,
    ) -> Response:
        if query or _PLAIN.fullmatch(path) is None:
            target = URL(self._base + path).update_query(query or {}).raw_path_qs
        else:
            target = self._url.raw_path.rstrip("/") + path
        if authorization != self._head_authorization or not self._head:
            self._head_authorization = authorization
            # Answers to writes are too short to be compressed.
            headers = {"Host": self._url.host_port_subcomponent, **_HEADERS, "Accept-Encoding": "identity"}
            headers |= self._headers(authorization)
            self._head = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
        kind = "" if body is None else f"Content-Type: {content_type}\r\n"
        data = body or b""
        request = b"%b%b%b%b" % (
            f"{method} {target} HTTP/1.1\r\n".encode("ascii"),
            self._head,
            f"{kind}Content-Length: {len(data)}\r\n\r\n".encode("ascii"),
            data,
        )
        try:
            return await self._pool().exchange(
                request,
                seconds=seconds,
                repeatable=method in _REPEATABLE,
                check=partial(self.check_fence, method, path, self._base) if self._leads is not None else None,
            )
        except (BrokenAnswerError, OSError) as error:
            raise TransportError(f"{method} {self._base}{path}: {_why(error, self._credentials.authority)}") from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        authorization: str | None,
        seconds: float,
    ) -> Response:
        headers = self._headers(authorization)
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._session("requests").request(
                method,
                self._url_of(path),
                params=query,
                data=body,
                headers=headers,
                proxy=self._credentials.proxy,
                server_hostname=self._credentials.server_hostname,
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
            ) as response:
                self._open.add(response)
                try:
                    data = await response.read()
                finally:
                    self._open.discard(response)
                # Names are found in any case in these, and as a rule nobody looks.
                return Response(status=response.status, body=data, headers=response.headers)
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{method} {self._base}{path}: {_why(error, self._credentials.authority)}") from error

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AsyncIterator[_HTTPStream]:
        """Open a watch; `timeout_seconds` bounds the wait for the answer to begin."""
        authorization = await self._credentials.authorization()
        response = await self._watch(path, query, authorization, timeout_seconds)
        try:
            if response.status == _UNAUTHORIZED and await self._credentials.renew(authorization):
                response.close()
                authorization = await self._credentials.authorization()
                response = await self._watch(path, query, authorization, timeout_seconds)
            self._open.add(response)
            yield _HTTPStream(response, self._base + path)
        finally:
            self._open.discard(response)
            response.close()

    async def _watch(
        self, path: str, query: Mapping[str, str] | None, authorization: str | None, seconds: float | None
    ) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(seconds):
                return await self._session("watches").get(
                    self._url_of(path),
                    params=query,
                    headers=self._headers(authorization),
                    proxy=self._credentials.proxy,
                    server_hostname=self._credentials.server_hostname,
                    timeout=_NO_TIMEOUT,
                    allow_redirects=False,
                )
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"GET {self._base}{path}: {_why(error, self._credentials.authority)}") from error

    async def close(self) -> None:
        """Close all connections; idempotent. Requests under way end with `TransportError`."""
        self._closed = True
        # Closing a session does not wake those who wait for the next bytes of a body; this does.
        for response in tuple(self._open):
            response.close()
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            await pool.close()
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()
        if self._closing:
            await asyncio.wait(self._closing)
        await self._credentials.close()

    def _pool(self) -> ConnectionPool:
        """Return the connections for writes, made when first needed; new certificates need new ones, see `_session`."""
        key = self._credentials.contexts
        pool = self._pools.get(key)
        if pool is not None:
            self._hits += 1
            return pool
        self._note_miss()
        tls = self._credentials.ssl_context
        if tls is None and self._url.scheme == "https":
            tls = ssl.create_default_context()
        host = self._url.raw_host or ""
        pool = self._pools[key] = ConnectionPool(
            host,
            self._url.port or 0,
            tls=tls,
            server_hostname=self._credentials.server_hostname or host.rstrip("."),
            keep_alive_seconds=_KEEP_ALIVE_SECONDS,
            make_socket=_socket,
        )
        return pool

    def _note_miss(self) -> None:
        """Count that connections of a new kind are needed; raise `TransportError` at the end."""
        if self._closed:
            raise TransportError(f"{self._base}: the transport is closed")
        self._misses += 1
        if self._rotation is not None:
            self._rotation.note(self._credentials.certificates)
        self._let_go()

    def _let_go(self) -> None:
        """Close what was made for certificates before the last ones: what was under way on it has ended since.

        A TLS context with the system's authorities takes a megabyte, and who rotates every hour makes many in a year.
        """
        oldest = self._credentials.contexts - 1
        pools = [self._pools.pop(key) for key in tuple(self._pools) if key < oldest]
        sessions = [self._sessions.pop(key) for key in tuple(self._sessions) if key[1] < oldest]
        for close in (*(pool.close for pool in pools), *(session.close for session in sessions)):
            task = asyncio.create_task(close(), name="close old connections")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _session(self, use: str) -> aiohttp.ClientSession:
        """Return the session for `requests` or `watches`, made when first needed.

        A connection keeps the client certificate it was opened with, and the authority it was trusted by, so new ones
        need a new session. The old one ends what is under way on it; its idle connections time out.
        """
        key = (use, self._credentials.contexts)
        session = self._sessions.get(key)
        if session is not None:
            self._hits += 1
            return session
        self._note_miss()
        session = self._sessions[key] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=_CONNECTIONS if use == "requests" else 0,
                ssl=self._credentials.ssl_context or True,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
                socket_factory=_socket,
            ),
            headers={
                **_HEADERS,
                "Accept-Encoding": "gzip"
                # Compression shrinks a page of pods to a tenth; on the same machine, it would only cost CPU.
                if self._credentials.compressed and not _is_here(self._url.host or "")
                else "identity",
            },
            cookie_jar=aiohttp.DummyCookieJar(),  # a load balancer's cookies would pin everything to one server
            trust_env=False,
        )
        return session

    def _url_of(self, path: str) -> URL:
        return URL(self._base + path, encoded=_PLAIN.fullmatch(path) is not None)

    def _headers(self, authorization: str | None) -> dict[str, str]:
        shown = authorization or self._own
        return {"Authorization": shown} if shown else {}


def _basic(url: URL) -> str:
    """Return the header that says who the URL says one is; nothing where it does not."""
    if not url.user:
        return ""
    return "Basic " + base64.b64encode(f"{url.user}:{url.password or ''}".encode()).decode()


def _is_here(host: str) -> bool:
    """Return True if an address is one of this machine's own; of names only `localhost` is known."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    if address.is_loopback:
        return True
    # Nothing is sent: the system only says which of its addresses it would use, and to itself it uses that very one.
    try:
        with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as asked:
            asked.connect((host, 9))
            return ipaddress.ip_address(asked.getsockname()[0]) == address
    except OSError:
        return False


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Make a socket that notices when the other end has vanished without a word: a silent watch sends nothing."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBE:
        option = getattr(socket, name, None)  # not every system lets these be set
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _why(error: Exception, authority: str = AUTHORITY_SETTING) -> str:
    """Return in words why no answer came; `authority` is the setting that names the authority of certificates."""
    match error:
        case (
            aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as inner)
            | aiohttp.ClientConnectorError(os_error=OSError(strerror=str()) as inner)
        ):
            return _why(inner, authority)
        case ssl.SSLCertVerificationError(verify_code=code, verify_message=message):
            if code == _EXPIRED:
                return "its certificate has expired; renew it on the server"
            if code in _OTHER_NAME:
                remedy = "use an address for which the certificate was made"
            else:
                remedy = f"name the file with the certificate of the authority that signed it: {authority}"
            return f"its certificate is not trusted: {message}; {remedy}"
        case TimeoutError():
            return "no answer in time"
        case ConnectionRefusedError():
            return "connection refused"
        case OSError(strerror=str(reason)) if reason:
            return " ".join(reason.split())
        case aiohttp.ClientPayloadError() if "not completed" in str(error):
            return "the answer ended in the middle"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed without an answer"
        case aiohttp.ClientHttpProxyError(status=status, message=str(message)):
            text = f"the proxy answered {status} {message}"
        case _:
            text = _without_password(str(error))
    return " ".join(text.split()) or type(error).__name__


def _without_password(text: str) -> str:
    """Return a text without the user names in its URLs."""
    return _USER.sub("://", text)
