"""The HTTP transport against the embedded server over loopback, and against servers that only just speak HTTP."""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.api import Pod
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.auth import Credentials
from pyscheduler.cluster.real.http import HTTPTransport, _is_here
from pyscheduler.framework.errors import ConflictError, TransportError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.ports import ClientSettings
from pyscheduler.testing.builders import node_manifest, pod_manifest


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[str], HTTPTransport]]:
    """Make transports that are closed at the end."""
    made: list[HTTPTransport] = []

    def make(url: str, credentials: Credentials | None = None) -> HTTPTransport:
        made.append(HTTPTransport(credentials or auth.plain(url)))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """Serve an embedded cluster; its `url` tells where."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1))
    server = cluster.server()
    await server.start()
    cluster.url = server.url  # type: ignore[attr-defined]  # carried along for the tests
    yield cluster
    await server.stop()


async def ok(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """Answer everything well."""
    wire.reply(writer, b"{}")


async def test_request_and_answer(cluster: Any, connect: Any) -> None:
    """Method, path, query, body and type arrive; status, body and headers come back, header names in lower case."""
    transport = connect(cluster.url + "/")
    assert transport.server == cluster.url
    body = msgspec.json.encode(pod_manifest("p"))
    made = await transport.request("POST", "/api/v1/namespaces/default/pods", body=body)
    assert made.status == 201
    assert made.headers["content-type"] == "application/json"
    listed = await transport.request("GET", "/api/v1/pods", query={"labelSelector": "a in (b, c)", "limit": "1"})
    assert msgspec.json.decode(listed.body)["items"] == []
    patched = await transport.request(
        "PATCH",
        "/api/v1/namespaces/default/pods/p",
        body=b'{"metadata":{"labels":{"x":"y"}}}',
        content_type="application/merge-patch+json",
    )
    assert msgspec.json.decode(patched.body)["metadata"]["labels"] == {"x": "y"}
    missing = await transport.request("GET", "/api/v1/namespaces/default/pods/other")
    assert missing.status == 404


async def test_watch_brings_events_as_they_happen(cluster: Any, connect: Any) -> None:
    """Chunks arrive while the stream is open, and the stream ends when the server ends it."""
    transport = connect(cluster.url)
    async with transport.stream("/api/v1/pods", query={"watch": "1"}, timeout_seconds=5.0) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "application/json"
        cluster.add(pod_manifest("a"))
        async for chunk in stream:
            assert b'"name":"a"' in chunk
            break
        cluster.router.drop_watches()
        assert [chunk async for chunk in stream] == []


async def test_watch_that_is_cut_off(cluster: Any, connect: Any) -> None:
    """A connection that breaks in mid-stream is an error, not an end."""
    transport = connect(cluster.url)
    async with transport.stream("/api/v1/pods", query={"watch": "1"}) as stream:
        cluster.router.drop_watches(how="cut")
        with pytest.raises(TransportError, match="cut off"):
            await anext(aiter(stream))


async def test_refused_watch_brings_its_body(cluster: Any, connect: Any) -> None:
    """A status other than 200 comes with the server's explanation."""
    transport = connect(cluster.url)
    async with transport.stream("/api/v1/gizmos", query={"watch": "1"}) as stream:
        assert stream.status == 404
        assert b"".join([chunk async for chunk in stream])


async def test_whole_client_over_http(cluster: Any, connect: Any) -> None:
    """Informer, binding, events: the client path is the same over HTTP as in process."""
    cluster.add(node_manifest("n1"), pod_manifest("p"))
    client = connect(cluster.url).connect(
        ClientSettings(qps=0), clock=LoopClock(), rng=random.Random(0), recorder=NullRecorder()
    )
    pod = await client.get(Pod, "p", "default")
    await client.bind(pod, "n1")
    with pytest.raises(ConflictError):
        await client.bind(pod, "n2")
    client.event_recorder("me").event(pod, type="Normal", reason="Scheduled", action="Binding", note="done")
    await client.close()
    assert cluster.get("v1", "Pod", "p", namespace="default")["spec"]["nodeName"] == "n1"
    assert [event["reason"] for event in cluster.objects("events.k8s.io/v1", "Event")] == ["Scheduled"]


async def test_connections_are_kept_and_limited(wire: Any, connect: Any) -> None:
    """One after the other, requests share a connection; many at once, a bounded number of them."""
    server = await wire(ok)
    transport = connect(server.url)
    for _ in range(10):
        await transport.request("GET", "/x")
    assert server.connections == 1
    await asyncio.gather(*(transport.request("GET", "/x") for _ in range(300)))
    assert server.connections <= 80
    assert len(server.heads) == 310


async def test_no_compression_on_loopback_but_understood(wire: Any, connect: Any) -> None:
    """There is no wire to spare on loopback; an answer that is compressed all the same is read."""

    async def zipped(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, gzip.compress(b'{"a":1}'), Content_Encoding="gzip")

    server = await wire(zipped)
    answer = await connect(server.url).request("GET", "/x")
    assert answer.body == b'{"a":1}'
    assert "accept-encoding: identity" in server.heads[0].lower()


@pytest.mark.parametrize(
    ("host", "here"),
    [
        pytest.param("127.0.0.1", True, id="v4"),
        pytest.param("::1", True, id="v6"),
        pytest.param("localhost", True, id="name"),
        pytest.param("192.0.2.1", False, id="elsewhere"),
        pytest.param("2001:db8::1", False, id="elsewhere-v6"),
        pytest.param("api.example.com", False, id="remote"),
    ],
)
def test_only_remote_servers_compress(host: str, here: bool) -> None:
    """Remote servers are asked to compress their answers."""
    assert _is_here(host) is here


def test_addresses_of_this_machine_are_here() -> None:
    """An API server is often known by its machine's address, and not by loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return  # a machine without a network has no such address
        assert _is_here(asked.getsockname()[0])


async def test_compression_is_not_asked_for_where_the_kubeconfig_says_so(wire: Any, monkeypatch: Any) -> None:
    """Who has bandwidth to spare saves the CPU."""
    monkeypatch.setattr("pyscheduler.cluster.real.http._is_here", lambda _: False)
    server = await wire(ok)
    for compressed in (True, False):
        transport = HTTPTransport(Credentials(server=server.url, compressed=compressed))
        await transport.request("GET", "/x")
        await transport.close()
    asked = [head.lower().partition("accept-encoding: ")[2].partition("\r\n")[0] for head in server.heads]
    assert asked == ["gzip", "identity"]


async def test_cookies_are_not_kept(wire: Any, connect: Any) -> None:
    """A load balancer's cookie would pin the scheduler to one server."""

    async def bake(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, b"{}", Set_Cookie="session=1; Path=/")

    server = await wire(bake)
    transport = connect(server.url.replace("127.0.0.1", "localhost"))  # numbers have no cookies anyway
    await transport.request("GET", "/x")
    await transport.request("GET", "/x")
    assert not any("cookie" in head.lower() for head in server.heads)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param("/api/v1/namespaces/x/pods/a.b-c:d~e_f", "/api/v1/namespaces/x/pods/a.b-c:d~e_f", id="plain"),
        pytest.param("/api/v1/pods/odd name", "/api/v1/pods/odd%20name", id="space"),
        pytest.param("/api/v1/pods/\u00fc", "/api/v1/pods/%C3%BC", id="umlaut"),
    ],
)
async def test_paths_are_quoted_where_they_must_be(wire: Any, connect: Any, path: str, line: str) -> None:
    """A server behind a path prefix keeps it; strange names do not break the request line."""
    server = await wire(ok)
    await connect(server.url + "/k8s/clusters/c-1").request("GET", path)
    assert server.heads[0].startswith(f"GET /k8s/clusters/c-1{line} HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        pytest.param("https://10.0.0.1:6443", "10.0.0.1:6443", id="address"),
        pytest.param("https://api.example.org", "api.example.org", id="name"),
        pytest.param("https://api.example.org:443/k8s", "api.example.org:443", id="prefix"),
        pytest.param("https://[fd00::1]:6443", "[fd00::1]:6443", id="ipv6"),
        pytest.param("http://kim:secret@localhost:8001", "localhost:8001", id="password"),
    ],
)
async def test_host_as_metrics_show_it(connect: Any, url: str, host: str) -> None:
    """As client-go's do: what the URL says, without what nobody else should read."""
    assert connect(url).host == host


async def test_user_in_the_address(wire: Any, connect: Any) -> None:
    """Who stands in the URL is who asks, unless there are credentials; as for Go's clients."""
    server = await wire(ok)
    url = server.url.replace("://", "://kim:s%40crt@")
    for credentials in (None, Credentials(server=url, authorization="Bearer abc")):
        transport = connect(url, credentials)
        await transport.request("GET", "/x")
        await transport.request("POST", "/x", body=b"{}")
        async with transport.stream("/x") as stream:
            assert stream.status == 200
    shown = [head.partition("Authorization: ")[2].partition("\r\n")[0] for head in server.heads]
    assert shown == ["Basic a2ltOnNAY3J0"] * 3 + ["Bearer abc"] * 3


async def test_redirects_are_not_followed(wire: Any, connect: Any) -> None:
    """Credentials are for one server; where it points is the user's to decide."""

    async def redirect(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, b"", "302 Found", Location="http://127.0.0.1:1/elsewhere")

    server = await wire(redirect)
    answer = await connect(server.url).request("GET", "/x")
    assert (answer.status, answer.headers["location"]) == (302, "http://127.0.0.1:1/elsewhere")
    assert len(server.heads) == 1


async def test_a_line_of_megabytes_passes(wire: Any, connect: Any) -> None:
    """One event may be longer than any buffer."""
    line = b'{"type":"ADDED","object":{"note":"' + b"x" * 3_000_000 + b'"}}\n'

    async def shout(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, line)

    server = await wire(shout)
    async with connect(server.url).stream("/x") as stream:
        assert b"".join([chunk async for chunk in stream]) == line


async def test_closed_is_closed(cluster: Any, connect: Any) -> None:
    """After the end nothing is sent, and closing twice is fine."""
    transport = connect(cluster.url)
    await transport.request("GET", "/api/v1/pods")
    await transport.close()
    await transport.close()
    with pytest.raises(TransportError, match="closed"):
        await transport.request("GET", "/api/v1/pods")
    with pytest.raises(TransportError, match="closed"):
        async with transport.stream("/api/v1/pods"):
            pass


@pytest.mark.parametrize("what", ["request", "stream"])
async def test_closing_the_transport_ends_open_requests(wire: Any, connect: Any, what: str) -> None:
    """Whoever waits for the rest of an answer is told that it will not come."""

    async def begin(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}\n")
        begun.set()

    begun = asyncio.Event()
    server = await wire(begin)
    transport = connect(server.url)

    async def ask() -> None:
        if what == "request":
            await transport.request("GET", "/x")
        else:
            async with transport.stream("/x") as stream:
                async for _ in stream:
                    got.set()

    got = asyncio.Event()
    asking = asyncio.create_task(ask())
    await (begun if what == "request" else got).wait()
    await transport.close()
    with pytest.raises(TransportError):
        await asking
