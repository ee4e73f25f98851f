"""`Session`: a scheduler and a cluster in memory; a program adds objects and lets virtual time pass.

`settle` runs the scheduler until it has nothing left to do at this instant. `advance` lets time pass.

    async with Session(load("profile.yaml")) as session:
        session.add(*nodes, pod)
        await session.settle()
        print(session.node_of("default/pod") or session.reason_of("default/pod"))
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Self

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import Pod
from pyscheduler.scheduler.assembly import build
from pyscheduler_lab.simulation.decisions.node_agents import NodeAgents
from pyscheduler_lab.simulation.decisions.typed_client import TypedTransport
from pyscheduler_lab.simulation.decisions.typed_cluster import TypedCluster
from pyscheduler_lab.simulation.scheduler_process import SchedulerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from pyscheduler.api import KubeObject
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.scheduler.assembly import Settings
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler_lab.simulation.decisions.typed_cluster import Binding

__all__ = ["Session"]


class Session:
    """A running scheduler; use it as an async context manager. Raises `ConfigError` for a profile that is not usable.

    The same `seed` gives the same decisions. With `runs_pods`, bound pods become Running, and evicted pods are gone at
    once; without it, they stay bound, or terminating.
    """

    def __init__(
        self,
        config: Configuration,
        *,
        registry: Registry | None = None,
        settings: Settings | None = None,
        recorder: Recorder | None = None,
        seed: int = 0,
        runs_pods: bool = False,
    ) -> None:
        rng = random.Random(f"session/{seed}")
        self.clock = VirtualClock()
        self.cluster = TypedCluster(clock=self.clock, rng=random.Random(rng.getrandbits(64)))

        def make() -> Scheduler:
            return build(
                config,
                TypedTransport(self.cluster),
                self.clock,
                random.Random(rng.getrandbits(64)),
                registry=registry,
                recorder=recorder,
                settings=settings,
            )

        self._process = SchedulerProcess(self.clock, make)
        #: The scheduler, for inspection by the caller.
        self.scheduler = self._process.build()
        self._agents = NodeAgents(self.cluster) if runs_pods else None

    async def __aenter__(self) -> Self:
        if self._agents is not None:
            self._agents.start()
        await self._process.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._agents is not None:
            self._agents.stop()
        await self._process.end()

    def add(self, *objects: dict[str, Any] | KubeObject) -> None:
        """Create objects, in order; raise `ConfigError` for one that cannot be read."""
        self.cluster.add(*objects)

    def remove(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object at once; raise `NotFoundError` if it does not exist."""
        self.cluster.remove(api_version, kind, name, namespace=namespace)

    async def settle(self) -> None:
        """Run the scheduler until nothing is left to do before time passes; raise the error that ended it."""
        await self.advance(0.0)

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass; raise the error that ended the scheduler."""
        await self.clock.advance(seconds)
        self._process.require()

    @property
    def bindings(self) -> Sequence[Binding]:
        """All bindings so far, in order."""
        return self.cluster.bindings

    def node_of(self, pod: str) -> str:
        """Return the node of a pod (`namespace/name`); "" if it has none, or does not exist."""
        namespace, _, name = pod.rpartition("/")
        found = self.cluster.get(Pod, name, namespace)
        return found.node_name if found is not None else ""

    def reason_of(self, pod: str) -> str:
        """Return why a pod (`namespace/name`) waits, as its condition says it; "" if it does not, or was not tried."""
        namespace, _, name = pod.rpartition("/")
        found = self.cluster.get(Pod, name, namespace)
        return self.cluster.reason_of(found) if found is not None else ""

    def reasons(self) -> Mapping[str, str]:
        """Return why pods wait, by key of the pod."""
        return {pod.key: why for pod in self.cluster.pods() if (why := self.cluster.reason_of(pod))}
