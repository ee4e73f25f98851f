"""A replica that does not lead writes nothing, wherever the write has been waiting."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.client import RealClient
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.framework.errors import TransportError


@pytest.fixture
def fenced(stage: Any) -> InProcessTransport:
    """Return a transport that is let through while `stage.leads`."""
    stage.leads = True
    transport = InProcessTransport(stage.cluster.router)
    transport.fence(lambda: stage.leads)
    return transport


def connected(stage: Any, transport: InProcessTransport) -> RealClient:
    """Return the client path on a transport, as the program has it."""
    return transport.connect(stage.settings, clock=stage.clock, rng=random.Random(2), recorder=stage.warnings)


def bound(stage: Any) -> list[str]:
    """Return the pods that have a node."""
    return [pod.name for pod in stage.states() if pod.node_name]


async def test_binds_while_leading_and_not_after(stage: Any, fenced: InProcessTransport) -> None:
    """The first binding is made; the second, asked for after the loss, fails and is never sent."""
    stage.client = connected(stage, fenced)
    stage.add_node("n")
    stage.add_pods("a", "b")
    pods = {pod.name: pod for pod in stage.states()}
    await stage.client.bind(pods["a"], "n")
    stage.leads = False
    binding = asyncio.create_task(stage.client.bind(pods["b"], "n"))
    await stage.clock.advance(60)
    with pytest.raises(TransportError, match="not sent, because this replica does not lead"):
        await binding
    assert bound(stage) == ["a"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 429, "retry_after_seconds": 5}, id="retry-after"),
        pytest.param({"status": 500}, id="retry"),
        pytest.param({"lose": "request"}, id="no-answer"),
    ],
)
async def test_binding_that_waits_for_a_retry(stage: Any, fenced: InProcessTransport, fault: Any) -> None:
    """Leadership is lost while a binding waits to be sent again: it is not."""
    stage.client = connected(stage, fenced)
    stage.add_node("n")
    stage.add_pods("a")
    (pod,) = stage.states()
    stage.fault(method="POST", path="binding", times=1, **fault)
    binding = asyncio.create_task(stage.client.bind(pod, "n"))
    await stage.clock.advance(0.05)
    stage.leads = False
    await stage.clock.advance(60)
    with pytest.raises(TransportError):
        await binding
    assert bound(stage) == []


async def test_binding_that_waits_for_the_rate_limit(make_stage: Any) -> None:
    """The same for one whose turn had not come."""
    stage = make_stage(qps=1.0, burst=1)
    stage.leads = True
    transport = InProcessTransport(stage.cluster.router)
    transport.fence(lambda: stage.leads)
    stage.client = connected(stage, transport)
    stage.add_node("n")
    stage.add_pods("a", "b")
    bindings = [asyncio.create_task(stage.client.bind(pod, "n")) for pod in stage.states()]
    await stage.clock.advance(0.5)
    stage.leads = False
    await stage.clock.advance(60)
    results = await asyncio.gather(*bindings, return_exceptions=True)
    assert results[0] is None
    assert isinstance(results[1], TransportError)
    assert bound(stage) == ["a"]


async def test_reads_watches_and_events_pass(stage: Any, fenced: InProcessTransport) -> None:
    """A standby keeps its caches warm, and a former leader says what it did."""
    stage.leads = False
    stage.client = connected(stage, fenced)
    stage.add_pods("a")
    informer, ledger = await stage.started()
    stage.add_pods("b")
    await stage.clock.advance(1)
    stage.assert_equal(informer, ledger)
    assert (await stage.client.get(Pod, "a", "default")).name == "a"
    stage.client.event_recorder("s").event(
        stage.states()[0], type="Normal", reason="Scheduled", action="Binding", note="assigned"
    )
    await stage.clock.advance(1)
    assert [event["reason"] for event in stage.cluster.objects("v1", "Event")] == ["Scheduled"]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        pytest.param("/api/v1/namespaces/default/pods/a/binding", False, id="binding"),
        pytest.param("/apis/events.k8s.io/v1/namespaces/default/events", True, id="event"),
    ],
)
async def test_binding_that_waits_for_a_connection(wire: Any, path: str, sent: bool) -> None:
    """Leadership is lost while the connection is made: nothing is sent on it, but for events."""
    asked: list[str] = []

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        asked.append(head.split(" ")[1])
        wire.reply(writer, b"{}", "201 Created")

    server = await wire(answer)
    leads = True
    transport = HTTPTransport(auth.plain(server.url))
    transport.fence(lambda: leads)
    try:
        request = asyncio.create_task(transport.request("POST", path, body=b"{}"))
        await asyncio.sleep(0)  # it has begun, and has no connection yet
        leads = False
        if sent:
            assert (await request).status == 201
        else:
            with pytest.raises(TransportError, match="not sent, because this replica does not lead"):
                await request
        assert asked == ([path] if sent else [])
    finally:
        await transport.close()
