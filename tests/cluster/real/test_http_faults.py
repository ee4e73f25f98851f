"""Broken answers, byte by byte: each is one clear `TransportError`, or an answer if it is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_objects.clock import Clock
from kube_testserver.virtual_time import VirtualClock
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.auth import Credentials
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.framework.errors import TransportError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def transports() -> AsyncIterator[list[HTTPTransport]]:
    """Close the transports that a test made."""
    made: list[HTTPTransport] = []
    yield made
    for transport in made:
        await transport.close()


@pytest.fixture
def start(wire: Any, transports: list[HTTPTransport]) -> Any:
    """Start a server and return it with a transport to it."""

    async def begin(answer: Any, **keywords: Any) -> tuple[Any, HTTPTransport]:
        server = await wire(answer)
        credentials = Credentials(server=server.url, **keywords) if keywords else auth.plain(server.url)
        transports.append(HTTPTransport(credentials))
        return server, transports[-1]

    return begin


def saying(data: bytes, *, then: str = "close") -> Any:
    """Return an answer of exactly these bytes, after which the connection is closed, reset or kept."""

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if then == "close":
            writer.close()
        elif then == "reset":
            writer.transport.abort()

    return answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(saying(b""), "closed without an answer", id="no-answer"),
        pytest.param(saying(b"", then="reset"), "closed without an answer|reset", id="reset-before"),
        pytest.param(saying(HEAD + b'{"kind":"Pod', then="close"), "GET", id="half-a-body"),
        pytest.param(saying(HEAD + b'{"kind":"Pod', then="reset"), "GET", id="reset-in-the-body"),
        pytest.param(saying(CHUNKED + b'20\r\n{"kind":"Pod', then="close"), "GET", id="half-a-chunk"),
        pytest.param(saying(HEAD[:30]), "closed without an answer", id="half-a-head"),
        pytest.param(saying(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "GET", id="not-http"),
        pytest.param(
            saying(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"), "GET", id="gzip"
        ),
    ],
)
async def test_no_proper_answer(start: Any, answer: Any, message: str) -> None:
    """Whatever breaks, it is a TransportError in one line that names the request."""
    _, transport = await start(answer)
    with pytest.raises(TransportError, match=message) as caught:
        await transport.request("GET", "/api/v1/pods")
    assert f"GET {transport.server}/api/v1/pods: " in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_nobody_listens(wire: Any, transports: list[HTTPTransport]) -> None:
    """A refused connection says so, for requests and watches."""
    server = await wire(saying(b""))
    await server.stop()
    transport = HTTPTransport(auth.plain(server.url))
    transports.append(transport)
    with pytest.raises(TransportError, match="connection refused"):
        await transport.request("GET", "/x")
    with pytest.raises(TransportError, match="connection refused"):
        async with transport.stream("/x"):
            pass


async def test_name_that_does_not_resolve(transports: list[HTTPTransport]) -> None:
    """An unknown host is one line, too."""
    transports.append(HTTPTransport(auth.plain("http://no-such-host.invalid:6443")))
    with pytest.raises(TransportError, match=r"GET http://no-such-host.invalid:6443/x: \S+") as caught:
        await transports[0].request("GET", "/x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_passwords_are_not_told(wire: Any, method: str) -> None:
    """What goes wrong stands in events, which more people read than the kubeconfig: no user, and no password."""
    proxy = await wire(saying(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"))
    named = proxy.url.replace("://", "://kim:secret@")
    for server, message in (
        ("https://kim:secret@10.0.0.1:6443", "GET https://10.0.0.1:6443/x: the proxy answered 407 Proxy Auth"),
        ("http://kim:secret@127.0.0.1:1", "GET http://127.0.0.1:1/x: connection refused"),
    ):
        transport = HTTPTransport(Credentials(server=server, proxy=named if "https" in server else None))
        with pytest.raises(TransportError) as caught:
            await transport.request(method, "/x", body=b"{}")
        await transport.close()
        assert str(caught.value).startswith(message.replace("GET", method))
        assert "kim" not in str(caught.value) + transport.server


async def test_silence_until_the_timeout(start: Any) -> None:
    """A server that takes the request and says nothing is not waited for longer than asked."""
    _, transport = await start(saying(b"", then="keep"))
    with pytest.raises(TransportError, match="no answer in time"):
        await transport.request("GET", "/x", timeout_seconds=0.05)
    with pytest.raises(TransportError, match="no answer in time"):
        async with transport.stream("/x", timeout_seconds=0.05):
            pass


async def test_silence_in_the_body(start: Any) -> None:
    """The timeout of a request counts until its last byte."""
    _, transport = await start(saying(HEAD + b"{", then="keep"))
    with pytest.raises(TransportError, match="no answer in time"):
        await transport.request("GET", "/x", timeout_seconds=0.05)


async def test_stream_may_be_silent_once_it_has_begun(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a watch may be silent is for its reader to say: the transport goes on waiting."""
    _, transport = await start(saying(CHUNKED + b"3\r\n{}\n\r\n", then="keep"))
    async with transport.stream("/x", timeout_seconds=60) as stream:
        chunks = aiter(stream)
        assert await anext(chunks) == b"{}\n"

        async def wait() -> None:
            await anext(chunks)

        waiting = asyncio.create_task(wait())
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 3600)  # every timer that runs is due
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_stream_cut_in_half_a_line(start: Any, then: str) -> None:
    """What arrived before the cut is handed on; the cut is an error."""
    _, transport = await start(saying(CHUNKED + b'10\r\n{"type":"ADDED",\r\n', then=then))
    got = bytearray()

    async def follow() -> None:
        async with transport.stream("/x") as stream:
            async for chunk in stream:
                got.extend(chunk)

    with pytest.raises(TransportError, match="cut off"):
        await follow()
    assert bytes(got) in (b'{"type":"ADDED",', b"")  # a reset may overtake what was sent before it


@pytest.mark.parametrize(
    "status",
    [
        "401 Unauthorized",
        "403 Forbidden",
        "404 Not Found",
        "409 Conflict",
        "410 Gone",
        "429 Slow",
        "500 Oh",
        "503 Busy",
    ],
)
async def test_any_status_is_an_answer(start: Any, status: str) -> None:
    """Refusals are for the client path to judge; they come through with body and headers."""

    async def refuse(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, b"<html>no</html>", status, Retry_After="7")

    _, transport = await start(refuse)
    answer = await transport.request("POST", "/x", body=b"{}")
    assert answer.status == int(status[:3])
    assert answer.body == b"<html>no</html>"
    assert answer.headers["retry-after"] == "7"
    async with transport.stream("/x") as stream:
        assert stream.status == int(status[:3])


class Tokens:
    """A source of credentials: each reading gives the next token."""

    name = "test tokens"

    def __init__(self) -> None:
        self.read_count = 0

    async def read(self, configuration: Any, *, anew: bool) -> None:
        assert anew
        self.read_count += 1
        configuration.token = f"Bearer {self.read_count}"

    def valid_seconds(self, wall: float) -> float:
        return 1e9


class Configuration:
    """What is asked of the official client's configuration."""

    cert_file = key_file = None
    token = "Bearer 0"

    async def get_api_key_with_prefix(self, identifier: str) -> str:
        return self.token


def expiring(clock: Clock) -> dict[str, Any]:
    """Return credentials whose token the server below does not accept any more."""
    return {"source": Tokens(), "configuration": Configuration(), "clock": clock, "authorization": "Bearer 0"}


async def accept_one(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """Accept token 1 only."""
    if "Authorization: Bearer 1\r\n" in head:
        wire.reply(writer, b"welcome")
    else:
        wire.reply(writer, b"who are you?", "401 Unauthorized")


async def test_expired_token_is_renewed_and_the_request_repeated(start: Any) -> None:
    """A token that ends in mid-run costs a 401 that nobody sees; many requests at once renew it once."""
    keywords = expiring(VirtualClock())
    server, transport = await start(accept_one, **keywords)
    answers = await asyncio.gather(*(transport.request("POST", "/x", body=b"{}") for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert keywords["source"].read_count == 1
    assert len(server.heads) == 40


async def test_watch_is_opened_again_with_the_new_token(start: Any) -> None:
    """The same for watches."""
    _, transport = await start(accept_one, **expiring(VirtualClock()))
    async with transport.stream("/x") as stream:
        assert stream.status == 200
        assert [chunk async for chunk in stream] == [b"welcome"]


async def test_refused_for_good_is_asked_twice_and_not_more(start: Any) -> None:
    """A revoked account's 401 comes through, and its source is not worn out."""

    async def refuse(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, b"", "401 Unauthorized")

    clock = VirtualClock()
    keywords = expiring(clock)
    server, transport = await start(refuse, **keywords)
    assert [(await transport.request("GET", "/x")).status for _ in range(5)] == [401] * 5
    assert (keywords["source"].read_count, len(server.heads)) == (1, 6)
    await clock.advance(11)
    assert (await transport.request("GET", "/x")).status == 401
    assert keywords["source"].read_count == 2
