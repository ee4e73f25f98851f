"""Candidates for leadership on a stage's embedded cluster, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any

from kube_objects.times import format_micro_time
from kube_testserver.virtual_time import settle
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real.lease import LeaderElector
from pyscheduler.config.types import LeaderElection
from pyscheduler.framework.recorder import NullRecorder

LEASE = ("coordination.k8s.io/v1", "Lease", "pyscheduler")


class Gauges(NullRecorder):
    """Keeps gauges and counts warnings."""

    def __init__(self) -> None:
        self.gauges: dict[str, Callable[[], Mapping[tuple[tuple[str, str], ...], float]]] = {}
        self.warned = 0

    def warning(self, kind: str) -> None:
        assert kind == "lease_request_failed"
        self.warned += 1

    def gauge(self, name: str, read: Any, *, description: str = "") -> None:
        self.gauges[name] = read


class Candidate:
    """An elector, the task that waits for it to lead, and what it said."""

    def __init__(self, stage: Any, name: str, transport: Any = None, heartbeat: Any = None, **times: float) -> None:
        self.stage = stage
        self.recorder = Gauges()
        self.losses: list[float] = []
        self.elector = LeaderElector(
            config=LeaderElection(**times),  # type: ignore[arg-type]  # only durations
            transport=self._open,
            clock=stage.clock,
            rng=random.Random(name),
            recorder=self.recorder,
            identity=name,
            heartbeat=heartbeat,
            on_lost=lambda: self.losses.append(stage.clock.now()),
        )
        self.transport = transport if transport is not None else InProcessTransport(stage.cluster.router)
        self.acquiring: asyncio.Task[None] | None = None
        self.opened: Exception | None = None

    async def _open(self) -> Any:
        if self.opened is not None:
            raise self.opened
        return self.transport

    @property
    def leads(self) -> bool:
        return self.elector.is_leader

    async def begin(self) -> None:
        self.acquiring = asyncio.create_task(self.elector.acquire())
        await settle()

    async def die(self) -> None:
        """End without a word, as SIGKILL does."""
        task = self.elector._place._task  # type: ignore[attr-defined]  # it runs on this loop
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if self.acquiring is not None:
            self.acquiring.cancel()
            await asyncio.wait([self.acquiring])

    async def finish(self) -> None:
        """Release, in virtual time."""
        releasing = asyncio.create_task(self.elector.release())
        await self.stage.clock.advance(60)
        await releasing


def lease(stage: Any) -> dict[str, Any]:
    """Return the lease as it is."""
    found: dict[str, Any] = stage.cluster.get(*LEASE, namespace="kube-system")
    return found


def wall(stage: Any) -> str:
    """Return the time of day as leases show it."""
    return format_micro_time(stage.clock.wall())
