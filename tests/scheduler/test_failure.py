"""What becomes of a pod whose attempt failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler import Code, CycleState, FilterPlugin, NodeInfo, Pod, PreBindPlugin, Status
from pyscheduler.queue.sub_queues import QueuePlace
from pyscheduler.scheduler.failure import truncated
from tests.malformed import bad_pod_manifest
from tests.scheduler.plugins import Holder

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster


class Stuck(PreBindPlugin):
    """Waits in PreBind for ten seconds, then fails."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        assert self.handle is not None
        await self.handle.clock.sleep(10)
        return Status.from_error(RuntimeError("too late"))


@pytest.mark.parametrize(
    ("message", "note"),
    [
        pytest.param("short", "short", id="short"),
        pytest.param("x" * 1024, "x" * 1024, id="just fits"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="too long"),
        pytest.param("é" * 512, "é" * 512, id="just fits in bytes"),
        pytest.param("é" * 600, "é" * 510 + " ...", id="bytes count"),
        pytest.param("x" + "é" * 600, "x" + "é" * 509 + " ...", id="no half character"),
    ],
)
def test_a_note_takes_a_kilobyte(message: str, note: str) -> None:
    """The API server counts bytes."""
    assert truncated(message) == note
    assert len(truncated(message).encode()) <= 1024


async def test_a_pod_that_is_gone_is_not_requeued(cluster: FakeCluster) -> None:
    """It was deleted in PreBind: nothing is reserved, queued or written for it any more."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    framework = cluster.framework(enable=[Stuck])
    result = await framework.schedule("p", requests={"cpu": "1"})
    cluster.delete_pod("p")
    await framework.settle()
    assert framework.scheduler.cache.pod_count == 0
    await cluster.clock.advance(11)
    assert framework.scheduler.queue.place_of(result.pod.uid) is None
    assert framework.scheduler.idle
    assert [event["note"] for event in cluster.events("FailedScheduling")] == [
        'running PreBind plugin "Stuck": too late'
    ]


async def test_a_pod_that_was_bound_by_others_gets_no_condition(cluster: FakeCluster) -> None:
    """A bound pod never carries PodScheduled=False because of an attempt that came too late."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Stuck])
    result = await framework.schedule("p")
    body = b'{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}'
    await cluster.transport().request("POST", "/api/v1/namespaces/default/pods/p/binding", body=body)
    await cluster.clock.advance(11)
    after = framework.result("p")
    assert (after.state, after.message) == ("bound", "")
    assert framework.scheduler.queue.place_of(result.pod.uid) is None
    assert framework.scheduler.cache.pod_count == 1
    assert framework.scheduler.cache.assumed_count == 0


async def test_a_rejection_without_a_plugin_is_retried_after_backoff(cluster: FakeCluster) -> None:
    """There is no plugin whose events could bring the pod back, so it is tried again after a backoff."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Holder])
    result = await framework.schedule("p", labels={"hold": "yes"})
    assert framework.profile.handle.reject_waiting_pod(result.pod.uid)
    await framework.settle()
    assert framework.scheduler.queue.place_of(result.pod.uid) is QueuePlace.BACKOFF
    await cluster.clock.advance(3)
    assert framework.result("p").state == "waiting"


async def test_an_unreadable_version_does_not_stop_the_retry(cluster: FakeCluster) -> None:
    """Its failure puts it back into the queue, and the loop goes on."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Stuck])
    result = await framework.schedule("p", requests={"cpu": "1"})
    server = cluster.server
    manifest = bad_pod_manifest("p", {"cpu": "a lot"})
    manifest["metadata"]["uid"] = result.pod.uid
    collection = server.registry.collection(server.resource_of(manifest))
    record = collection.get("default/p")
    assert record is not None
    collection.replace(record, manifest)
    await cluster.clock.advance(10.1)
    queued = framework.scheduler.queue.get(result.pod.uid)
    assert queued is not None
    assert queued.pod_info.requests.milli_cpu == 1000
    cluster.delete_pod("p")
    assert (await framework.schedule("q")).state == "pending"


class Broken(PreBindPlugin):
    """Names the pod in its error."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.from_error(RuntimeError(f"no volume for {pod.key}"))


async def test_equal_errors_of_a_plugin_are_logged_ever_more_rarely(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the first error of a plugin, the tenth and so on; texts are equal except for the pod's name."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Broken])
    with caplog.at_level("DEBUG", logger="pyscheduler.scheduler.failure"):
        for name in ("p", "q"):
            await framework.schedule(name)
        await cluster.clock.advance(120)
    lines = [record for record in caplog.records if record.getMessage().startswith("Error scheduling pod")]
    assert len(lines) >= 20
    errors = [line.getMessage() for line in lines if line.levelname == "ERROR"]
    assert [text.partition(" pod=")[0] for text in errors] == [
        "Error scheduling pod; retrying",
        "Error scheduling pod again; retrying times=10",
    ]
    assert errors[0].partition(" pod=")[2].startswith("default/p plugin=Broken err=")


class Odd(FilterPlugin):
    """Rejects with half of a surrogate pair, as a text that was cut or read from a file may have one."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status(Code.UNSCHEDULABLE, "café \ud800")


async def test_reason_that_cannot_be_encoded_is_reported(cluster: FakeCluster) -> None:
    """Event and condition have a question mark in its place; the attempt is an ordinary failure."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Odd])
    result = await framework.schedule("p")
    assert result.message.startswith("0/1 nodes are available: 1 café ?.")
    assert {event["note"] for event in cluster.events("FailedScheduling")} == {result.message}
