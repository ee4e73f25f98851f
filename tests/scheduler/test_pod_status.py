"""What is written about a pod, what is not, and in which order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kube_testserver.virtual_time import settle
from pyscheduler import NominatingInfo
from pyscheduler.framework.errors import ConflictError, NotFoundError, TransportError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.pod_status import PodStatusWriter
from pyscheduler.testing import VirtualClock, make_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler import Pod

_FALSE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}


class Client:
    """Keeps what it is sent; answers when `gate` is open, with `errors` in turn."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.errors: list[Exception] = []
        self.most = self.under_way = 0

    async def patch_pod_status(self, pod: Pod, patch: Mapping[str, Any]) -> None:
        self.sent.append((pod.name, patch["status"]))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.gate.wait()
        self.under_way -= 1
        if self.errors:
            raise self.errors.pop(0)


def new_writer(client: Client) -> PodStatusWriter:
    """Return a writer that has two patches under way at most."""
    return PodStatusWriter(client=client, clock=VirtualClock(), recorder=NullRecorder(), concurrency=2)  # type: ignore[arg-type] - the one method it uses


async def test_a_first_condition_has_everything_that_kube_scheduler_writes() -> None:
    """Transition time, probe time and generation come with the condition; the nomination comes in the same patch."""
    client = Client()
    pod = make_pod("p")
    writer = new_writer(client)
    writer.write(pod, reason="Unschedulable", message="full", nominating=NominatingInfo("n1"))
    await settle()
    ((_, status),) = client.sent
    assert status["nominatedNodeName"] == "n1"
    (condition,) = status["conditions"]
    assert condition == {**_FALSE, "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert writer.idle


@pytest.mark.parametrize(
    ("status", "arguments", "expected"),
    [
        pytest.param({"conditions": [_FALSE]}, {"reason": "Unschedulable", "message": "full"}, None, id="unchanged"),
        pytest.param({"nominatedNodeName": "n1"}, {"nominating": NominatingInfo("n1")}, None, id="nominated already"),
        pytest.param({}, {"nominating": NominatingInfo("")}, None, id="nothing to clear"),
        pytest.param(
            {"nominatedNodeName": "n1"},
            {"nominating": NominatingInfo("")},
            {"nominatedNodeName": None},
            id="cleared with null",
        ),
        pytest.param(
            {"conditions": [_FALSE]},
            {"reason": "SchedulerError", "message": "broken"},
            {"conditions": [{**_FALSE, "reason": "SchedulerError", "message": "broken", "lastProbeTime": None}]},
            id="False stays False, so no transition",
        ),
    ],
)
async def test_only_changes_are_written(
    status: Mapping[str, object], arguments: Mapping[str, Any], expected: Mapping[str, object] | None
) -> None:
    """What the pod carries already is not sent."""
    client = Client()
    new_writer(client).write(make_pod("p", status=status), **arguments)
    await settle()
    assert [patch for _, patch in client.sent] == ([] if expected is None else [expected])


async def test_writes_are_merged_while_one_is_under_way() -> None:
    """The last word about each field wins; one patch per pod is under way, and no more than `concurrency` in all."""
    client = Client()
    client.gate.clear()
    writer = new_writer(client)
    pods = [make_pod(f"p{number}") for number in range(5)]
    for message in ("one", "two", "three"):
        for pod in pods:
            writer.write(pod, reason="Unschedulable", message=message)
    writer.write(pods[0], nominating=NominatingInfo("n1"))
    await settle()
    assert len(client.sent) == 2
    client.gate.set()
    await writer.flush()
    assert client.most == 2
    written = [(name, status["conditions"][0]["message"]) for name, status in client.sent]
    first_two = [("p0", "one"), ("p1", "one")]
    assert sorted(written) == sorted([*first_two, *((f"p{number}", "three") for number in range(5))])
    assert [status["nominatedNodeName"] for _, status in client.sent if "nominatedNodeName" in status] == ["n1"]


async def test_a_nomination_can_be_cleared_before_the_watch_shows_it() -> None:
    """What was sent counts, not only what the pod at hand shows: so nothing stays that should not."""
    client = Client()
    pod = make_pod("p")
    writer = new_writer(client)
    writer.write(pod, nominating=NominatingInfo("n1"))
    await settle()
    writer.write(pod, nominating=NominatingInfo(""))
    writer.write(pod, nominating=NominatingInfo("n1"))
    writer.write(pod, nominating=NominatingInfo(""))
    await settle()
    assert [status for _, status in client.sent] == [{"nominatedNodeName": "n1"}, {"nominatedNodeName": None}]
    newer = make_pod("p", resource_version="2", status={"nominatedNodeName": "n2"})
    writer.write(newer, nominating=NominatingInfo("n2"))
    await settle()
    assert len(client.sent) == 2


@pytest.mark.parametrize("error", [NotFoundError("gone", status=404), TransportError("reset"), KeyError("bug")])
async def test_a_write_that_fails_is_written_by_the_next_attempt(error: Exception) -> None:
    """A refusal costs that write only, and is not taken for success."""
    client = Client()
    client.errors.append(error)
    pod = make_pod("p")
    writer = new_writer(client)
    for _ in range(3):
        writer.write(pod, reason="Unschedulable", message="full")
        await settle()
    assert len(client.sent) == 2
    assert writer.idle


async def test_pod_that_was_replaced_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A controller creates an evicted pod again under its name; a write to the old pod is then a conflict of uids."""
    client = Client()
    client.errors.append(ConflictError("Precondition failed: UID in precondition", status=409))
    writer = new_writer(client)
    writer.write(make_pod("p"), reason="Unschedulable", message="full")
    await settle()
    assert writer.idle
    assert not caplog.records


async def test_a_binding_drops_what_is_pending_and_waits_for_what_is_under_way() -> None:
    """`drop` keeps the second write from being sent and returns the first."""
    client = Client()
    client.gate.clear()
    pod = make_pod("p")
    writer = new_writer(client)
    assert writer.drop(pod.uid) is None
    writer.write(pod, nominating=NominatingInfo("n1"))
    await settle()
    writer.write(pod, reason="Unschedulable", message="full")
    under_way = writer.drop(pod.uid)
    assert under_way is not None
    client.gate.set()
    await asyncio.wait([under_way])
    await settle()
    assert len(client.sent) == 1
    assert writer.idle


async def test_cancelling_leaves_nothing_behind() -> None:
    """At the end of a stop that waited long enough nothing is pending or under way."""
    client = Client()
    client.gate.clear()
    writer = new_writer(client)
    for number in range(4):
        writer.write(make_pod(f"p{number}"), reason="Unschedulable", message="full")
    await settle()
    writer.cancel()
    await settle()
    assert writer.idle


async def test_an_expected_node_is_written_after_half_a_second() -> None:
    """Who is bound before, fails or goes is never nominated; the others are, each in its time and one patch each."""
    client = Client()
    clock = VirtualClock()
    writer = PodStatusWriter(client=client, clock=clock, recorder=NullRecorder())  # type: ignore[arg-type] - the one method it uses
    pods = {name: make_pod(name) for name in ("bound", "failed", "gone", "early", "late", "anew")}
    for name in ("bound", "failed", "gone", "early", "anew"):
        writer.expect(pods[name], "n1")
    await clock.advance(0.3)
    assert writer.drop(pods["bound"].uid) is None
    writer.write(pods["failed"], reason="Unschedulable", message="full", nominating=NominatingInfo(""))
    writer.forget(pods["gone"].uid)
    writer.expect(pods["late"], "n2")
    writer.expect(pods["anew"], "n3")
    assert not writer.idle
    await clock.advance(0.19)
    assert [name for name, status in client.sent if "nominatedNodeName" in status] == []
    await clock.advance(0.02)
    assert client.sent[1:] == [("early", {"nominatedNodeName": "n1"})]
    await clock.advance(0.28)
    assert len(client.sent) == 2
    await clock.advance(0.02)
    assert client.sent[2:] == [("late", {"nominatedNodeName": "n2"}), ("anew", {"nominatedNodeName": "n3"})]
    assert writer.idle
    writer.expect(pods["bound"], "n1")
    await clock.advance(1)
    assert client.sent[4:] == [("bound", {"nominatedNodeName": "n1"})]


@pytest.mark.parametrize("end", ["flush", "cancel"])
async def test_flush_does_not_write_expected_nodes(end: str) -> None:
    """A stop lets waiting pods go, so they are about to go nowhere."""
    client = Client()
    clock = VirtualClock()
    writer = PodStatusWriter(client=client, clock=clock, recorder=NullRecorder())  # type: ignore[arg-type] - the one method it uses
    writer.expect(make_pod("p"), "n1")
    if end == "flush":
        await writer.flush()
    else:
        writer.cancel()
    assert writer.idle
    await clock.advance(5)
    assert client.sent == []
