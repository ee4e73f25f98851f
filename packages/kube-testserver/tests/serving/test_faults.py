"""Faults on purpose: what they hit, how often, and what becomes of the request."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kube_objects.errors import TransportError
from kube_testserver.serving.faults import Fault, Faults

PODS = "/api/v1/namespaces/default/pods"


async def create(cluster: Any, name: str) -> int:
    """Create a config map through a transport, and return the status."""
    body = b'{"metadata":{"name":"%b"}}' % name.encode()
    answer = await cluster.client().request("POST", "/api/v1/namespaces/default/configmaps", body=body)
    return int(answer.status)


@pytest.mark.parametrize(
    ("status", "reason", "retry"),
    [
        pytest.param(409, "Conflict", None, id="conflict"),
        pytest.param(410, "Expired", None, id="gone"),
        pytest.param(429, "TooManyRequests", "3", id="too many"),
        pytest.param(500, "InternalError", None, id="internal"),
        pytest.param(503, "ServiceUnavailable", None, id="unavailable"),
        pytest.param(418, "", None, id="any other"),
    ],
)
async def test_a_status_instead_of_an_answer(api: Any, cluster: Any, status: int, reason: str, retry: Any) -> None:
    """The next request is refused with that status, and nothing is done; the one after goes through."""
    cluster.faults.add(Fault(method="POST", path="configmaps", times=1, status=status, retry_after_seconds=3))
    body = {"metadata": {"name": "c"}}
    path = "/api/v1/namespaces/default/configmaps"
    answer = await api.send("POST", path, body)
    assert answer.status == status
    assert answer.headers.get("retry-after") == retry
    assert (await api("GET", f"{path}/c"))[0] == 404
    cluster.faults.add(Fault(method="POST", path="configmaps", times=1, status=status))
    assert (await api.refused("POST", path, body))[:2] == (status, reason)
    assert (await api("POST", path, body))[0] == 201


async def test_a_lost_request_was_never_done(cluster: Any) -> None:
    """The connection breaks before anything was written."""
    fault = cluster.faults.add(Fault(path="configmaps", times=1, lose="request"))
    with pytest.raises(TransportError, match="the connection was cut"):
        await create(cluster, "c")
    assert (fault.hits, await create(cluster, "c")) == (1, 201)


async def test_a_lost_answer_was_done(cluster: Any) -> None:
    """The write happened, its answer did not arrive: the retry finds it done."""
    cluster.faults.add(Fault(path="configmaps", times=1, lose="answer"))
    with pytest.raises(TransportError):
        await create(cluster, "c")
    assert await create(cluster, "c") == 409


async def test_a_delay_takes_its_time(cluster: Any, clock: Any) -> None:
    """A delayed request is answered when the clock says so."""
    cluster.faults.add(Fault(delay_seconds=5.0))
    waiting = asyncio.ensure_future(create(cluster, "c"))
    await clock.advance(4.9)
    assert not waiting.done()
    await clock.advance(0.2)
    assert await waiting == 201


def test_faults_choose_by_method_path_chance_and_count() -> None:
    """The first fault that fits decides; chance is the seeded source's."""
    faults = Faults(random.Random(1))
    assert faults.choose("GET", PODS) is None
    sometimes = faults.add(Fault(path=r"/binding$", probability=0.25))
    posts = faults.add(Fault(method="POST", times=2))
    assert faults.choose("GET", PODS) is None
    hits = [faults.choose("PUT", f"{PODS}/p/binding") for _ in range(400)]
    assert 60 < sometimes.hits < 140
    assert hits.count(sometimes) == sometimes.hits
    assert [faults.choose("POST", PODS) for _ in range(3)] == [posts, posts, None]
    faults.clear()
    assert faults.choose("POST", PODS) is None


async def test_watches_may_be_refused_too(cluster: Any) -> None:
    """A fault that hits the opening of a watch shows in the stream's status and body."""
    cluster.faults.add(Fault(status=500, times=1))
    async with cluster.client().stream(PODS, query={"watch": "1"}) as stream:
        assert stream.status == 500
        assert stream.headers["content-type"] == "application/json"
        assert b"injected fault" in b"".join([chunk async for chunk in stream])
