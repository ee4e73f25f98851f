"""A scheduler on a fake cluster, with everything recorded that it measures and counts."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from pyscheduler.config.load import loads
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler.stories.book import StoryBook
from pyscheduler.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from pyscheduler import Plugin
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.testing import FakeCluster

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [%s]}}
"""


class Measured:
    """A scheduler on a fake cluster, with everything recorded."""

    def __init__(self, cluster: FakeCluster, *plugins: type[Plugin], config: str = CONFIG) -> None:
        self.cluster = cluster
        self.metrics = Metrics()
        self.stories = StoryBook(cluster.clock)
        registry = discover()
        for plugin in plugins:
            registry.add(plugin.name, plugin)
        enabled = ", ".join(f"{{name: {plugin.name}}}" for plugin in plugins)
        self.scheduler: Scheduler = build(
            loads(config % enabled, source="test"),
            cluster.transport(),
            cluster.clock,
            random.Random(1),
            registry=registry,
            recorder=self.metrics,
            settings=Settings(max_unschedulable_seconds=60.0, stories=self.stories),
        )

    async def start(self) -> asyncio.Task[None]:
        """List, watch and schedule."""
        starting = asyncio.create_task(self.scheduler.start())
        await self.cluster.clock.advance(0)
        await starting
        running = asyncio.create_task(self.scheduler.run())
        await self.cluster.clock.advance(0)
        return running

    def values(self, name: str, *, by: str) -> dict[str, float]:
        """Return the values of a family by one of its labels."""
        lines = [line for line in self.metrics.render()[0].decode().splitlines(keepends=True) if name in line]
        return {
            sample.labels.get(by, ""): sample.value
            for family in text_string_to_metric_families("".join(lines))
            for sample in family.samples
            if sample.name == name
        }

    async def stop(self) -> None:
        """End it."""
        await self.scheduler.stop()

    def warnings(self) -> dict[str, int]:
        """Return how often something was passed over, by kind."""
        return {kind: int(count) for kind, count in self.values("pyscheduler_warnings_total", by="kind").items()}
