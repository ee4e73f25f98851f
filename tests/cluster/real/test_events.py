"""What events look like, and that what can be no event is refused."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import msgspec
import pytest

from kube_testserver.virtual_time import settle
from pyscheduler.api import Node, Pod
from pyscheduler.cluster.real.events import EventNames
from pyscheduler.testing.builders import make_pod


async def written(stage: Any) -> list[dict[str, Any]]:
    """Return the events in the API, when all are written."""
    await settle()
    assert stage.client.idle
    return stage.cluster.objects("events.k8s.io/v1", "Event")


async def test_shape_is_kube_schedulers(stage: Any, wire_bodies: list[dict[str, Any]]) -> None:
    """Field by field what a real scheduler sends; nothing of what only old clients read."""
    stage.add_pod("ok")
    pod = await stage.client.get(Pod, "ok", "default")
    stage.client.event_recorder("default-scheduler").event(
        pod,
        type="Normal",
        reason="Scheduled",
        action="Binding",
        note="Successfully assigned default/ok to node-00002",
    )
    await written(stage)
    body = wire_bodies[0]
    name = body["metadata"].pop("name")
    assert re.fullmatch(r"ok\.[0-9a-f]{16}", name)
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host-1",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "ok",
            "uid": pod.uid,
            "resourceVersion": pod.resource_version,
        },
        "note": "Successfully assigned default/ok to node-00002",
        "type": "Normal",
    }


@pytest.fixture
def wire_bodies(stage: Any) -> list[dict[str, Any]]:
    """Collect the bodies of events as they are sent."""
    bodies: list[dict[str, Any]] = []
    transport = stage.client._transport
    send = transport.request

    async def note(method: str, path: str, **keywords: Any) -> Any:
        if "/events" in path:
            bodies.append(msgspec.json.decode(keywords["body"]))
        return await send(method, path, **keywords)

    transport.request = note
    return bodies


async def test_cluster_scoped_objects_have_their_events_in_default(stage: Any) -> None:
    """An object without a namespace is regarded without one; its events have to be somewhere."""
    stage.add_node("n1")
    node = await stage.client.get(Node, "n1")
    stage.client.event_recorder("me").event(node, type="Warning", reason="R", action="A", note="n")
    (event,) = await written(stage)
    assert event["metadata"]["namespace"] == "default"
    assert event["regarding"]["kind"] == "Node"
    assert "namespace" not in event["regarding"]


async def test_related_object(stage: Any) -> None:
    """A second object, such as the pod that preempted, is carried along."""
    stage.add_pods("victim", "preemptor")
    victim, preemptor = sorted(stage.states(), key=lambda pod: pod.name, reverse=True)
    stage.client.event_recorder("me").event(
        victim, type="Normal", reason="Preempted", action="Preempting", note="n", related=preemptor
    )
    (event,) = await written(stage)
    assert (event["regarding"]["name"], event["related"]["name"]) == ("victim", "preemptor")


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        pytest.param("x" * 1024, "x" * 1024, id="just-fits"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="too-long"),
        pytest.param("\u00fc" * 512, "\u00fc" * 512, id="bytes-just-fit"),
        pytest.param("\u00fc" * 513, "\u00fc" * 510 + " ...", id="bytes-too-long"),
        pytest.param("x" + "\u00fc" * 600, "x" + "\u00fc" * 509 + " ...", id="no-half-character"),
    ],
)
async def test_note_is_cut_at_what_the_server_takes(stage: Any, note: str, expected: str) -> None:
    """1,024 bytes, cut as kube-scheduler cuts, but not within a character."""
    stage.add_pod("a")
    stage.client.event_recorder("me").event(stage.states()[0], type="Normal", reason="R", action="A", note=note)
    (event,) = await written(stage)
    assert event["note"] == expected
    assert len(event["note"].encode()) <= 1024


async def test_instance_without_a_host_name(make_stage: Any) -> None:
    """Where the machine has no name, the controller's stands alone."""
    stage = make_stage(host_name="")
    stage.add_pod("a")
    stage.client.event_recorder("me").event(stage.states()[0], type="Normal", reason="R", action="A", note="n")
    (event,) = await written(stage)
    assert event["reportingInstance"] == "me"


async def test_invalid_event_raises(stage: Any) -> None:
    """An invalid event raises an exception in the caller."""
    recorder = stage.client.event_recorder("me")
    with pytest.raises(ValueError, match="Normal or Warning, not 'Error'"):
        recorder.event(make_pod("a"), type="Error", reason="R", action="A", note="n")
    with pytest.raises(TypeError, match="about an API object, not about 'default/a'"):
        recorder.event("default/a", type="Normal", reason="R", action="A", note="n")


def test_names_differ_even_at_one_moment() -> None:
    """Two events in one nanosecond would collide; the clock is not that fine."""
    names = EventNames(random.Random(0))
    made = [names.next("a", 1_767_225_600.0) for _ in range(100)]
    assert len(set(made)) == 100
    assert names.next("a", 1_767_225_600.0 - 5) not in made, "a clock that is set back repeats nothing"


@pytest.mark.parametrize(
    "subject", ["x" * 250, "Upper", "system:node", "a_b", ""], ids=lambda text: text[:10] or "empty"
)
def test_names_that_would_be_none_are_random(subject: str) -> None:
    """An object's name need not be one for events."""
    name = EventNames(random.Random(0)).next(subject, 1_767_225_600.0)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name)


async def test_many_names_in_the_life_of_a_loop(stage: Any) -> None:
    """Recorders of one client share the names, so profiles do not collide."""
    stage.add_pod("a")
    pod = stage.states()[0]
    for profile in ("one", "two", "three"):
        stage.client.event_recorder(profile).event(pod, type="Normal", reason="R", action="A", note="n")
    await asyncio.sleep(0)
    events = await written(stage)
    assert {event["reportingController"] for event in events} == {"one", "two", "three"}
