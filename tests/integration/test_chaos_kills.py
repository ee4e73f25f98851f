"""Schedulers that are killed again and again while pods arrive, watches break and one binding in ten goes wrong."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs
import pytest
from hypothesis import settings

from tests.integration.chaos import Books, arm_bindings, arrive, dropped_watches, nothing_lost, until
from tests.integration.conftest import Served
from tests.integration.programs import FAST, Program, nodes, program

PODS = 1000
#: Room for all of them, and hardly more: a pod that is counted twice, or not at all, shows.
NODES = 14
KILLS = 10
#: How often a leader is killed, and any replica.
STRIKES = 3 if settings.default.max_examples <= 10 else 5

#: Short enough for a test; whole seconds, because that is what a lease can say.
LEASE_SECONDS = 2
REPLICAS = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{qps: -1}}
leaderElection: {{leaseDuration: {LEASE_SECONDS}s, renewDeadline: 1500ms, retryPeriod: 300ms}}
profiles: [{{schedulerName: pyscheduler}}]
"""


@pytest.fixture
def rng() -> random.Random:
    """Return what decides when whom to kill; its seed is that of the run, and shown where the test fails."""
    seed = random.getrandbits(32)
    print(f"chaos seed {seed}")  # noqa: T201 - for whoever reads of a failure
    return random.Random(seed)


async def live(books: Books, rng: random.Random, *, is_short: bool) -> None:
    """Return after a moment in which a scheduler may not even list everything, or once it has bound some more pods."""
    if is_short:
        await asyncio.sleep(rng.uniform(0.1, 1.0))
        return
    enough = min(len(books.made) + rng.randint(1, 60), PODS)
    await until(lambda: len(books.made) >= enough)


@pytest.mark.long
async def test_a_scheduler_that_is_killed_ten_times(served_cluster: Served, rng: random.Random) -> None:
    """At whatever moment it is killed, the next one goes on: in the end each pod is bound, and none was bound twice."""
    cluster, url = served_cluster.cluster, served_cluster.url
    cluster.add(*nodes(NODES))
    books = Books(cluster)
    faults = arm_bindings(cluster)
    arguments = (
        "run",
        "--config",
        str(FAST),
        "--health-port",
        "0",
        "--secure-port",
        "0",
        "--leader-elect=false",
        "--master",
        url,
    )
    lives: list[int] = []
    async with asyncio.TaskGroup() as tasks, dropped_watches(cluster, rng) as dropped:
        tasks.create_task(arrive(url, PODS, rate=150))
        for is_short in rng.sample([True] * 3 + [False] * 7, KILLS):
            before = len(books.made)
            async with program(*arguments) as scheduler:
                await live(books, rng, is_short=is_short)
                scheduler.send(signal.SIGKILL)
                assert await scheduler.ended() == -signal.SIGKILL
            lives.append(len(books.made) - before)
        async with program(*arguments) as scheduler:
            await served_cluster.api.until_bound(PODS)
            scheduler.send(signal.SIGTERM)
            assert await scheduler.ended() == 0
            assert not any("Traceback" in line for line in scheduler.err)
    await nothing_lost(url, books, PODS)
    hits = [fault.hits for fault in faults]
    print(f"bound in each life: {lives}; faults: {hits}; dropped: {dict(dropped)}")  # noqa: T201 - same
    assert sum(count > 0 for count in lives) >= 3
    assert all(fault.hits >= 1 for fault in faults)
    assert sum(dropped.values()) >= 10


@attrs.define
class Replica:
    """A replica that is started again whenever it ends, on a server address that only it uses."""

    url: str
    process: Program
    #: Whether it has been sent a signal, and ends: a second one would end it at once.
    is_struck: bool = False
    #: The identities it has had.
    identities: set[str] = attrs.Factory(set)

    @property
    def is_alive(self) -> bool:
        """Tell whether its process runs, and will go on."""
        return self.process.process.returncode is None and not self.is_struck

    def strike(self, number: signal.Signals) -> None:
        """Send a signal, unless one was sent before."""
        if self.is_alive:
            self.is_struck = True
            self.process.send(number)

    @property
    def is_standing_by(self) -> bool:
        """Tell whether it knows the leader, and is not the leader."""
        process = self.process
        return self.is_alive and process.count("New leader elected") > 0 == process.count("Successfully acquired")


class Replicas:
    """Two replicas on one lease, each kept running."""

    def __init__(self, served: Served, config: Path) -> None:
        self._served = served
        self._config = config
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.replicas: list[Replica] = []
        #: How often a replica ended with which code.
        self.ends: Counter[int] = Counter()

    async def start(self) -> None:
        """Start both."""
        for _ in range(2):
            server = self._served.cluster.server()
            await server.start()
            self._stack.push_async_callback(server.stop)
            replica = Replica(server.url, await self._run(server.url))
            self.replicas.append(replica)
            self._tasks.append(asyncio.create_task(self._keep(replica)))

    async def _run(self, url: str) -> Program:
        arguments = ("run", "--config", str(self._config), "--health-port", "0", "--secure-port", "0", "--master", url)
        return await self._stack.enter_async_context(program(*arguments))

    async def _keep(self, replica: Replica) -> None:
        while True:
            try:
                line = await replica.process.said("Attempting to acquire leader lease")
                replica.identities.add(line.rpartition("identity=")[2])
            except AssertionError:
                pass  # it ended before
            await replica.process.process.wait()  # a life may be long
            self.ends[await replica.process.ended()] += 1
            replica.process, replica.is_struck = await self._run(replica.url), False

    def of(self, identity: str) -> Replica | None:
        """Return whose identity that is, or was."""
        return next((replica for replica in self.replicas if identity in replica.identities), None)

    async def stop(self) -> None:
        """End both."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()


@asynccontextmanager
async def kept_running(served: Served, config: Path) -> AsyncIterator[Replicas]:
    """Keep two replicas running while the block runs."""
    replicas = Replicas(served, config)
    await replicas.start()
    try:
        yield replicas
    finally:
        await replicas.stop()


class Executioner:
    """Ends replicas, and counts how often another replica led after a leader's end."""

    def __init__(self, replicas: Replicas, books: Books, rng: random.Random) -> None:
        self._replicas = replicas
        self._books = books
        self._rng = rng
        self.moves: Counter[signal.Signals] = Counter()

    async def strike(self, number: signal.Signals) -> None:
        """End one of them, whichever it is."""
        self._rng.choice(self._replicas.replicas).strike(number)

    async def strike_leader(self, number: signal.Signals) -> None:
        """End the leader when there is another that waits for it, and wait until another leads."""
        books, replicas = self._books, self._replicas
        await until(lambda: any(each.is_standing_by for each in replicas.replicas) and self._leader())
        leader = self._leader()
        assert leader is not None
        old = books.lease[-1].holder
        leader.strike(number)
        await until(lambda: books.lease[-1].holder not in {"", old})
        self.moves[number] += 1

    def _leader(self) -> Replica | None:
        found = self._replicas.of(self._books.lease[-1].holder)
        return found if found is not None and found.is_alive and not found.is_standing_by else None


@pytest.mark.slow
async def test_two_replicas_that_are_killed_again_and_again(
    served_cluster: Served, rng: random.Random, tmp_path: Path
) -> None:
    """No replica binds without the lease, none takes it before its time is over, and each pod is bound once.

    How soon a replica takes the lease over is tested in virtual time: in real time each request that a busy machine
    answers too late is a look more, so neither seconds nor looks have a bound.
    """
    cluster = served_cluster.cluster
    config = tmp_path / "config.yaml"
    config.write_text(REPLICAS, encoding="utf-8")
    cluster.add(*nodes(NODES))
    books = Books(cluster)
    faults = arm_bindings(cluster)
    async with (
        asyncio.TaskGroup() as tasks,
        dropped_watches(cluster, rng) as dropped,
        kept_running(served_cluster, config) as replicas,
    ):
        executioner = Executioner(replicas, books, rng)
        await until(lambda: books.lease)
        tasks.create_task(arrive(served_cluster.url, PODS, rate=150))
        strikes = [executioner.strike] * STRIKES + [executioner.strike_leader] * STRIKES
        signals = [signal.SIGTERM, *[signal.SIGKILL] * (STRIKES - 1)] * 2
        for strike, number in zip(rng.sample(strikes, len(strikes)), rng.sample(signals, len(signals)), strict=True):
            await asyncio.sleep(rng.uniform(0.1, 1.0))
            await strike(number)
        await served_cluster.api.until_bound(PODS)
    await nothing_lost(served_cluster.url, books, PODS)
    strangers = [
        each
        for each in books.bindings
        if (holder := replicas.of(books.holder(each.at))) is None or not holder.url.endswith(each.host)
    ]
    assert strangers == [], "bindings of one who did not hold the lease"
    holders = len({each.holder for each in books.lease} - {""})
    print(f"moves: {executioner.moves}; leaders: {holders}; ends: {dict(replicas.ends)}")  # noqa: T201 - same
    # A replica saw the last renewal after the server had made it, and waits from then on, whatever the machine does.
    early = [
        (old, new)
        for old, new in itertools.pairwise(books.lease)
        if old.holder and new.holder not in {"", old.holder} and new.at - old.at < LEASE_SECONDS
    ]
    assert early == [], "taken over while its holder could still lead"
    assert executioner.moves.total() == STRIKES
    assert holders >= STRIKES
    assert replicas.ends.keys() <= {-signal.SIGKILL, -signal.SIGTERM, 0, 1}
    assert all(fault.hits >= 1 for fault in faults)
    assert sum(dropped.values()) >= 10
