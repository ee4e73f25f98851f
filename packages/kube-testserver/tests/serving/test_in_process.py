"""The in-process transport: the contract of a transport, without a network."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kube_objects.errors import TransportError

PODS = "/api/v1/namespaces/default/pods"


async def test_requests_and_answers_are_bytes(cluster: Any, pod: Any) -> None:
    """Any status is an answer; header names are in lower case."""
    transport = cluster.client()
    created = await transport.request("POST", PODS, body=msgspec.json.encode(pod("p")))
    assert (created.status, created.headers["content-type"]) == (201, "application/json")
    found = await transport.request("GET", f"{PODS}/p", timeout_seconds=1.0)
    assert msgspec.json.decode(found.body) == msgspec.json.decode(created.body)
    patch = b'{"metadata":{"labels":{"a":"b"}}}'
    patched = await transport.request("PATCH", f"{PODS}/p", body=patch, content_type="application/merge-patch+json")
    assert msgspec.json.decode(patched.body)["metadata"]["labels"] == {"a": "b"}
    assert (await transport.request("GET", f"{PODS}/q")).status == 404
    listed = await transport.request("GET", PODS, query={"labelSelector": "a=b"})
    assert len(msgspec.json.decode(listed.body)["items"]) == 1


async def test_a_stream_ends_with_its_context(cluster: Any, pod: Any) -> None:
    """A watch yields whole lines, and leaves nothing behind when it is left early."""
    transport = cluster.client()
    async with transport.stream(PODS, query={"watch": "1", "allowWatchBookmarks": "true"}) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "application/json")
        cluster.add(pod("p"), pod("q"))
        async for chunk in stream:
            assert [msgspec.json.decode(line)["type"] for line in chunk.splitlines()] == ["ADDED", "ADDED"]
            break
    assert cluster.router.drop_watches() == 0


async def test_a_cut_stream_is_a_transport_error(cluster: Any) -> None:
    """A watch that is cut off raises, one that ends does not."""
    transport = cluster.client()
    async with transport.stream(PODS, query={"watch": "1"}, timeout_seconds=1.0) as stream:
        cluster.router.drop_watches(how="cut")
        with pytest.raises(TransportError, match="cut off"):
            [chunk async for chunk in stream]
    async with transport.stream(PODS, query={"watch": "1"}) as stream:
        cluster.router.drop_watches()
        assert [chunk async for chunk in stream] == []


async def test_a_watch_cannot_be_a_plain_request(cluster: Any) -> None:
    """Asking for a watch with `request` is a mistake that says so."""
    with pytest.raises(TransportError, match="use stream"):
        await cluster.client().request("GET", PODS, query={"watch": "1"})
    assert cluster.router.drop_watches() == 0


async def test_a_closed_transport_answers_no_more(cluster: Any) -> None:
    """Closing is final for this transport, and only for this one."""
    transport, other = cluster.client(), cluster.client()
    await transport.close()
    await transport.close()
    with pytest.raises(TransportError, match="closed"):
        await transport.request("GET", PODS)
    assert (await other.request("GET", PODS)).status == 200


async def test_every_request_lets_the_loop_turn(cluster: Any) -> None:
    """A task that sends one request after the other does not keep others from running."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.ensure_future(count())
    transport = cluster.client()
    for _ in range(50):
        await transport.request("GET", PODS)
    counter.cancel()
    assert turns >= 50
