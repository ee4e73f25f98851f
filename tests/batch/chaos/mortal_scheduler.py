"""A scheduler in this process that crashes: its tasks end, and no write of it arrives any more."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from kube_testserver.virtual_time import settle
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.config.load import loads
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import build

if TYPE_CHECKING:
    from kube_testserver.requests import Request
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.testing import FakeCluster

#: A task that is cancelled so often has ended.
_MOST_CANCELS = 20

__all__ = ["WRITES", "Death", "MortalScheduler"]

#: The kinds of writes of a batch scheduler: method and path.
WRITES = {
    "bind": ("POST", r"/pods/[^/]+/binding$"),
    "evict": ("DELETE", r"/pods/[^/]+$"),
    "pod status": ("PATCH", r"/pods/[^/]+/status$"),
    "group status": ("PATCH", r"/podgroups/[^/]+(/status)?$"),
    "queue status": ("PATCH", r"/queues/[^/]+(/status)?$"),
    "event": ("", r"/events"),
}


@attrs.define
class Death:
    """A crash at a write of a kind, after so many others; `is_done`: the write arrives, and only its answer is lost."""

    kind: str
    others: int = 0
    is_done: bool = False


class _Wire(InProcessTransport):
    """Carries requests until its scheduler crashes."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster.server.router)
        self.death: Death | None = None
        self.is_cut = False

    async def _ask(self, request: Request) -> Any:
        await asyncio.sleep(0)
        dies = not self.is_cut and self._is_last(request)
        if dies:
            self.is_cut = True
        if self.is_cut and not (dies and self.death is not None and self.death.is_done):
            return await _never()
        answer = await super()._ask(request)
        return await _never() if self.is_cut else answer

    def _is_last(self, request: Request) -> bool:
        if self.death is None:
            return False
        method, path = WRITES[self.death.kind]
        if (method and request.method != method) or request.method == "GET" or not re.search(path, request.path):
            return False
        self.death.others -= 1
        return self.death.others < 0


async def _never() -> Any:
    await asyncio.get_running_loop().create_future()


def _serial(task: asyncio.Task[Any]) -> tuple[int, str]:
    """Return a key by which tasks are cancelled in the same order in every run."""
    return len(task.get_name()), task.get_name()


class _Counting(NullRecorder):
    def __init__(self, warnings: Counter[str]) -> None:
        self._warnings = warnings

    def warning(self, kind: str) -> None:
        self._warnings[kind] += 1


class MortalScheduler:
    """A scheduler that can be made to crash and started again. Only one runs at a time.

    Create it after all other tasks of the test: those that begin later belong to the scheduler.
    """

    def __init__(self, cluster: FakeCluster, config: str, rng: random.Random) -> None:
        self._cluster = cluster
        self._config = loads(config, source="test")
        self._rng = rng
        self._others = asyncio.all_tasks()
        self._wire = _Wire(cluster)
        self.scheduler: Scheduler | None = None
        self.warnings: Counter[str] = Counter()
        #: How often it crashed, by kind of the last write.
        self.crashes: Counter[str] = Counter()

    async def start(self, death: Death | None = None) -> None:
        """Build a new scheduler, and let it run until its death."""
        self._wire = _Wire(self._cluster)
        rng = random.Random(self._rng.random())
        registry, recorder = discover(), _Counting(self.warnings)
        self.scheduler = build(self._config, self._wire, self._cluster.clock, rng, registry=registry, recorder=recorder)
        asyncio.create_task(self._live(self.scheduler))  # noqa: RUF006 - found by `crash`
        self._wire.death = death

    @staticmethod
    async def _live(scheduler: Scheduler) -> None:
        await scheduler.start()
        await scheduler.run()

    @property
    def is_dead(self) -> bool:
        """Return True if no write of the scheduler arrives any more."""
        return self._wire.is_cut

    async def crash(self) -> None:
        """End the scheduler at once; it releases nothing."""
        death = self._wire.death
        self.crashes[death.kind if self._wire.is_cut and death is not None else "any time"] += 1
        self._wire.is_cut = True
        # A task that is cancelled may begin another write, which then waits for ever.
        for _ in range(_MOST_CANCELS):
            tasks = asyncio.all_tasks() - self._others
            if not tasks:
                break
            for task in sorted(tasks, key=_serial):
                task.cancel()
            await settle()
        else:
            raise TimeoutError(f"tasks do not end: {tasks}")
        self.scheduler = None

    def spare(self) -> None:
        """Let the scheduler live on."""
        self._wire.death = None
