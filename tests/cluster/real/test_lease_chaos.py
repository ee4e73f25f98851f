"""Never two leaders: replicas that are killed, stopped and restarted, on a server that does what servers do.

Each replica is a process of its own: its clock runs a little fast or slow and shows another time of day; stopped, its
timers do not ring and its answers wait in the socket, while time goes on. Requests are carried out by the server
whether or not their sender still waits, also long after it gave up.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kube_testserver.virtual_time import VirtualClock, settle
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real.lease import LeaderElector
from pyscheduler.config.types import LeaderElection
from pyscheduler.framework.errors import TransportError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.ports import Response

LEASE = ("coordination.k8s.io/v1", "Lease", "pyscheduler")
HOUR = 3600.0


class Process:
    """A replica's clock, its way to the server, and its elector."""

    def __init__(self, world: ReplicaHistory, name: str) -> None:
        rng = world.rng
        self.name = name
        self.world = world
        self.dead = False
        self.running = asyncio.Event()
        self.running.set()
        self.rate = rng.uniform(0.95, 1.05)
        self.offset = rng.uniform(-30, 30) * HOUR
        self._rung: list[Callable[[], object]] = []
        self.elector = LeaderElector(
            config=LeaderElection(),
            transport=self._open,
            clock=self,  # type: ignore[arg-type]  # `sleep` and the timers are the base's
            rng=random.Random(rng.random()),
            recorder=NullRecorder(),
            identity=name,
            on_lost=lambda: world.counts.update(["lost"]),
        )
        self.acquiring = asyncio.create_task(self.elector.acquire())
        self.ending: asyncio.Task[None] | None = None
        self.led = False
        self.gone_at = 0.0

    async def _open(self) -> Any:
        return self

    @property
    def acting(self) -> bool:
        """Whether this process would bind a pod now, if it were to run its next line."""
        return not self.dead and self.running.is_set() and self.elector.is_leader

    # The clock

    def now(self) -> float:
        return self.world.clock.now() * self.rate

    def wall(self) -> float:
        return self.world.clock.wall() + self.offset

    def call_at(self, when: float, callback: Callable[[], object]) -> Any:
        def ring() -> None:
            if self.running.is_set():
                callback()
            else:
                self._rung.append(callback)

        # A little late, as timers are: rounded down, it would not be time yet by this clock.
        return self.world.clock.call_at(when / self.rate + 1e-6, ring)

    def call_later(self, delay_seconds: float, callback: Callable[[], object]) -> Any:
        return self.call_at(self.now() + delay_seconds, callback)

    async def sleep(self, delay_seconds: float) -> None:
        await self.world.clock.sleep(delay_seconds / self.rate)
        await self.running.wait()

    # Stopping and killing

    def freeze(self) -> None:
        self.running.clear()

    def thaw(self) -> None:
        self.running.set()
        self.world.check()  # its next line may come before any timer rings
        rung, self._rung = self._rung, []
        for callback in rung:
            callback()

    async def kill(self) -> None:
        self.dead = True
        tasks = [self.acquiring, self.elector._place._task, self.ending]  # type: ignore[attr-defined]
        for task in filter(None, tasks):
            task.cancel()
            await asyncio.wait([task])

    # The way to the server

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> Response:
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.world.spawn(self._carry(answer, method, path, body))
        return await answer

    async def _carry(self, answer: asyncio.Future[Response], method: str, path: str, body: bytes | None) -> None:
        world = self.world
        fate = world.fate(method)
        if fate == "slow request":
            await world.clock.sleep(world.rng.expovariate(1 / 6))
        response: Response | None = None
        if fate.isdigit():
            text = b'{"kind":"Status","message":"injected","reason":"%s"}' % {"409": b"Conflict"}.get(fate, b"")
            response = Response(status=int(fate), body=text, headers={})
        elif fate != "lost request":
            response = await world.transport.request(method, path, body=body)
            world.check()
        if fate == "slow answer":
            await world.clock.sleep(world.rng.expovariate(1 / 6))
        if fate == "hangs":
            return
        await self.running.wait()
        if answer.done():
            world.counts["answered too late"] += 1
        elif response is None or fate == "lost answer":
            answer.set_exception(TransportError("no answer"))
        else:
            answer.set_result(response)

    async def close(self) -> None:
        """Nothing to close."""


class ReplicaHistory:
    """The cluster, its replicas, and what becomes of them under one seed."""

    def __init__(self, stage: Any, seed: int, counts: Counter[str]) -> None:
        self.rng = random.Random(seed)
        self.stage = stage
        self.clock: VirtualClock = stage.clock
        self.transport = InProcessTransport(stage.cluster.router)
        self.counts = counts
        self.processes: list[Process] = []
        self.calm = False
        self._made = 0
        self._trouble = ("", 0.0)
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def fate(self, method: str) -> str:
        """Say what becomes of a request."""
        if self.calm:
            return "well"
        what, until = self._trouble
        if self.clock.now() < until and (what != "409" or method == "PUT"):
            fate = what
        else:
            fates = ("well", "slow request", "slow answer", "lost request", "lost answer", "hangs", "409", "500", "429")
            fate = self.rng.choices(fates, (80, 4, 4, 2, 4, 1, 2, 2, 1))[0]
        self.counts[f"request: {fate}"] += 1
        return fate

    def check(self) -> None:
        """Raise where two act."""
        acting = [process.name for process in self.processes if process.acting]
        assert len(acting) <= 1, f"{acting} lead at {self.clock.now()}"
        self.counts["checks"] += 1

    def start(self) -> None:
        self._made += 1
        self.processes.append(Process(self, f"p{self._made}"))

    @property
    def lease(self) -> dict[str, Any] | None:
        found = self.stage.cluster.objects(*LEASE[:2])
        return found[0] if found else None

    async def step(self) -> None:
        """Let something happen, and a fifth of a second pass."""
        rng, counts = self.rng, self.counts
        for process in list(self.processes):
            if process.acting and not process.led:
                process.led = True
                counts["leaders"] += 1
            if not process.running.is_set():
                if self.clock.now() >= process.gone_at:
                    process.thaw()
                continue
            if process.ending is not None:
                if process.ending.done():
                    self.processes.remove(process)
                    await process.kill()
                continue
            # Leaders are interesting; what befalls standbys seldom matters.
            chance = rng.random() / (4 if process.acting else 1)
            if chance < 0.001:
                counts["frozen"] += 1
                counts["frozen while leading"] += process.acting
                process.freeze()
                process.gone_at = self.clock.now() + rng.uniform(0.5, 40)
            elif chance < 0.002:
                counts["killed"] += 1
                counts["killed while leading"] += process.acting
                self.processes.remove(process)
                await process.kill()
            elif chance < 0.003 or process.elector._lost.is_set():
                counts["released"] += 1
                process.ending = asyncio.create_task(process.elector.release())
        await self._meddle()
        # A replica that never saw the lease makes it where it is missing: it could not know better.
        if len(self.processes) < 3 and rng.random() < 0.1 and (self.lease is not None or not self.processes):
            self.start()
        await self.clock.advance(0.2)
        self.check()
        counts["led"] += any(process.acting for process in self.processes)
        counts["steps"] += 1

    async def _meddle(self) -> None:
        """Do what operators and servers do."""
        rng, counts = self.rng, self.counts
        chance = rng.random()
        if chance < 0.002:
            what = rng.choice(["409", "500", "hangs", "lost request", "lost answer"])
            self._trouble = (what, self.clock.now() + rng.uniform(3, 25))
            counts[f"storm: {what}"] += 1
        elif chance < 0.004 and self.lease is not None and all(p.elector._keeper._rules.holder for p in self.processes):
            counts["lease deleted"] += 1
            self.stage.cluster.remove(*LEASE, namespace="kube-system")
        elif chance < 0.01 and self.lease is not None:
            counts["lease labelled"] += 1
            self.stage.change(
                LEASE[:2], LEASE[2], "kube-system", lambda body: body["metadata"].update(labels={"n": str(chance)})
            )

    async def end(self) -> None:
        for process in self.processes:
            await process.kill()
        for task in list(self._tasks):
            task.cancel()
        await settle()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(8))
async def test_never_two_leaders(stage: Any, seed: int) -> None:
    """At no moment of ten minutes do two act; once all is calm, one does within lease duration and a retry."""
    counts: Counter[str] = Counter()
    world = ReplicaHistory(stage, seed, counts)
    for _ in range(3):
        world.start()
    await settle()
    for _ in range(3000):
        await world.step()
    world.calm = True
    for process in world.processes:
        if not process.running.is_set():
            process.thaw()
    if all(process.elector._lost.is_set() or process.ending for process in world.processes):
        world.start()
    # Requests of before the calm may hang for half a deadline yet; then the lease may have been renewed in silence.
    for _ in range(160):
        await world.clock.advance(0.2)
        world.check()
    acting = [process.name for process in world.processes if process.acting]
    await world.end()
    print(f"seed {seed}:", ", ".join(f"{what} {number}" for what, number in sorted(counts.items())))  # noqa: T201 - how often each happened
    assert len(acting) == 1
    assert counts["led"] > 0.25 * counts["steps"]
    assert counts["leaders"] >= 3
    for what in ("frozen", "killed", "released", "request: lost answer", "request: hangs", "request: 409"):
        assert counts[what], f"{what} never happened"


async def test_ten_kills(stage: Any) -> None:
    """Leadership moves within lease duration and one retry of the last renewal, ten kills in a row."""
    world = ReplicaHistory(stage, 1, Counter())
    world.calm = True
    world.start()
    await settle()
    world.start()
    for _ in range(10):
        await world.clock.advance(world.rng.uniform(3, 30))
        (leader,) = (process for process in world.processes if process.acting)
        world.processes.remove(leader)
        await leader.kill()
        killed = world.clock.now()
        while not any(process.acting for process in world.processes):
            await world.clock.advance(0.1)
            world.check()
            # Five percent for clocks that run slow.
            assert world.clock.now() - killed <= (15 + 2) * 1.06
        world.start()
    lease = world.lease
    assert lease is not None
    assert lease["spec"]["leaseTransitions"] == 10
    await world.end()
