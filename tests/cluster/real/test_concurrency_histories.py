"""Turns over random histories: never too many, never none, in order, and none is lost."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kube_testserver.virtual_time import VirtualClock, settle
from pyscheduler.cluster.real.concurrency import FULL, RequestWindow, Turn
from pyscheduler.framework.errors import APIError, NotFoundError, TooManyRequestsError, TransportError
from pyscheduler.framework.recorder import NullRecorder

ENDINGS: dict[str, BaseException | None] = {
    "good": None,
    "not found": NotFoundError("", status=404),
    "refused": TooManyRequestsError("", status=429, retry_after_seconds=2.0),
    "no server": APIError("", status=503),
    "no answer": TransportError("no answer in time"),
    "cancelled": asyncio.CancelledError(),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: cuts are on purpose here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@attrs.define(eq=False)
class Request:
    """One who asks for a turn."""

    number: int
    background: bool
    task: asyncio.Task[None]
    turn: Turn | None = None


class Histories(RuleBasedStateMachine):
    """A window, those who wait for turns, and those who have one."""

    fired: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = VirtualClock()
        self.window = RequestWindow(clock=self.clock, recorder=NullRecorder())
        self.waiting: list[Request] = []
        self.held: list[Request] = []
        self.asked = 0
        #: The last one that was given a turn, in front and in the background.
        self.last = {False: 0, True: 0}
        self.most = 0

    # What happens

    @rule(count=st.integers(1, 90), background=st.booleans())
    def ask(self, count: int, *, background: bool) -> None:
        async def begin() -> None:
            for _ in range(count):
                self.asked += 1
                task = asyncio.create_task(self._wait(self.asked, background=background))
                self.waiting.append(Request(self.asked, background, task))
            await settle()

        self.run(begin)
        self.fired["asked in the background" if background else "asked"] += 1

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ending=st.sampled_from(sorted(ENDINGS)), seconds=st.sampled_from([0.0, 0.1, 1.5]))
    def end(self, data: st.DataObject, ending: str, seconds: float) -> None:
        request = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))

        async def end() -> None:
            await self.clock.advance(seconds)
            self.give_back(request, ENDINGS[ending])
            self.fired[ending] += 1
            self.fired["paused"] += self.window._pause is not None
            await settle()

        self.run(end)

    @precondition(lambda self: self.held)
    @rule(seconds=st.sampled_from([0.0, 0.1, 1.5]))
    def end_all(self, seconds: float) -> None:
        """Let a round trip go well."""
        ended, self.held = self.held, []

        async def end() -> None:
            await self.clock.advance(seconds)
            was = self.window.limit
            for request in ended:
                self.give_back(request, None)
            await settle()
            self.fired["wider"] += self.window.limit > was

        self.run(end)

    @precondition(lambda self: len(self.held) > 1)
    @rule()
    def refuse_all(self) -> None:
        """However many are refused of one burst, the window is cut once."""
        ended, self.held = self.held, []

        async def end() -> None:
            epoch = self.window._epoch
            for request in ended:
                self.give_back(request, ENDINGS["refused"])
            assert self.window._epoch - epoch <= 1
            await settle()

        self.run(end)
        self.fired["burst refused"] += 1

    @precondition(lambda self: not self.held and not self.waiting and self.window.limit > 8)
    @rule()
    def slow_down(self) -> None:
        """Answer one quickly, and a whole window slowly."""

        async def slow_down() -> None:
            was = self.window.limit
            with await self.window.turn("POST"):
                pass
            turns = [await self.window.turn("POST") for _ in range(was)]
            await self.clock.advance(1.5)
            for turn in turns:
                self.window.end(turn, None)
            assert self.window.limit == max(8, was // 2)

        self.run(slow_down)
        self.fired["slow"] += 1

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), count=st.integers(1, 5))
    def cancel(self, data: st.DataObject, count: int) -> None:
        async def cancel() -> None:
            for _ in range(min(count, len(self.waiting))):
                self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1))).task.cancel()
            await settle()

        self.run(cancel)
        self.fired["cancelled while it waits"] += 1

    @precondition(lambda self: self.held and self.waiting)
    @rule(first=st.booleans())
    def cancel_as_it_is_given_a_turn(self, *, first: bool) -> None:
        """One that is cancelled in the same turn of the loop in which its turn comes, before it or after it."""
        held = self.held.pop()
        chosen = self.waiting.pop(0)

        async def cancel() -> None:
            if first:
                chosen.task.cancel()
            self.give_back(held, None)
            chosen.task.cancel()
            await settle()

        self.run(cancel)
        self.fired["cancelled as its turn comes"] += 1

    @rule(seconds=st.sampled_from([0.5, 2.0, 40.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.run(lambda: self.clock.advance(seconds))

    # What is always so

    @invariant()
    def counts(self) -> None:
        """Compare the window's counts with those here; it has between one place and 64."""
        assert 1 <= self.window.limit <= FULL
        assert self.window.in_flight == len(self.held)
        assert self.window.waiting == len(self.waiting)
        # A window that was cut below what is in flight lets it run out.
        assert self.window.in_flight <= max(self.window.limit, self.most)
        self.most = self.window.in_flight

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Who waits, waits for a place or for the end of a pause."""
        if not self.waiting or self.window._pause is not None:
            return
        if all(request.background for request in self.waiting):
            share = max(1, self.window.limit // 2)
            if sum(request.background for request in self.held) >= share:
                self.fired["events wait for their share"] += 1
                return
        assert self.window.in_flight >= self.window.limit

    def teardown(self) -> None:
        """All who wait get their turn in the end."""

        async def all_well() -> None:
            while self.held:
                self.give_back(self.held.pop(), None)
            await self.clock.advance(1.0)

        try:
            for _ in range(1000):
                if self.held or self.waiting:
                    self.run(all_well)
            assert not self.waiting
            assert self.window.in_flight == self.window.waiting == 0
            self.window.close()
        finally:
            self.runner.close()

    # How it is done

    def run(self, do: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.runner.run(do())
        given = [request for request in self.waiting if request.turn is not None]
        for request in given:
            self.waiting.remove(request)
            self.held.append(request)
        if any(request.background for request in given):
            assert all(request.background for request in self.waiting), "an event went ahead of a binding"

    def give_back(self, request: Request, error: BaseException | None) -> None:
        assert request.turn is not None
        self.window.end(request.turn, error)

    async def _wait(self, number: int, *, background: bool) -> None:
        turn = await self.window.turn("POST", background=background)
        assert number > self.last[background], "not in the order in which they came"
        self.last[background] = number
        next(request for request in self.waiting if request.number == number).turn = turn


@pytest.mark.slow
def test_any_history() -> None:
    """Over histories in which everything happens; how often is printed."""
    Histories.fired.clear()
    wanted = {
        *ENDINGS,
        "asked",
        "asked in the background",
        "slow",
        "wider",
        "paused",
        "burst refused",
        "cancelled while it waits",
        "cancelled as its turn comes",
        "events wait for their share",
    }
    run_state_machine_as_test(Histories, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))
    print(dict(Histories.fired))  # noqa: T201 - how often each rule had its turn
    assert not [name for name in wanted if not Histories.fired[name]]
