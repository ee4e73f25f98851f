"""Limits on the connections of a port, over real sockets of this machine."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
from aiohttp import web

from pyscheduler.flags.run_flags import SecureServingFlags
from pyscheduler.serving.connections import ConnectionLimits, _origin
from pyscheduler.serving.http_server import HTTPServer
from pyscheduler.serving.tls_serving import ServingTLS
from tests.serving.pem import Authority

#: Time limits that no test reaches.
PATIENT = ConnectionLimits(handshake_seconds=300.0, first_request_seconds=300.0)


@attrs.define
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def get(self) -> bytes:
        """Send a request; return the first line of the answer, which is empty if the connection has ended."""
        self.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        line = await self.reader.readline()
        if line:
            await self.reader.readuntil(b"\r\n\r\nok")
        return line.strip()

    async def ended(self) -> bool:
        """Wait for the end of the connection."""
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True

    async def close(self) -> None:
        """End the connection."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            return


@asynccontextmanager
async def serving(
    limits: ConnectionLimits, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Callable[..., Awaitable[Client]]]:
    """Serve within `limits` while the block runs; yield what connects, from an address of this machine."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text="ok")

    server = HTTPServer(answer, limits)
    await server.start(socket.create_server(("127.0.0.1", 0)), tls=tls)
    clients: list[Client] = []

    async def connect(source: str = "127.0.0.1") -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", server.port, local_addr=(source, 0))))
        return clients[-1]

    try:
        yield connect
    finally:
        for client in clients:
            await client.close()
        await server.stop()


async def test_an_address_has_a_share_of_the_connections() -> None:
    """Further connections end its own silent ones, and are refused if all of them have sent requests."""
    async with serving(attrs.evolve(PATIENT, total=9, per_address=3)) as connect:
        other, silent = await connect("127.0.0.2"), await connect()
        useful = [await connect() for _ in range(3)]
        assert [await client.get() for client in useful] == [b"HTTP/1.1 200 OK"] * 3
        assert await silent.ended()
        assert all([await (await connect()).ended() for _ in range(200)])
        assert [await client.get() for client in (other, *useful)] == [b"HTTP/1.1 200 OK"] * 4


async def test_a_probe_is_answered_among_idle_connections() -> None:
    """Many more than may be open at once, from the address of the probe: the oldest have ended."""
    async with serving(attrs.evolve(PATIENT, total=20, per_address=10)) as connect:
        idle = [await connect() for _ in range(300)]
        assert await (await connect()).get() == b"HTTP/1.1 200 OK"
        assert all([await client.ended() for client in idle[:291]])


async def served(connect: Callable[..., Awaitable[Client]]) -> Client:
    """Return a client whose first request was answered; the server may end a few before."""
    while True:
        client = await connect()
        if await client.get() == b"HTTP/1.1 200 OK":
            return client
        await asyncio.sleep(0.01)


async def test_a_closed_connection_gives_back_its_place() -> None:
    """Any number of connections are served one after another."""
    async with serving(attrs.evolve(PATIENT, total=2, per_address=1)) as connect:
        for _ in range(20):
            client = await served(connect)
            assert await client.get() == b"HTTP/1.1 200 OK"
            await client.close()


async def test_the_oldest_silent_connection_ends_for_a_new_one() -> None:
    """A probe is answered even if idle connections from many addresses use all places."""
    async with serving(attrs.evolve(PATIENT, total=4, per_address=2)) as connect:
        silent = [await connect(f"127.0.0.{number}") for number in range(10, 14)]
        probe = await connect()
        assert await probe.get() == b"HTTP/1.1 200 OK"
        assert await silent[0].ended()
        assert [await client.get() for client in silent[1:]] == [b"HTTP/1.1 200 OK"] * 3


async def test_no_connection_with_requests_ends_for_a_new_one(caplog: pytest.LogCaptureFixture) -> None:
    """If all connections have sent requests, further ones are refused, with one warning."""
    async with serving(attrs.evolve(PATIENT, total=2, per_address=2)) as connect:
        clients = [await connect(f"127.0.0.{number}") for number in (10, 11)]
        assert [await client.get() for client in clients] == [b"HTTP/1.1 200 OK"] * 2
        assert await (await connect()).ended()
        assert await (await connect()).ended()
        assert [await client.get() for client in clients] == [b"HTTP/1.1 200 OK"] * 2
    (text,) = [each.getMessage() for each in caplog.records if "Refusing connections" in each.getMessage()]
    assert "address=127.0.0.1 ofAddress=0 open=2" in text


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: "])
async def test_a_first_request_that_does_not_arrive_ends_the_connection(sent: bytes) -> None:
    """Nothing is sent, or the headers have no end. A connection with a request stays open for longer."""
    limits = attrs.evolve(PATIENT, first_request_seconds=0.2)
    async with serving(limits) as connect:
        useful, silent = await served(connect), await connect()
        silent.writer.write(sent)
        assert await silent.ended()
        assert await useful.get() == b"HTTP/1.1 200 OK"


async def test_an_idle_connection_ends() -> None:
    """It ends some time after its last request."""
    async with serving(attrs.evolve(PATIENT, idle_seconds=0.2)) as connect:
        client = await connect()
        assert await client.get() == b"HTTP/1.1 200 OK"
        assert await client.ended()


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """Return the context of a server."""
    certificate, key = Authority().pair(tmp_path, "server")
    return ServingTLS(SecureServingFlags(tls_cert_file=certificate, tls_private_key_file=key)).context


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(attrs.evolve(PATIENT, handshake_seconds=0.2), id="handshake"),
        pytest.param(attrs.evolve(PATIENT, first_request_seconds=0.2), id="first request"),
    ],
)
async def test_a_tls_handshake_that_does_not_begin_ends_the_connection(
    tls: ssl.SSLContext, limits: ConnectionLimits
) -> None:
    """A handshake has a time limit of its own, and is a part of the first request."""
    async with serving(limits, tls) as connect:
        assert await (await connect()).ended()


async def test_a_connection_before_its_handshake_ends_for_a_new_one(tls: ssl.SSLContext) -> None:
    """Connections count before their handshake."""
    async with serving(attrs.evolve(PATIENT, total=1), tls) as connect:
        silent, other = await connect("127.0.0.2"), await connect()
        assert await silent.ended()
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        await other.writer.start_tls(trusting)
        assert await other.get() == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        (("10.0.0.1", 80), "10.0.0.1"),
        (("::ffff:10.0.0.1", 80, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3::4", 80, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 80, 0, 2), "fe80::/64"),
        ("", ""),
    ],
)
def test_origin(address: object, origin: str) -> None:
    """An IPv6 host counts once, whichever of its addresses it uses."""
    assert _origin(address) == origin
