"""Series, retries, bounds: how events get to the API server."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import msgspec
import pytest

from kube_testserver.virtual_time import settle
from pyscheduler.api import Pod
from pyscheduler.cluster.real import event_writer


class Desk:
    """A pod to write about, and what was written."""

    def __init__(self, stage: Any) -> None:
        self.stage = stage
        stage.add_pod("a")
        self.pod: Pod = stage.states()[0]
        self.recorder = stage.client.event_recorder("me")
        self.writer = stage.client._events

    def say(self, note: str = "no room", *, pod: Pod | None = None, reason: str = "FailedScheduling") -> None:
        self.recorder.event(pod or self.pod, type="Warning", reason=reason, action="Scheduling", note=note)

    async def events(self) -> list[dict[str, Any]]:
        await settle()
        return self.stage.cluster.objects("events.k8s.io/v1", "Event")

    async def series(self) -> list[int]:
        """Return the count of each event's series, 1 where it has none."""
        return [(event.get("series") or {}).get("count", 1) for event in await self.events()]

    def fault(self, **keywords: Any) -> Any:
        return self.stage.fault(path="/events", **keywords)

    @property
    def warnings(self) -> Any:
        return self.stage.warnings


@pytest.fixture
async def desk(stage: Any) -> Desk:
    """Set a pod and a recorder up."""
    return Desk(stage)


class TestSeries:
    """Events that are alike but for note and time."""

    async def test_first_is_created_second_makes_a_series_others_are_counted(self, desk: Desk) -> None:
        """One object, patched once; later counts are written when the series has been quiet."""
        sent = desk.fault()
        desk.say("first")
        assert await desk.series() == [1]
        await desk.stage.clock.advance(10)
        desk.say("second")
        assert await desk.series() == [2]
        for _ in range(5):
            await desk.stage.clock.advance(10)
            desk.say("later")
        assert await desk.series() == [2]
        assert sent.hits == 2
        await desk.stage.clock.advance(800)
        assert await desk.series() == [7]
        assert sent.hits == 3
        (event,) = await desk.events()
        assert event["note"] == "first"
        assert event["series"]["lastObservedTime"] == "2026-01-01T00:01:00.000000Z"

    async def test_after_a_quiet_time_it_is_a_new_event(self, desk: Desk) -> None:
        """Six minutes without a repetition end a series, also one of a single event."""
        desk.say()
        await desk.stage.clock.advance(361)
        desk.say()
        desk.say()
        await settle()
        await desk.stage.clock.advance(361)
        desk.say()
        assert sorted(await desk.series()) == [1, 1, 2]

    async def test_repetitions_keep_a_series_alive(self, desk: Desk) -> None:
        """Quiet is counted from the latest occurrence; a long series is written every half hour."""
        desk.say()
        counts = []
        for _ in range(16):
            await desk.stage.clock.advance(300)
            desk.say()
            counts.append((await desk.series())[0])
        assert len(await desk.events()) == 1
        assert counts[0] == 2
        assert sorted(set(counts)) == [2, 7, 13], "written as a series of two, and twice in 80 minutes"

    async def test_another_version_of_the_object_is_another_event(self, desk: Desk) -> None:
        """The key is the whole reference, version included; also type, action, reason and who reports."""
        desk.say()
        desk.stage.change_pod("a", colour="red")
        desk.say(pod=desk.stage.states()[0])
        desk.say(reason="Preempted")
        desk.stage.client.event_recorder("other").event(
            desk.pod, type="Warning", reason="FailedScheduling", action="Scheduling", note="no room"
        )
        desk.recorder.event(desk.pod, type="Normal", reason="FailedScheduling", action="Scheduling", note="no room")
        desk.recorder.event(desk.pod, type="Warning", reason="FailedScheduling", action="Binding", note="no room")
        assert await desk.series() == [1] * 6

    async def test_repeated_before_it_is_written(self, desk: Desk) -> None:
        """What happens while the first is still queued goes along with it: one request."""
        sent = desk.fault()
        for _ in range(3):
            desk.say()
        assert await desk.series() == [3]
        assert sent.hits == 1

    async def test_repeated_while_it_is_being_written(self, desk: Desk) -> None:
        """The series is patched after its event was created, never before."""
        desk.fault(delay_seconds=1.0, times=1)
        desk.say()
        await settle()
        desk.say()
        await desk.stage.clock.advance(2)
        assert await desk.series() == [2]
        assert desk.warnings["event_refused"] == 0

    async def test_event_that_expired_is_created_again(self, desk: Desk) -> None:
        """API servers forget events after an hour; the series goes on under a new object."""
        desk.say()
        (event,) = await desk.events()
        desk.stage.cluster.remove("events.k8s.io/v1", "Event", event["metadata"]["name"], namespace="default")
        desk.say()
        assert await desk.series() == [2]

    async def test_count_of_an_event_that_expired_is_not_written(self, desk: Desk) -> None:
        """A series that ends after its event expired is forgotten; no new event reports the old occurrences."""
        for _ in range(3):
            desk.say()
            await settle()
        (event,) = await desk.events()
        desk.stage.cluster.remove("events.k8s.io/v1", "Event", event["metadata"]["name"], namespace="default")
        await desk.stage.clock.advance(500)
        assert await desk.series() == []
        assert desk.warnings["event_lost"] == desk.warnings["event_refused"] == 0

    async def test_a_series_whose_event_was_deleted_continues_as_a_new_event(self, desk: Desk) -> None:
        """The half-hourly write finds that the event is gone; the next occurrence creates it with the whole count."""
        for _ in range(3):
            desk.say()
            await settle()
        (event,) = await desk.events()
        desk.stage.cluster.remove("events.k8s.io/v1", "Event", event["metadata"]["name"], namespace="default")
        for _ in range(7):
            await desk.stage.clock.advance(300)
            desk.say()
        assert await desk.series() == [9], "the tenth is counted until the next write"

    @pytest.mark.slow
    async def test_series_keeps_little_memory(self, desk: Desk) -> None:
        """A written event is not kept: a thousand series that may repeat take less than 600 bytes each."""
        pods = [
            msgspec.structs.replace(
                desk.pod, metadata=msgspec.structs.replace(desk.pod.metadata, name=f"p-{number}", uid=f"uid-{number}")
            )
            for number in range(1000)
        ]
        desk.say(note="warm up")
        await desk.stage.clock.advance(1)
        tracemalloc.start()
        try:
            for pod in pods:
                desk.say("0/100 nodes are available: 100 Insufficient cpu. " * 8, pod=pod)
            await desk.stage.clock.advance(10)
            assert desk.writer.idle
            gc.collect()
            snapshot = tracemalloc.take_snapshot()
        finally:
            tracemalloc.stop()
        traces = snapshot.filter_traces([tracemalloc.Filter(inclusive=True, filename_pattern="*/cluster/real/event*")])
        kept = sum(each.size for each in traces.statistics("filename"))
        assert kept > 0
        assert kept < 600 * len(pods), f"{kept / len(pods):.0f} bytes per series"

    async def test_counts_are_written_at_the_end(self, desk: Desk) -> None:
        """A program that ends says how often things had happened."""
        for _ in range(2):
            desk.say()
            await settle()
        for _ in range(3):
            desk.say()
        await desk.stage.client.close()
        assert await desk.series() == [5]

    async def test_memory_is_bounded(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """The oldest of very many are forgotten: repeated, they are new events."""
        monkeypatch.setitem(event_writer._REMEMBERED, "Warning", 3)
        for reason in ("A", "B", "C", "D", "A", "D"):
            desk.say(reason=reason)
            await settle()
        assert sorted(event["reason"] for event in await desk.events()) == ["A", "A", "B", "C", "D"]

    @pytest.mark.slow
    async def test_many_that_are_scheduled_do_not_displace_one_that_waits(self, desk: Desk) -> None:
        """A pod that found no node stays one series, however many others found one meanwhile."""
        desk.say()
        for number in range(5000):
            pod = msgspec.structs.replace(
                desk.pod, metadata=msgspec.structs.replace(desk.pod.metadata, uid=str(number))
            )
            desk.recorder.event(pod, type="Normal", reason="Scheduled", action="Binding", note="")
        desk.say()
        await desk.stage.clock.advance(1)
        assert [count for count in await desk.series() if count > 1] == [2]


class TestTrouble:
    """Servers that do not take an event."""

    @pytest.mark.parametrize("fault", [{"status": 429}, {"status": 500}, {"lose": "request"}], ids=str)
    async def test_tried_again_until_it_is_written(self, desk: Desk, fault: dict[str, Any]) -> None:
        """A busy or absent server is waited for."""
        hit = desk.fault(times=3, **fault)
        desk.say()
        await desk.stage.clock.advance(30)
        assert await desk.series() == [1]
        assert hit.hits == 3

    async def test_lost_answer_does_not_double_it(self, desk: Desk) -> None:
        """Created though the answer was lost: the second try finds it there, which is fine."""
        desk.fault(lose="answer", times=1)
        desk.say()
        await desk.stage.clock.advance(5)
        assert await desk.series() == [1]
        desk.say()
        assert await desk.series() == [2]
        assert desk.warnings["event_refused"] == 0

    async def test_lost_answer_of_a_repeated_event(self, desk: Desk) -> None:
        """Repeated while the answer was lost: found there, it is patched."""
        desk.fault(lose="answer", times=1)
        desk.say()
        await settle()
        desk.say()
        await desk.stage.clock.advance(5)
        assert await desk.series() == [2]

    async def test_retry_after_is_honoured_within_reason(self, desk: Desk) -> None:
        """As long as the server asks, but no more than ten seconds: others wait behind it."""
        hit = desk.fault(status=429, retry_after_seconds=5, times=1)
        desk.say()
        await desk.stage.clock.advance(4.9)
        assert await desk.events() == []
        await desk.stage.clock.advance(0.2)
        assert len(await desk.events()) == hit.hits == 1

    async def test_given_up_after_many_tries(self, desk: Desk) -> None:
        """An event nobody takes for two minutes is lost, and counted; the next has a chance of its own."""
        desk.fault(lose="request", times=12)
        desk.say()
        await desk.stage.clock.advance(150)
        assert desk.warnings["event_lost"] == 1
        assert desk.stage.client.idle
        desk.say()
        assert await desk.series() == [2], "a repetition tells of both"

    async def test_refused_is_refused(self, desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
        """403 is not tried again; it is counted and said."""
        hit = desk.fault(status=403)
        desk.say()
        await desk.stage.clock.advance(60)
        assert hit.hits == desk.warnings["event_refused"] == 1
        assert "Server rejected event (will not retry!)" in caplog.text

    async def test_namespace_that_is_gone(self, desk: Desk) -> None:
        """Nobody misses events about what is gone with its namespace."""
        desk.fault(status=404)
        desk.say()
        await settle()
        assert desk.stage.client.idle
        assert sum(desk.warnings.counts.values()) == 0

    async def test_fault_of_our_own_costs_one_event(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A worker survives whatever happens to one event."""

        def broken(_: object) -> bytes:
            raise ZeroDivisionError("never mind")

        monkeypatch.setattr(event_writer, "encode", broken)
        desk.say(reason="A")
        await settle()
        monkeypatch.undo()
        desk.say(reason="B")
        assert [event["reason"] for event in await desk.events()] == ["B"]
        assert desk.warnings["event_lost"] == 1
        assert "never mind" in caplog.text

    async def test_full_queue_drops_the_newest(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """Drops are counted, and a dropped event is not taken for one that was told."""
        monkeypatch.setattr(event_writer, "_QUEUE_LIMIT", 2)
        for reason in ("A", "B", "C"):
            desk.say(reason=reason)
        assert desk.warnings["event_dropped"] == 1
        assert sorted(event["reason"] for event in await desk.events()) == ["A", "B"]
        desk.say(reason="C")
        assert await desk.series() == [1, 1, 1]


async def test_few_requests_at_a_time(desk: Desk) -> None:
    """Events never take more than four connections from the bindings."""
    waiting = desk.fault(delay_seconds=10.0)
    for number in range(20):
        desk.say(reason=f"R{number}")
    await settle()
    assert waiting.hits == 4
    await desk.stage.clock.advance(51)
    assert len(await desk.events()) == 20


async def test_order_of_events_is_kept(desk: Desk) -> None:
    """They are taken up in the order in which they were recorded."""
    sent: list[str] = []
    transport = desk.stage.client._transport
    send = transport.request

    async def note(method: str, path: str, **keywords: Any) -> Any:
        sent.append(msgspec.json.decode(keywords["body"])["reason"])
        return await send(method, path, **keywords)

    transport.request = note
    for number in range(50):
        desk.say(reason=f"R{number:02}")
    await settle()
    assert sent == sorted(sent)
    assert len(sent) == 50
