"""Stories that are rebuilt from collected logs equal those in the memory of the scheduler."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import attrs
import pytest
from hypothesis import given, strategies as st

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import ObjectMeta, Pod, PodSpec
from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
from pyscheduler.stories.book import StoryBook
from pyscheduler.stories.history import History
from pyscheduler.stories.lines import log_gap
from pyscheduler.stories.view import StoryView, story_view
from pyscheduler.telemetry import logs

HOSTILE = 'x" pod=web/evil message="y\n2026-11-29T00:00:00.000000Z info decision Pod story changed pod=web/evil'


@attrs.define
class Replica:
    """A book whose lines are kept, in one of the two formats."""

    clock: VirtualClock
    is_json: bool = False
    lines: list[str] = attrs.Factory(list)
    book: StoryBook = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.book = StoryBook(self.clock)
        self.book.begin()
        self.book.listeners.append(lambda *_: None)

    def does(self, act: Callable[[StoryBook], object]) -> None:
        """Let something happen, and take over the lines about it."""
        with self.taking_over():
            act(self.book)

    @contextmanager
    def taking_over(self) -> Iterator[None]:
        """Take over the lines that are written meanwhile."""
        formatter = logs._JSONFormatter() if self.is_json else logs._KeyValueFormatter()
        replica = self

        class Keep(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                record.created = replica.clock.wall()
                replica.lines.append(formatter.format(record))

        handler = Keep()
        logger = logging.getLogger("decision")
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def decisions() -> Iterator[None]:
    """Let the logger write while a test runs."""
    logger = logging.getLogger("decision")
    before = logger.level
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(before)


@pytest.fixture
def clock() -> VirtualClock:
    """Return a clock that a test advances."""
    return VirtualClock()


def pod_of(name: str, uid: str = "", *, created: str | None = None) -> Pod:
    """Return a pod without anything to schedule."""
    metadata = ObjectMeta(name=name, namespace="web", uid=uid or f"uid-of-{name}", creation_timestamp=created)
    return Pod(metadata=metadata, spec=PodSpec(scheduler_name="pyscheduler"))


def rebuilt(lines: list[str], name: str = "p") -> list[StoryView]:
    """Return the stories of a pod in lines."""
    history = History("web", name)
    history.read(lines)
    return history.stories()


def facts(story: StoryView) -> list[tuple[object, ...]]:
    """Return reason, count, plugins, node, message, times, and events of each run."""
    return [
        (run.reason, run.count, run.plugins, run.node, run.message, run.first, run.last, run.woken_by, run.others)
        for run in story.runs
    ]


async def tell(replica: Replica, pod: Pod, events: list[int]) -> None:
    """Let one of four things happen at a time; the last one is the binding."""
    for event in events:
        await replica.clock.advance(1.5)
        if event == 0:
            replica.does(lambda book: book.waits(pod, "Unschedulable", "no room", plugins=("NodeResourcesFit",)))
        elif event == 1:
            replica.does(lambda book: book.waits(pod, "Unschedulable", HOSTILE, plugins=("A", "B"), others=("web/q",)))
        elif event == 2:
            replica.does(lambda book: book.waits(pod, "WaitingOnPermit", node="n1"))
        elif replica.book.pending:
            run = replica.book.pending[pod.uid].runs[-1]
            run.woken = {**(run.woken or {}), "NodeAdd": (run.woken or {}).get("NodeAdd", 0) + 1}
    await replica.clock.advance(1)
    replica.does(lambda book: book.bound(pod, "n1"))


@pytest.mark.parametrize("is_json", [False, True], ids=["text", "json"])
@given(events=st.lists(st.integers(0, 3), min_size=1, max_size=20), seed=st.integers(0, 1000))
async def test_history_equals_memory(is_json: bool, events: list[int], seed: int) -> None:
    """Counts, times and events of a finished story are those of the book, in whatever order the lines come."""
    replica = Replica(VirtualClock(), is_json)
    pod = pod_of("p")
    await tell(replica, pod, [0, *events])
    lines = [*replica.lines, *random.Random(seed).sample(replica.lines, len(replica.lines) // 2)]
    random.Random(seed).shuffle(lines)
    (expected,) = map(story_view, replica.book.of("web/p"))
    (found,) = rebuilt(lines)
    assert facts(found) == facts(expected)
    assert (found.pending, found.reason, found.first_seen) == (False, "Scheduled", expected.first_seen)
    assert not any(run.count_is_least for run in found.runs)
    assert rebuilt(lines, "evil") == []


async def test_lines_of_two_replicas_and_two_pods(clock: VirtualClock) -> None:
    """The story goes on with the next leader; of a killed leader, at least half of the attempts are known."""
    first, second = Replica(clock, is_json=True), Replica(clock)
    for name in ("p", "other"):
        first.does(partial(StoryBook.waits, pod=pod_of(name), reason="Unschedulable", message="full", plugins=("Fit",)))
    for _ in range(4):
        await clock.advance(10)
        first.does(lambda book: book.waits(pod_of("p"), "Unschedulable", "full", plugins=("Fit",)))
    for _ in range(2):
        await clock.advance(10)
        second.does(lambda book: book.waits(pod_of("p"), "Unschedulable", "fuller", plugins=("Fit",)))
    second.does(lambda book: book.bound(pod_of("p"), "n1"))
    second.does(lambda book: book.ended(pod_of("p"), "Preempted", node="n1", others=("web/q",)))
    (story,) = rebuilt([*second.lines, *first.lines])
    assert [(run.reason, run.count, run.count_is_least, run.message) for run in story.runs] == [
        ("Unschedulable", 6, True, "fuller"),
        ("Scheduled", 1, False, ""),
        ("Preempted", 1, False, ""),
    ]
    assert story.runs[2].others == ("web/q",)
    assert [other.pod for other in rebuilt([*second.lines, *first.lines], "other")] == ["web/other"]


@pytest.mark.parametrize("is_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize(
    ("is_stopped", "count", "last"),
    [
        pytest.param(True, 11, "2026-01-01T00:01:40.000000Z", id="SIGTERM"),
        pytest.param(False, 8, "2026-01-01T00:01:10.000000Z", id="SIGKILL"),
    ],
)
async def test_count_of_the_last_reason(
    is_json: bool, is_stopped: bool, count: int, last: str, clock: VirtualClock
) -> None:
    """A leader that stops logs the final count; the logs of a killed leader have at least half of it."""
    replica = Replica(clock, is_json)
    for _ in range(10):
        replica.does(lambda book: book.waits(pod_of("p"), "Unschedulable", "full", plugins=("Fit",)))
        await clock.advance(10)
    replica.does(lambda book: book.waits(pod_of("p"), "Unschedulable", "fuller", plugins=("Fit",)))
    replica.book.pending["uid-of-p"].runs[-1].woken = {"NodeAdd": 2}
    if is_stopped:
        with replica.taking_over():
            await replica.book.close()
    (story,) = rebuilt([*replica.lines, *replica.lines])
    (run,) = story.runs
    assert (run.count, run.last, run.count_is_least) == (count, last, not is_stopped)
    assert run.first == story.first_seen
    assert (run.message, run.woken_by) == (("fuller", {"NodeAdd": 2}) if is_stopped else ("full", {}))


@pytest.mark.parametrize("is_json", [False, True], ids=["text", "json"])
def test_story_has_the_creation_time_of_the_pod(is_json: bool, clock: VirtualClock) -> None:
    """The wait began before this replica saw the pod; logs of an earlier version do not say when."""
    replica = Replica(clock, is_json)
    created = "2026-01-01T00:00:00Z"
    replica.does(lambda book: book.waits(pod_of("p", created=created), "Unschedulable", "full"))
    replica.does(lambda book: book.waits(pod_of("q"), "Unschedulable", "full"))
    assert [story.created for story in rebuilt(replica.lines)] == ["2026-01-01T00:00:00.000000Z"]
    assert [story.created for story in rebuilt(replica.lines, "q")] == [""]


@pytest.mark.parametrize("is_json", [False, True], ids=["text", "json"])
async def test_row_for_the_time_without_a_scheduler(is_json: bool, clock: VirtualClock) -> None:
    """It is between the reasons of the two leaders; a pod that did not wait then, or of another profile, has no row.

    The first leader rejected the pod after it had renewed its lease for the last time.
    """
    first, second = Replica(clock, is_json), Replica(clock, is_json)
    renewed = clock.wall()
    await clock.advance(2)
    for name in ("p", "bound"):
        first.does(partial(StoryBook.waits, pod=pod_of(name), reason="Unschedulable", plugins=("Fit",)))
    first.does(lambda book: book.bound(pod_of("bound"), "n1"))
    await clock.advance(60)
    with second.taking_over():
        log_gap(("batch", "pyscheduler"), renewed, clock.wall(), "kube-system/pyscheduler")
        log_gap(("other",), renewed, clock.wall(), "kube-system/other")
    await clock.advance(1)
    for name in ("p", "later"):
        second.does(partial(StoryBook.waits, pod=pod_of(name), reason="Unschedulable", plugins=("Fit",)))
    lines = [*second.lines, *second.lines, *first.lines]
    (story,) = rebuilt(lines)
    assert [(run.reason, run.first, run.last, run.count_is_least) for run in story.runs] == [
        ("Unschedulable", "2026-01-01T00:00:02.000000Z", "2026-01-01T00:00:02.000000Z", True),
        ("NoScheduler", "2026-01-01T00:00:02.000000Z", "2026-01-01T00:01:02.000000Z", False),
        ("Unschedulable", "2026-01-01T00:01:03.000000Z", "2026-01-01T00:01:03.000000Z", True),
    ]
    assert story.runs[1].message == "the lease kube-system/pyscheduler had no leader"
    assert (story.reason, story.pending) == ("Unschedulable", True)
    for name in ("bound", "later"):
        (other,) = rebuilt(lines, name)
        assert "NoScheduler" not in [run.reason for run in other.runs]


async def test_gate_that_was_removed_before_the_next_leader_has_one_row(clock: VirtualClock) -> None:
    """The standby has seen the gate, too, and says so with the reason after it."""
    first, second = Replica(clock), Replica(clock)
    second.book = StoryBook(clock)
    info = QueuedPodInfo(pod_info=PodInfo.of(pod_of("p")), enqueued_at=0.0, gating_plugin="SchedulingGates")
    for book in (second.book, first.book):  # the standby sees the pod first
        with first.taking_over():
            book.moved(info, "unschedulable", "UnschedulablePodAdd")
        await clock.advance(0.001)
    info.gating_plugin = ""
    second.book.moved(info, "active", "UnschedulablePodUpdate")
    await clock.advance(60)
    with second.taking_over():
        second.book.begin()
        second.book.waits(pod_of("p"), "Unschedulable", "full", plugins=("Fit",))
    (story,) = rebuilt([*first.lines, *second.lines])
    assert [(run.reason, run.plugins) for run in story.runs] == [
        ("SchedulingGated", ("SchedulingGates",)),
        ("Unschedulable", ("Fit",)),
    ]


async def test_pod_that_the_next_leader_does_not_name_waits_no_more(clock: VirtualClock) -> None:
    """It was deleted or bound while no scheduler ran; a pod of the same name shows that it was deleted."""
    first, second = Replica(clock), Replica(clock)
    for name in ("p", "gone", "again"):
        first.does(partial(StoryBook.waits, pod=pod_of(name), reason="Unschedulable", plugins=("Fit",)))
    await clock.advance(60)
    with second.taking_over():
        log_gap(("pyscheduler",), clock.wall() - 30, clock.wall(), "kube-system/pyscheduler")
    await clock.advance(1)
    created = "2026-01-01T00:00:50Z"
    for pod in (pod_of("p"), pod_of("again", "2", created=created)):
        second.does(partial(StoryBook.waits, pod=pod, reason="Unschedulable", plugins=("Fit",)))
    lines = [*second.lines, *first.lines]
    assert [story.reason for story in rebuilt(lines)] == ["Unschedulable"]
    (gone,) = rebuilt(lines, "gone")
    assert (gone.reason, gone.pending) == ("NotSeen", False)
    assert [(run.reason, run.first) for run in gone.runs[1:]] == [
        ("NoScheduler", "2026-01-01T00:00:30.000000Z"),
        ("NotSeen", "2026-01-01T00:01:00.000000Z"),
    ]
    assert "the leader since 2026-01-01T00:01:00Z does not name the pod" in gone.runs[-1].message
    newer, older = rebuilt(lines, "again")
    assert (newer.reason, older.reason, older.pending) == ("Unschedulable", "Deleted", False)
    assert (older.runs[-1].first, "uid 2" in older.runs[-1].message) == ("2026-01-01T00:00:50.000000Z", True)
    assert "NotSeen" not in [run.reason for run in older.runs]


async def test_pods_of_the_same_name_have_stories_of_their_own(clock: VirtualClock) -> None:
    """The newest pod comes first."""
    replica = Replica(clock)
    replica.does(lambda book: book.waits(pod_of("p", "1"), "Unschedulable", "full"))
    replica.does(lambda book: book.deleted(pod_of("p", "1")))
    await clock.advance(5)
    replica.does(lambda book: book.waits(pod_of("p", "2"), "SchedulingGated", plugins=("SchedulingGates",)))
    assert [(story.uid, story.reason, story.pending) for story in rebuilt(replica.lines)] == [
        ("2", "SchedulingGated", True),
        ("1", "Deleted", False),
    ]


COLLECTORS = [
    pytest.param(lambda line: line, id="as written"),
    pytest.param(lambda line: f"[pod/pyscheduler-5d9c-x7k/scheduler] {line}", id="kubectl logs --prefix"),
    pytest.param(
        lambda line: f"[pod/pyscheduler-5d9c-x7k/scheduler] 2026-11-29T09:42:08.669123456Z {line}",
        id="kubectl logs --prefix --timestamps",
    ),
    pytest.param(lambda line: f"2026-11-29T09:42:08.669123456+01:00 stderr F {line}", id="file of a container runtime"),
    pytest.param(lambda line: json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "x"}), id="Docker"),
    pytest.param(lambda line: json.dumps({"timestamp": 1, "line": line, "labels": {"app": "x"}}), id="a collector"),
    pytest.param(lambda line: f"{line}\r\n", id="line ends of Windows"),
]


@pytest.mark.parametrize("is_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("collected", COLLECTORS)
def test_lines_of_collectors_are_read(collected: Callable[[str], str], is_json: bool, clock: VirtualClock) -> None:
    """A prefix, or an object around the line, changes nothing."""
    replica = Replica(clock, is_json)
    replica.does(lambda book: book.waits(pod_of("p"), "Unschedulable", HOSTILE, plugins=("A",), others=("a/b", "c/d")))
    lines = [collected(line) for line in replica.lines]
    (story,) = rebuilt(lines)
    (run,) = story.runs
    assert (run.reason, run.message, run.plugins, run.others) == ("Unschedulable", HOSTILE, ("A",), ("a/b", "c/d"))
    assert rebuilt(lines, "evil") == []


@pytest.mark.parametrize("is_json", [False, True], ids=["text", "json"])
def test_line_that_was_cut_is_left_out(is_json: bool, clock: VirtualClock) -> None:
    """A cut anywhere gives no half story, and the line that follows in the same row is read."""
    replica = Replica(clock, is_json)
    replica.does(lambda book: book.waits(pod_of("p"), "Unschedulable", HOSTILE, plugins=("A",)))
    replica.does(lambda book: book.bound(pod_of("p"), "n1"))
    whole, next_line = replica.lines
    for end in range(1, len(whole)):
        history = History("web", "p")
        history.read([whole[:end]])
        assert history.stories() == []
        (story,) = rebuilt([whole[:end] + next_line])
        assert [run.reason for run in story.runs] == ["Unschedulable", "Scheduled"]
        assert story.runs[0].message == ""
    assert history.cut == 1


def test_missing_line_is_made_from_the_next_one(clock: VirtualClock) -> None:
    """If older logs are gone, the reason before is known without its message."""
    replica = Replica(clock)
    replica.does(lambda book: book.waits(pod_of("p"), "SchedulingGated"))
    replica.does(lambda book: book.waits(pod_of("p"), "Unschedulable", "full", plugins=("Fit",)))
    (story,) = rebuilt(replica.lines[1:])
    assert [(run.reason, run.count, run.message) for run in story.runs] == [
        ("SchedulingGated", 1, ""),
        ("Unschedulable", 1, "full"),
    ]


@given(line=st.text())
def test_any_other_line_is_skipped(line: str) -> None:
    """Lines of other programs raise nothing."""
    assert rebuilt([line, f"Pod story changed p {line}", json.dumps({"logger": "decision", "msg": line})]) == []
