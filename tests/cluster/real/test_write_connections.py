"""Connections for writes: what is sent, what counts as an answer, and when a connection is used again."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.auth import Credentials
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.cluster.real.write_connections import BrokenAnswerError, ConnectionPool, _Connection
from pyscheduler.framework.errors import TransportError
from pyscheduler.scheduler.ports import Response
from tests.cluster.real.test_auth_tls import context

MANY = 8


@pytest.fixture
async def pool_to() -> AsyncIterator[Callable[..., ConnectionPool]]:
    """Make pools of connections to a server, closed at the end."""
    made: list[ConnectionPool] = []

    def make(server: Any, *, keep_alive_seconds: float = 60.0) -> ConnectionPool:
        made.append(
            ConnectionPool(
                "127.0.0.1",
                int(server.url.rpartition(":")[2]),
                tls=None,
                server_hostname="",
                keep_alive_seconds=keep_alive_seconds,
                make_socket=lambda address: socket.socket(*address[:3]),
            )
        )
        return made[-1]

    yield make
    for pool in made:
        await pool.close()


async def ask(
    pool: ConnectionPool, what: str = "x", *, seconds: float = 60.0, method: str = "POST", repeatable: bool = False
) -> Response:
    """Send a small request."""
    head = f"{method} /{what} HTTP/1.1\r\nContent-Length: 2\r\n\r\n"
    return await pool.exchange(head.encode() + b"{}", seconds=seconds, repeatable=repeatable)


async def echo(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """Answer with what was asked for."""
    wire.reply(writer, head.split()[1].encode(), "201 Created")


def saying(*answers: bytes, close: bool = False) -> Any:
    """Return what gives each request the next of these answers, byte for byte."""
    left = list(answers)

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if left else b"")
        await writer.drain()
        if close:
            writer.close()

    return answer


# --- what is sent ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "line"),
    [
        pytest.param("POST", "/api/v1/pods", b"{}", "POST /k8s/c-1/api/v1/pods HTTP/1.1", id="post"),
        pytest.param("PATCH", "/odd name/\u00fc", b"{}", "PATCH /k8s/c-1/odd%20name/%C3%BC HTTP/1.1", id="quoted"),
        pytest.param("DELETE", "/api/v1/x", None, "DELETE /k8s/c-1/api/v1/x HTTP/1.1", id="no-body"),
    ],
)
async def test_a_write_looks_like_any_other_request(
    wire: Any, method: str, path: str, body: bytes | None, line: str
) -> None:
    """Line and headers are those that an API server, and a balancer before it, go by."""
    server = await wire(echo)
    address = server.url.removeprefix("http://")
    transport = HTTPTransport(Credentials(server=f"{server.url}/k8s/c-1", authorization="Bearer abc"))
    await transport.request(method, path, body=body, content_type="application/merge-patch+json")
    await transport.close()
    first, *headers = server.heads[0].strip().split("\r\n")
    assert first == line
    assert dict(header.split(": ", 1) for header in headers) == {
        "Host": address,
        "User-Agent": "pyscheduler",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": "Bearer abc",
        "Content-Length": str(len(body or b"")),
        **({"Content-Type": "application/merge-patch+json"} if body else {}),
    }


async def test_a_query_goes_along(wire: Any) -> None:
    """It is quoted as elsewhere."""
    server = await wire(echo)
    transport = HTTPTransport(auth.plain(server.url))
    answer = await transport.request("POST", "/x", query={"dryRun": "All", "a": "b c&d"}, body=b"{}")
    await transport.close()
    assert answer.body == b"/x?dryRun=All&a=b+c%26d"


async def test_a_changed_token_is_sent_from_then_on(wire: Any) -> None:
    """What is the same in each request is kept only for as long as it is the same."""
    server = await wire(echo)
    credentials = Credentials(server=server.url)
    transport = HTTPTransport(credentials)
    for token in (None, "Bearer a", "Bearer b"):
        credentials._authorization = token
        await transport.request("POST", "/x", body=b"{}")
    await transport.close()
    assert [head.partition("Authorization: ")[2].partition("\r\n")[0] for head in server.heads] == [
        *("", "Bearer a", "Bearer b")
    ]


async def test_writes_through_a_proxy(wire: Any) -> None:
    """A proxy is asked for the whole address, for writes as for reads."""
    proxy = await wire(echo)
    transport = HTTPTransport(Credentials(server="http://10.0.0.1:6443", proxy=proxy.url))
    await transport.request("POST", "/x", body=b"{}")
    await transport.close()
    assert proxy.heads[0].startswith("POST http://10.0.0.1:6443/x HTTP/1.1\r\n")


async def test_megabytes_each_way(wire: Any, pki: Any) -> None:
    """Neither a large object nor its answer is cut, over TLS either."""
    large = random.Random(1).randbytes(3_000_000)

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, body[::-1])

    server = await wire(answer, context=context(pki))
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(pki / "authority.crt")
    transport = HTTPTransport(Credentials(server=server.url, ssl_context=trusting))
    assert (await transport.request("POST", "/x", body=large)).body == large[::-1]
    await transport.close()


# --- what counts as an answer ---------------------------------------------------------------------

GOOD = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Mute(asyncio.Transport):
    """A connection on which nothing is sent."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Drop it."""

    def is_closing(self) -> bool:
        """Tell that it is open."""
        return False


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(GOOD, id="length"),
        pytest.param(
            b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", id="chunked"
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD, id="announced"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + GOOD, id="twice"),
    ],
)
@settings(max_examples=30)
@given(cuts=st.sets(st.integers(1, 150)))
def test_an_answer_may_arrive_in_any_pieces(answer: bytes, cuts: set[int]) -> None:
    """However it is cut, the answer is the same."""

    async def play() -> Response:
        loop = asyncio.get_running_loop()
        connection = _Connection(loop, set())
        connection.connection_made(Mute())
        asking = asyncio.create_task(connection.exchange(b"", loop.time() + 60))
        await asyncio.sleep(0)
        places = sorted({0, *(cut for cut in cuts if cut < len(answer)), len(answer)})
        for begin, end in itertools.pairwise(places):
            connection.data_received(answer[begin:end])
        found = await asking
        assert connection.reusable
        connection.connection_lost(None)
        return found

    found = asyncio.run(play())
    assert (found.status, found.body) == (201, b"{}")


async def test_a_body_that_ends_with_the_connection(wire: Any, pool_to: Any) -> None:
    """An old proxy says no length; such a connection is not used again."""
    server = await wire(saying(b"HTTP/1.0 200 OK\r\n\r\n{}", close=True))
    answer = await ask(pool_to(server))
    assert (answer.status, answer.body) == (200, b"{}")


async def test_headers_are_found_in_lower_case(wire: Any, pool_to: Any) -> None:
    """However the server writes them, and bytes that are no ASCII do no harm."""
    server = await wire(
        saying(b"HTTP/1.1 429 Slow\r\nRETRY-after: 7\r\nX-Who: \xfc\r\nContent-Length: 0\r\n\r\n", GOOD)
    )
    headers = (await ask(pool_to(server))).headers
    assert headers["retry-after"] == "7"
    assert "content-type" not in headers
    assert len(headers) == len([*headers])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(b"", "closed without an answer", id="nothing"),
        pytest.param(b"HTTP/1.1 201 Cre", "closed without an answer", id="half-a-head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", "closed without an answer", id="announced-only"),
        pytest.param(GOOD[:-1], "ended in the middle", id="half-a-body"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "not HTTP", id="not-http"),
        pytest.param(
            b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "not HTTP", id="another-protocol"
        ),
    ],
)
async def test_no_proper_answer(wire: Any, answer: bytes, message: str) -> None:
    """Whatever breaks, it is a TransportError in one line that names the request."""
    server = await wire(saying(answer, close=True))
    transport = HTTPTransport(auth.plain(server.url))
    with pytest.raises(TransportError, match=message) as caught:
        await transport.request("POST", "/x", body=b"{}")
    assert str(caught.value).startswith(f"POST {server.url}/x: ")
    assert "\n" not in str(caught.value)
    await transport.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("http://127.0.0.1:1", "connection refused", id="refused"),
        pytest.param("http://no-such-host.invalid:6443", r"/x: \S+", id="no-such-name"),
    ],
)
async def test_no_connection(url: str, message: str) -> None:
    """The same for a server that is not there."""
    transport = HTTPTransport(auth.plain(url))
    with pytest.raises(TransportError, match=message) as caught:
        await transport.request("POST", "/x", body=b"{}")
    assert "\n" not in str(caught.value)
    await transport.close()


# --- connections ----------------------------------------------------------------------------------


async def test_connections_are_kept(wire: Any, pool_to: Any) -> None:
    """One after the other requests share one; at once they need one each; and each gets its own answer."""
    server = await wire(echo)
    pool = pool_to(server)
    for _ in range(10):
        await ask(pool)
    assert server.connections == 1
    for _ in range(5):
        answers = await asyncio.gather(*(ask(pool, str(number)) for number in range(MANY)))
        assert [answer.body for answer in answers] == [f"/{number}".encode() for number in range(MANY)]
    assert server.connections == MANY


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(GOOD.replace(b"Content-Type: application/json", b"Connection: close"), id="asked-to-close"),
        pytest.param(GOOD + GOOD, id="two-answers"),
        pytest.param(GOOD + b"x", id="more-than-the-answer"),
    ],
)
async def test_a_connection_is_not_used_again(wire: Any, pool_to: Any, answer: bytes) -> None:
    """Where the server said so, or where what comes next may not be meant for the next request."""
    server = await wire(saying(answer, GOOD))
    pool = pool_to(server)
    assert (await ask(pool)).body == b"{}"
    assert (await ask(pool)).body == b"{}"
    assert server.connections == 2


async def test_unexpected_bytes_are_no_answer(wire: Any, pool_to: Any, turn_until: Any) -> None:
    """A server tells an idle connection that its time is up; the next request begins on another one."""

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, b"{}")
        if wire.connections == 1:
            await writer.drain()
            writers.append(writer)

    writers: list[asyncio.StreamWriter] = []
    server = await wire(answer)
    pool = pool_to(server)
    await ask(pool)
    writers[0].write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
    await turn_until(lambda: not pool._all)
    assert (await ask(pool)).status == 200
    assert server.connections == 2


async def test_an_idle_connection_is_closed_in_time(wire: Any, pool_to: Any, turn_until: Any) -> None:
    """What was not used for so long may be gone without a word, and is not tried."""
    server = await wire(echo)
    pool = pool_to(server, keep_alive_seconds=0.0)
    await ask(pool)
    await ask(pool)
    assert server.connections == 2
    await turn_until(lambda: not pool._all)
    assert pool._idle == []


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_connection_that_ends_as_it_is_used_again(wire: Any, pool_to: Any, repeatable: bool) -> None:
    """Who can be asked twice is; for the others it is open whether anything was done."""

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if len(wire.heads) == 2:
            writer.close()
        else:
            wire.reply(writer, b"{}")

    server = await wire(answer)
    pool = pool_to(server)
    await ask(pool)
    if repeatable:
        assert (await ask(pool, repeatable=True)).status == 200
    else:
        with pytest.raises(BrokenAnswerError, match="closed without an answer"):
            await ask(pool)
    assert len(server.heads) == (3 if repeatable else 2)


async def test_a_server_that_hangs_up_at_once(wire: Any, pool_to: Any) -> None:
    """Connections that are gone before anybody could use them are not waited for at the end."""
    server = await asyncio.start_server(lambda _, writer: writer.transport.abort(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    class Address:
        url = f"http://127.0.0.1:{port}"

    pool = pool_to(Address)
    for _ in range(50):
        with pytest.raises((BrokenAnswerError, OSError)):
            await ask(pool)
    await pool.close()
    assert not pool._all
    server.close()


async def test_a_new_connection_that_ends_is_not_tried_again(wire: Any, pool_to: Any) -> None:
    """A server that hangs up on everybody is asked once."""
    server = await wire(saying(close=True))
    with pytest.raises(BrokenAnswerError):
        await ask(pool_to(server), repeatable=True)
    assert len(server.heads) == 1


async def test_a_deletion_is_repeatable_and_a_binding_is_not(wire: Any) -> None:
    """The transport knows by the method."""

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if len(wire.heads) in {2, 5}:
            writer.close()
        else:
            wire.reply(writer, b"{}")

    server = await wire(answer)
    transport = HTTPTransport(auth.plain(server.url))
    await transport.request("POST", "/x", body=b"{}")
    assert (await transport.request("DELETE", "/x")).status == 200
    await transport.request("POST", "/x", body=b"{}")
    with pytest.raises(TransportError, match="closed without an answer"):
        await transport.request("POST", "/x", body=b"{}")
    await transport.close()


# --- time, and the end ----------------------------------------------------------------------------


async def test_silence_until_the_timeout(wire: Any, pool_to: Any) -> None:
    """Not even a connection that was good for longer ones is waited for longer than this request says."""

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if len(wire.heads) == 1:
            wire.reply(writer, b"{}")

    server = await wire(answer)
    pool = pool_to(server)
    await ask(pool, seconds=100.0)
    with pytest.raises(TimeoutError):
        await ask(pool, seconds=0.05)
    assert not pool._all or all(not connection.reusable for connection in pool._all)


async def test_the_timer_of_an_earlier_request_ends_no_later_one(wire: Any, pool_to: Any) -> None:
    """It looks when its own request is due, and waits on."""
    rung = asyncio.Event()

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if head.startswith("POST /slow"):
            await rung.wait()
        wire.reply(writer, b"{}")

    server = await wire(answer)
    pool = pool_to(server)
    seconds = 0.05
    while True:
        try:
            await ask(pool, seconds=seconds)
            break
        except TimeoutError:  # the machine is that busy
            seconds *= 2
    asyncio.get_running_loop().call_later(2 * seconds, rung.set)
    assert (await ask(pool, "slow")).status == 200


async def test_cancelled_in_the_middle(wire: Any, pool_to: Any) -> None:
    """The answer that is still to come is not taken for that to another request."""
    asked, told = asyncio.Event(), asyncio.Event()

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if head.startswith("POST /slow"):
            asked.set()
            await told.wait()
        wire.reply(writer, head.split()[1].encode())

    server = await wire(answer)
    pool = pool_to(server)
    for _ in range(MANY):
        asked.clear()
        task = asyncio.create_task(ask(pool, "slow"))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    told.set()
    assert (await ask(pool, "quick")).body == b"/quick"


async def test_closing_the_pool_ends_open_requests(wire: Any, pool_to: Any, turn_until: Any) -> None:
    """Whoever waits is told that no answer will come, and nothing is left open."""
    server = await wire(saying())
    pool = pool_to(server)
    tasks = [asyncio.create_task(ask(pool)) for _ in range(MANY)]
    await turn_until(lambda: len(server.heads) == MANY)
    await pool.close()
    assert all(isinstance(one, BrokenAnswerError) for one in await asyncio.gather(*tasks, return_exceptions=True))
    with pytest.raises(BrokenAnswerError, match="closed"):
        await ask(pool)
    assert not pool._all
