"""The router over real HTTP, on the loopback interface."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from kube_objects.clock import LoopClock
from kube_objects.errors import ConfigError
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from kube_testserver.serving.http_server import ApiServer

JSON = {"Content-Type": "application/json"}
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def served() -> AsyncIterator[tuple[EmbeddedCluster, ApiServer]]:
    """Yield a cluster on the loop's own clock, behind a server on a free port."""
    cluster = EmbeddedCluster(clock=LoopClock())
    server = cluster.server()
    await server.start()
    yield cluster, server
    await server.stop()
    cluster.check_invariants()


@pytest.fixture
async def http(served: tuple[EmbeddedCluster, ApiServer]) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a client session of the served cluster."""
    async with aiohttp.ClientSession(base_url=served[1].url) as session:
        yield session


async def read_events(response: aiohttp.ClientResponse, count: int) -> list[Any]:
    """Read that many lines of a watch."""
    buffer = b""
    async for chunk in response.content.iter_any():
        buffer += chunk
        if buffer.count(b"\n") >= count:
            break
    return [json.loads(line) for line in buffer.splitlines()]


async def receive(response: aiohttp.ClientResponse, into: list[bytes]) -> None:
    """Read chunks until the end, keeping what came before an error."""
    while chunk := await response.content.readany():
        into.append(chunk)


async def test_objects_over_http(http: aiohttp.ClientSession, pod: Any) -> None:
    """Create, bind, get, list, patch and delete, with query and content types."""
    async with http.post(PODS, json=pod("p", labels={"app": "a b".replace(" ", "-")})) as created:
        assert (created.status, created.content_type) == (201, "application/json")
    body = {"metadata": {"name": "p"}, "target": {"name": "n"}}
    async with http.post(f"{PODS}/p/binding", json=body) as bound:
        assert (bound.status, (await bound.json())["status"]) == (201, "Success")
    async with http.post(f"{PODS}/p/binding", json=body) as again:
        assert (again.status, (await again.json())["reason"]) == (409, "Conflict")
    async with http.get(PODS, params={"labelSelector": "app in (a-b)", "fieldSelector": "spec.nodeName=n"}) as listed:
        assert len((await listed.json())["items"]) == 1
    patch = json.dumps({"metadata": {"labels": {"app": None}}})
    kind = {"Content-Type": "application/merge-patch+json"}
    async with http.patch(f"{PODS}/p", data=patch, headers=kind) as patched:
        assert "labels" not in (await patched.json())["metadata"]
    async with http.delete(f"{PODS}/p", json={"gracePeriodSeconds": 0}) as deleted:
        assert deleted.status == 200
    async with http.get(f"{PODS}/p") as missing:
        assert missing.status == 404
    async with http.get("/api/v1/namespaces/default/pods/a%20b") as escaped:
        assert (await escaped.json())["message"] == 'pods "a b" not found'


@pytest.mark.slow
async def test_watches_over_http(http: aiohttp.ClientSession, served: Any, pod: Any) -> None:
    """A watch streams lines as things happen, and ends cleanly when its time is up."""
    cluster, _ = served
    async with http.get(PODS, params={"watch": "1", "timeoutSeconds": "1"}) as watch:
        assert (watch.status, watch.content_type) == (200, "application/json")
        cluster.add(pod("p"), pod("q"))
        events = await read_events(watch, 2)
        assert [event["object"]["metadata"]["name"] for event in events] == ["p", "q"]
        assert await watch.content.read() == b""


async def test_a_client_that_leaves_is_forgotten(http: aiohttp.ClientSession, served: Any, pod: Any) -> None:
    """When a client goes away from a quiet watch, its stream is closed."""
    cluster, _ = served
    async with http.get(PODS, params={"watch": "1"}):
        assert len(cluster.router._streams) == 1
    async with asyncio.timeout(300):
        while cluster.router._streams:  # noqa: ASYNC110 - nobody tells when a client has gone
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["cut", "within"])
async def test_a_cut_watch_breaks_the_connection(http: aiohttp.ClientSession, served: Any, pod: Any, how: str) -> None:
    """A cut connection is no clean end for the client, who may hold half a line."""
    cluster, _ = served
    async with http.get(PODS, params={"watch": "1"}) as watch:
        cluster.router.drop_watches(how=how)
        cluster.add(pod("p"))
        received: list[bytes] = []
        with pytest.raises(aiohttp.ClientError):
            await receive(watch, received)
    assert not b"".join(received).endswith(b"\n")


@pytest.mark.parametrize(("lose", "done"), [("request", False), ("answer", True)])
async def test_lost_requests_and_answers(http: aiohttp.ClientSession, served: Any, lose: Any, done: bool) -> None:
    """A fault may break the connection before or after the write."""
    cluster, _ = served
    cluster.faults.add(Fault(method="POST", times=1, lose=lose))
    with pytest.raises(aiohttp.ClientError):
        await http.post("/api/v1/nodes", json={"metadata": {"name": "n"}})
    assert bool(cluster.nodes()) is done


async def test_bodies_have_a_limit(http: aiohttp.ClientSession) -> None:
    """A body of a megabyte is taken, one over three is not."""
    path = "/api/v1/namespaces/default/configmaps"

    def body(size: int) -> io.BytesIO:
        return io.BytesIO(json.dumps({"metadata": {"name": "c"}, "data": {"a": "x" * size}}).encode())

    async with http.post(path, data=body(1_500_000), headers=JSON) as created:
        assert created.status == 201
    async with http.post(path, data=body(3_200_000), headers=JSON) as refused:
        assert refused.status == 413
        answer = await refused.json()
    assert (answer["reason"], answer["message"]) == (
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
    )


async def test_stopping_ends_watches_and_frees_the_port(served: Any) -> None:
    """Stop ends open watches cleanly, twice is fine, and the port can be taken again."""
    cluster, server = served
    async with aiohttp.ClientSession(base_url=server.url) as session:
        async with session.get(PODS, params={"watch": "1"}) as watch:
            stopping = asyncio.ensure_future(server.stop())
            assert await watch.content.read() == b""
            await stopping
        await server.stop()
    host, port = server.address
    again = cluster.server(host=host, port=port)
    await again.start()
    assert again.address == (host, port)
    await again.stop()


async def test_a_port_in_use_is_one_line(served: Any) -> None:
    """Listening where somebody else listens says so, and what to do."""
    cluster, server = served
    host, port = server.address
    with pytest.raises(ConfigError, match=f"cannot listen on {host}:{port}: .* choose another address"):
        await cluster.server(host=host, port=port).start()


async def test_addresses_of_both_families(served: Any) -> None:
    """An IPv6 address is written in brackets."""
    cluster, _ = served
    server = cluster.server(host="::1", port=1)
    assert server.url == "http://[::1]:1"


@pytest.mark.slow
async def test_many_at_once(http: aiohttp.ClientSession, served: Any, pod: Any) -> None:
    """A few hundred concurrent creates and binds all happen once, and a watch sees all of it in order."""
    cluster, _ = served
    count = 200

    async def create_and_bind(index: int) -> None:
        async with http.post(PODS, json=pod(f"p{index}")) as created:
            assert created.status == 201
        body = {"metadata": {"name": f"p{index}"}, "target": {"name": "n"}}
        async with http.post(f"{PODS}/p{index}/binding", json=body) as bound:
            assert bound.status == 201

    async with http.get(PODS, params={"watch": "1"}) as watch:
        reading = asyncio.ensure_future(read_events(watch, 2 * count))
        await asyncio.gather(*(create_and_bind(index) for index in range(count)))
        events = await reading
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)
    assert [event["type"] for event in events].count("MODIFIED") == count
    assert all(pod["spec"]["nodeName"] == "n" for pod in cluster.pods())
