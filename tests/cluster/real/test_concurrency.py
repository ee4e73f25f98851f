"""Requests in flight: turns in order, fewer after refusals and slow answers, more while all goes well."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kube_testserver.virtual_time import VirtualClock, settle
from pyscheduler.api import Pod
from pyscheduler.cluster.real.concurrency import FULL, RequestWindow, Turn
from pyscheduler.framework.errors import APIError, ConflictError, TooManyRequestsError, TransportError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.telemetry.families import FAMILIES

_SERVER_ERRORS = (503, 504)


class Gauges(NullRecorder):
    """Keeps what would be shown."""

    def __init__(self) -> None:
        self.read: dict[str, Callable[[], Mapping[tuple[tuple[str, str], ...], float]]] = {}

    def gauge(self, name: str, read: Any, *, description: str = "") -> None:
        assert name in FAMILIES
        self.read[name] = read

    counter = gauge


class Gate:
    """A window in virtual time, and what a server would do with requests."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.gauges = Gauges()
        self.window = RequestWindow(clock=self.clock, recorder=self.gauges)

    async def begin(self, count: int = 1, method: str = "POST", *, background: bool = False) -> list[Turn]:
        """Take turns that are free."""
        turns = [await self.window.turn(method, background=background) for _ in range(count)]
        assert [turn.number for turn in turns] == sorted(turn.number for turn in turns)
        return turns

    def end(self, *turns: Turn, error: BaseException | None = None) -> None:
        for turn in turns:
            self.window.end(turn, error)

    async def round_trip(self, *, seconds: float = 0.0, method: str = "POST") -> None:
        """Fill the window, and let all of it be answered well."""
        turns = await self.begin(self.window.limit - self.window.in_flight, method)
        await self.clock.advance(seconds)
        self.end(*turns)

    async def cut_to(self, limit: int) -> None:
        """Have the last one of twice as many refused, and wait until more may be tried."""
        turns = await self.begin(2 * limit)
        self.end(turns[-1], error=refusal())
        self.end(*turns[:-1])
        assert self.window.limit == limit
        await self.clock.advance(1.0)

    def cuts(self) -> dict[str, float]:
        counts = self.gauges.read["pyscheduler_request_window_cuts_total"]()
        return {key[0][1]: count for key, count in counts.items()}


def refusal(seconds: float | None = 1.0) -> TooManyRequestsError:
    """Return what a server says that has too much to do."""
    return TooManyRequestsError("busy", status=429, reason="TooManyRequests", retry_after_seconds=seconds)


@pytest.fixture
def gate() -> Gate:
    """Return a window at its full width."""
    return Gate()


# Turns


async def test_statuses_go_behind_bindings_but_get_every_fourth_turn(gate: Gate) -> None:
    """Bindings that came later go first, three for each status; an event goes last."""
    turns = await gate.begin(FULL)
    order: list[str] = []

    async def wait(name: str) -> None:
        kind = name[0]
        with await gate.window.turn("PATCH", deferred=kind == "s", background=kind == "e"):
            order.append(name)
            await asyncio.sleep(0)

    waiting = []
    for name in ["e", "s1", "s2", *(f"b{number}" for number in range(8))]:
        waiting.append(asyncio.create_task(wait(name)))
        await settle()
    assert gate.window.waiting == 11
    gate.end(*turns[:1])
    await asyncio.gather(*waiting)
    assert order == ["b0", "b1", "b2", "s1", "b3", "b4", "b5", "s2", "b6", "b7", "e"]


async def test_a_new_binding_goes_before_statuses_that_wait(gate: Gate) -> None:
    """No status that waits keeps a binding from the first turn; without bindings statuses use the whole window."""
    await gate.cut_to(4)
    statuses = [await gate.window.turn("PATCH", deferred=True) for _ in range(4)]
    late = asyncio.create_task(gate.window.turn("PATCH", deferred=True))
    await settle()
    binding = asyncio.create_task(gate.window.turn("POST"))
    await settle()
    gate.end(statuses[0])
    await settle()
    assert (binding.done(), late.done()) == (True, False)
    gate.end(*statuses[1:], await binding)
    gate.end(await late)
    assert gate.window.in_flight == 0


@pytest.mark.parametrize(("limit", "events"), [(1, 1), (2, 1), (3, 1), (8, 4)])
async def test_events_leave_half_of_a_small_window(gate: Gate, limit: int, events: int) -> None:
    """A binding finds a place at once though events wait for theirs."""
    await gate.cut_to(limit)
    turns = await gate.begin(events, background=True)
    more = asyncio.create_task(gate.window.turn("POST", background=True))
    await settle()
    assert not more.done()
    if limit > 1:
        turns += await gate.begin(limit - events)
    gate.end(*turns)
    gate.end(await more)


@pytest.mark.slow
async def test_ten_thousand_cancelled_at_once(gate: Gate) -> None:
    """Each leaves without a search among the others."""
    await gate.begin(FULL)
    waiting = [asyncio.create_task(gate.window.turn("POST")) for _ in range(10_000)]
    await asyncio.sleep(0)
    for task in reversed(waiting):
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (gate.window.in_flight, gate.window.waiting) == (64, 0)


# Refusals


async def test_a_burst_of_refusals_is_one_cut(gate: Gate) -> None:
    """A server takes 8 of 64: half of what was in flight when the first was refused, whatever comes with it."""
    turns = await gate.begin(FULL)
    gate.end(*turns[8:], error=refusal())
    assert gate.window.limit == 4
    gate.end(*turns[:8])
    assert (gate.window.limit, gate.window.in_flight, gate.cuts()) == (4, 0, {"429": 1.0})


async def test_the_number_that_was_refused_is_tried_again_after_retry_after(gate: Gate) -> None:
    """It widens by one with each round trip up to there, stays until the server wants to hear more, and goes on."""
    turns = await gate.begin(9)
    gate.end(turns[8], error=refusal(3.0))
    gate.end(*turns[:8])
    widths = []
    for _ in range(6):
        widths.append(gate.window.limit)
        await gate.round_trip()
    assert widths == [4, 5, 6, 7, 8, 8]
    await gate.clock.advance(2.9)
    await gate.round_trip()
    assert gate.window.limit == 8
    await gate.clock.advance(0.1)
    await gate.round_trip()
    await gate.round_trip()
    assert gate.window.limit == 10


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        pytest.param(None, 1.0, id="nothing said"),
        pytest.param(0.0, 1.0, id="at once"),
        pytest.param(2.0, 2.0, id="two seconds"),
        pytest.param(3600.0, 5.0, id="an hour"),
    ],
)
async def test_limit_is_kept_until_retry_after(gate: Gate, asked: float | None, held: float) -> None:
    """A limit is kept as long as Retry-After says, for a second without it, and for a bounded time."""
    turns = await gate.begin(2)
    gate.end(turns[1], error=refusal(asked))
    gate.end(turns[0])
    await gate.clock.advance(held - 0.01)
    await gate.round_trip()
    assert gate.window.limit == 1
    await gate.clock.advance(0.01)
    await gate.round_trip()
    assert gate.window.limit == 2


async def test_recovers_to_the_full_width(gate: Gate) -> None:
    """Once the server takes everything, 63 round trips lead from one to 64, and there it ends."""
    await gate.cut_to(1)
    trips = 0
    while gate.window.limit < FULL:
        await gate.round_trip(seconds=0.01)
        trips += 1
    await gate.round_trip()
    await gate.round_trip()
    assert (trips, gate.window.limit) == (63, FULL)


async def test_a_window_that_is_not_used_does_not_widen(gate: Gate) -> None:
    """That four at a time go well says nothing of forty."""
    await gate.cut_to(8)
    for _ in range(1000):
        gate.end(*await gate.begin(3))
    assert gate.window.limit == 8
    for _ in range(4):
        gate.end(*await gate.begin(4))
    assert gate.window.limit == 9


@pytest.mark.slow
async def test_a_server_that_refuses_everything_is_left_alone(gate: Gate) -> None:
    """With one in flight there is nothing to halve: one request a second is sent, though thousands wait."""
    sent: list[float] = []

    async def bind() -> None:
        while True:
            turn = await gate.window.turn("POST")
            sent.append(gate.clock.now())
            gate.window.end(turn, refusal())
            await gate.clock.sleep(1.0)

    began = gate.clock.now()
    binding = [asyncio.create_task(bind()) for _ in range(2000)]
    await gate.clock.advance(10.0)
    for task in binding:
        task.cancel()
    await asyncio.gather(*binding, return_exceptions=True)
    times = Counter(int(moment - began) for moment in sent)
    assert gate.window.limit == 1
    assert all(times[second] <= 2 for second in range(1, 10)), times


async def test_after_the_pause_the_next_is_tried(gate: Gate) -> None:
    """The pause ends by itself, and the first in the queue goes."""
    await gate.cut_to(1)
    (turn,) = await gate.begin()
    gate.end(turn, error=refusal())
    waiting = asyncio.create_task(gate.window.turn("POST"))
    await gate.clock.advance(0.99)
    assert not waiting.done()
    await gate.clock.advance(0.01)
    assert waiting.done()
    gate.end(await waiting)
    assert gate.window.in_flight == 0


async def test_closing_ends_the_pause(gate: Gate) -> None:
    """Nobody waits for ever for a client that is closed: each is sent, and hears what the transport says."""
    await gate.cut_to(1)
    gate.end(*await gate.begin(), error=refusal())
    waiting = [asyncio.create_task(gate.window.turn("POST")) for _ in range(3)]
    await settle()
    assert gate.window.in_flight == 0
    gate.window.close()
    for task in waiting:
        gate.end(await task, error=refusal())
    gate.window.close()
    assert gate.window.waiting == 0


BUDGET = TooManyRequestsError(
    "POST eviction: Cannot evict pod as it would violate the pod's disruption budget.",
    status=429,
    reason="TooManyRequests",
)


@pytest.mark.parametrize(
    ("method", "error", "reason"),
    [
        pytest.param("POST", refusal(), "429", id="429"),
        pytest.param("GET", refusal(), "429", id="429 to a read"),
        pytest.param("POST", BUDGET, "", id="disruption budget"),
        *(pytest.param("PATCH", APIError("", status=code), str(code), id=str(code)) for code in _SERVER_ERRORS),
        *(pytest.param("GET", APIError("", status=code), "", id=f"{code} to a read") for code in _SERVER_ERRORS),
        pytest.param("POST", APIError("", status=500), "", id="500"),
        pytest.param("POST", ConflictError("", status=409), "", id="409"),
        pytest.param("POST", TransportError("refused"), "", id="connection refused"),
        pytest.param("POST", asyncio.CancelledError(), "", id="cancelled"),
        pytest.param("POST", ValueError(), "", id="a fault of our own"),
    ],
)
async def test_answers_that_count_as_refusals(gate: Gate, method: str, error: BaseException, reason: str) -> None:
    """Only answers that report overload count as refusals; a read of a missing API does not."""
    turns = await gate.begin(10, method)
    gate.end(turns[9], error=error)
    assert gate.cuts() == ({reason: 1.0} if reason else {})
    assert gate.window.limit == (5 if reason else FULL)
    gate.end(*turns[:9])


async def test_no_answer_in_time(gate: Gate) -> None:
    """A request that had no answer for over a second is as good as refused."""
    turns = await gate.begin(4)
    await gate.clock.advance(30.0)
    gate.end(*turns, error=TransportError("no answer in time"))
    assert (gate.window.limit, gate.cuts()) == (1, {"no_answer": 1.0})


# Slow answers


async def test_slow_answers_narrow_the_window(gate: Gate) -> None:
    """A server that was quick with few and takes over a second with many is sent half as many, never under eight."""
    gate.end(*await gate.begin(1))
    widths = []
    for _ in range(7):
        await gate.round_trip(seconds=1.5)
        widths.append(gate.window.limit)
    assert widths == [32, 16, 8, 9, 8, 9, 8]
    assert gate.cuts() == {"slow": 5.0}


@pytest.mark.parametrize(
    ("count", "method", "quickest", "seconds"),
    [
        pytest.param(FULL, "POST", 0.01, 0.99, id="within a second"),
        pytest.param(FULL, "POST", 1.6, 3.1, id="always took long"),
        pytest.param(8, "POST", 0.01, 20.0, id="few in flight"),
        pytest.param(FULL, "GET", 0.01, 20.0, id="reads"),
    ],
)
async def test_answers_that_are_not_slow(gate: Gate, count: int, method: str, quickest: float, seconds: float) -> None:
    """A busy server is not starved: 64 in flight at 640 a second take 100 ms each."""
    for lasts, how_many in ((quickest, 1), (seconds, count)):
        turns = await gate.begin(how_many, method)
        await gate.clock.advance(lasts)
        gate.end(*turns)
    assert (gate.window.limit, gate.cuts()) == (FULL, {})


async def test_events_and_other_methods_do_not_set_the_pace(gate: Gate) -> None:
    """A quick patch or event does not make a creation slow that always takes two seconds."""
    gate.end(*await gate.begin(1, "PATCH"), *await gate.begin(1, "POST", background=True))
    await gate.round_trip(seconds=2.0)
    events = await gate.begin(32, background=True)
    await gate.clock.advance(20.0)
    gate.end(*events)
    assert gate.window.limit == FULL


@pytest.mark.parametrize(("rest", "cuts"), [(20.0, 1), (40.0, 1), (60.0, 0), (600.0, 0)])
async def test_fastest_answer_expires(gate: Gate, rest: float, cuts: int) -> None:
    """The fastest answer expires after a minute, so a server that became slower is measured anew."""
    gate.end(*await gate.begin(1))
    await gate.clock.advance(rest)
    await gate.round_trip(seconds=2.0)
    assert gate.cuts() == ({"slow": cuts} if cuts else {})


# What is shown


async def test_metrics_and_log(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """The window, who is in flight and who waits are shown; cuts are counted, and logged at most every ten seconds."""
    caplog.set_level(logging.INFO)
    turns = await gate.begin(FULL)
    waiting = asyncio.create_task(gate.window.turn("POST"))
    await settle()
    shown = {name: dict(read()) for name, read in gate.gauges.read.items()}
    assert shown == {
        "pyscheduler_request_window": {(): 64.0},
        "pyscheduler_client_requests": {(("state", "in_flight"),): 64.0, (("state", "waiting"),): 1.0},
        "pyscheduler_request_window_cuts_total": {},
    }
    gate.end(turns[63], error=refusal())
    gate.end(*turns[:63])
    gate.end(await waiting)
    for _ in range(3):
        turns = await gate.begin(2)
        gate.end(turns[1], error=refusal())
        gate.end(turns[0])
        await gate.clock.advance(6.0)
        await gate.round_trip()
    text = "API server is busy, sending fewer requests at once limit=%d was=%d reason=429 waiting=%d"
    assert [record.getMessage() for record in caplog.records] == [text % (32, 64, 1), text % (1, 2, 0)]
    assert gate.cuts() == {"429": 4.0}
    assert gate.gauges.read["pyscheduler_request_window"]() == {(): 2.0}


# The client path


async def test_bindings_do_not_wait_for_events(stage: Any, turn_until: Any) -> None:
    """Against a server that answers slowly, the last of 200 bindings is answered before most events are sent."""
    for number in range(200):
        stage.add_pod(f"p{number}")
    stage.add_node("n1", allocatable={"cpu": "1000", "memory": "1Ti", "pods": "1000"})
    pods = stage.states()
    recorder = stage.client.event_recorder("me")
    stage.fault(method="POST", delay_seconds=0.5)
    for pod in pods:
        recorder.event(pod, type="Normal", reason="Scheduled", action="Binding", note="done")
    binding = asyncio.gather(*(stage.client.bind(pod, "n1") for pod in pods))
    await stage.clock.advance(1.9)
    assert binding.done() is False
    await stage.clock.advance(0.2)
    await binding
    written = len(stage.cluster.objects("events.k8s.io/v1", "Event"))
    assert written <= 12
    await stage.clock.advance(60.0)
    assert len(stage.cluster.objects("events.k8s.io/v1", "Event")) == 200


async def test_informers_do_not_wait_for_a_turn(stage: Any) -> None:
    """While the window is closed after a refusal, lists and watches go on."""
    stage.add_pod("p")
    stage.fault(method="PATCH", status=429, retry_after_seconds=5)
    asking = [
        asyncio.create_task(stage.client.patch(Pod, "p", "default", patch={"metadata": {"labels": {"a": str(number)}}}))
        for number in range(3)
    ]
    await stage.clock.advance(7.0)
    window = stage.client._window
    assert (window.limit, window.in_flight, window.waiting > 0) == (1, 0, True)
    informer, _ = await stage.started()
    assert [pod.name for pod in informer] == ["p"]
    stage.cluster.faults.clear()
    await stage.clock.advance(60.0)
    assert all(pod.name == "p" for pod in await asyncio.gather(*asking))
