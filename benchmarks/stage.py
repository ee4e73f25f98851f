"""Create the objects of a benchmark, change some during a measurement, and undo the changes afterwards."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.plan import make_plan
from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.plan import Churn, Deletions, Plan
    from kube_testserver.access.users import User
    from kube_testserver.store import Record

__all__ = ["Stage"]

_CRDS: Final = Path(__file__).parents[1] / "configs" / "crds"


class Stage:
    """The cluster and what is done to it; made inside a running event loop."""

    def __init__(self, plan: Plan, *, tokens: Mapping[str, User] | None = None) -> None:
        self.plan = plan
        # Watches may lag behind by all that a round writes.
        limit = 20_000 + 8 * plan.measured_count
        self.cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1), history_limit=limit, tokens=tokens)
        self._tasks: list[asyncio.Task[None]] = []
        for name in plan.gangs.definitions if plan.gangs is not None else ():
            self.cluster.load((_CRDS / name).read_text())
        for manifests in (plan.surroundings(), plan.node_objects(), plan.initial_pods()):
            for manifest in manifests:
                self.cluster.add(manifest)
        #: The version of each pod that belongs here.
        self._initial = self._versions()

    @classmethod
    def of(
        cls,
        name: str,
        nodes: int,
        *,
        distinct: bool,
        measured: int | None,
        tokens: Mapping[str, User] | None = None,
    ) -> Stage:
        """Return the stage of a case at a size; with `tokens` only who brings one of them is let in."""
        return cls(make_plan(name, nodes, distinct=distinct, measured=measured), tokens=tokens)

    def fill(self) -> None:
        """Create the measured pods."""
        for manifest in self.plan.measured_pods():
            self.cluster.add(manifest)

    def begin(self) -> None:
        """Let begin what happens while it is measured."""
        self._tasks = [asyncio.create_task(self._churn(churn)) for churn in self.plan.churns]
        self._tasks += [asyncio.create_task(self._delete(deletions)) for deletions in self.plan.deletions]

    async def clear(self) -> None:
        """Restore what was there at the beginning."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._remove("events.k8s.io/v1", "Event")
        if self.plan.gangs is not None:
            self._remove(self.plan.gangs.api_version, "PodGroup")
        self._remove("v1", "Node", lambda record: record.name.startswith("churn-"))
        # A pod that was changed, if only in its status, begins anew.
        self._remove("v1", "Pod", lambda record: self._initial.get(record.key) != record.version)
        left = self._versions()
        if len(left) < len(self._initial):
            for manifest in self.plan.initial_pods():
                metadata = manifest["metadata"]
                if f"{metadata['namespace']}/{metadata['name']}" not in left:
                    self.cluster.add(manifest)
            self._initial = self._versions()

    def cpu_seconds(self) -> float:
        """Return the CPU time of this process so far."""
        return time.process_time()

    def _versions(self) -> dict[str, int]:
        pods = self.cluster.registry.collection(self.cluster.resource("v1", "Pod"))
        return {record.key: record.version for record in pods.page().records}

    def _remove(self, api_version: str, kind: str, condition: Callable[[Record], bool] = lambda _: True) -> None:
        collection = self.cluster.registry.collection(self.cluster.resource(api_version, kind))
        for record in collection.page().records:
            if condition(record):
                collection.remove(record)

    async def _churn(self, churn: Churn) -> None:
        number = 0
        while True:
            for manifest in churn.made(number):
                self.cluster.add(manifest)
            await asyncio.sleep(churn.interval_seconds)
            if churn.recreate:
                for manifest in churn.made(number):
                    metadata = manifest["metadata"]
                    self.cluster.remove(
                        manifest["apiVersion"],
                        manifest["kind"],
                        metadata["name"],
                        namespace=metadata.get("namespace", ""),
                    )
            number += 1

    async def _delete(self, deletions: Deletions) -> None:
        namespace = f"bench-{deletions.namespace}"
        pods = self.cluster.registry.collection(self.cluster.resource("v1", "Pod"))
        for record in pods.page(prefix=f"{namespace}/").records:
            self.cluster.remove("v1", "Pod", record.name, namespace=namespace)
            await asyncio.sleep(1 / deletions.per_second)
