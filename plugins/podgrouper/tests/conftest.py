"""Fixtures: a cluster with workloads, and a scheduler with `PodGrouper`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kube_testserver.serving.faults import Fault
from plugins.podgrouper.tests.workloads import Json, pod
from pyscheduler.api import Pod, ResourceKind
from pyscheduler.podgroup import GroupObject
from pyscheduler.testing import FakeCluster, FakeFramework
from pyscheduler_podgrouper.kinds import PODGROUPS

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: kai-scheduler
  plugins: {multiPoint: {enabled: [%s]}}
  pluginConfig: [{name: PodGrouper, args: %s}]
"""


class GrouperCluster:
    """The workloads, pods and groups of one cluster."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.scheduler: FakeFramework | None = None

    async def start(
        self,
        args: str = "{}",
        *,
        plugins: str = "{name: PodGrouper}",
        batch: bool = False,
        defined: bool = True,
        leads: bool = True,
    ) -> FakeFramework:
        """Start a scheduler.

        `batch`: its profile is a batch profile of KAI; `defined`: PodGroups are served; `leads`: it schedules.
        """
        if defined and not self.cluster.serves(PODGROUPS):
            self.serve(PODGROUPS)
        config = CONFIG % (plugins, args)
        if batch:
            config = config.replace("]}}", "], disabled: [{name: DefaultPreemption}]}}")
            config = config.replace("pluginConfig: [", "pluginConfig: [{name: Batch, args: {preset: kai}}, ")
        self.scheduler = self.cluster.framework(config=config)
        if leads:
            await self.scheduler.start()
        else:
            starting = asyncio.create_task(self.scheduler.scheduler.start())
            await self.pass_time(0)
            await starting
        return self.scheduler

    async def restart(self, args: str = "{}") -> None:
        """Stop the scheduler and start another one."""
        assert self.scheduler is not None
        await self.scheduler.close()
        await self.start(args)

    async def pass_time(self, seconds: float = 0.5) -> None:
        """Let the scheduler work."""
        await self.cluster.clock.advance(seconds)

    def serve(self, *kinds: ResourceKind) -> None:
        """Create the definitions of kinds."""
        for kind in kinds:
            self.cluster.serve(kind)

    def add(self, item: Json) -> Json:
        """Create an object; return it as it is stored."""
        stored: Json = self.cluster.server.add(dict(item))[0]
        return stored

    def pod(self, name: str, *owners: Json, **fields: Any) -> Json:
        """Create a pod; return it as it is stored."""
        manifest = pod(name, *owners, **fields)
        manifest["spec"].setdefault("containers", [{"name": "c", "image": "i"}])
        return self.add(manifest)

    def groups(self) -> dict[str, GroupObject]:
        """Return the pod groups by name."""
        found = self.cluster.objects(PODGROUPS.type)
        return {group.name: group for group in found if isinstance(group, GroupObject)}

    def membership(self, name: str) -> tuple[str | None, str | None]:
        """Return the group and the sub-group that a pod names."""
        found = self.cluster.pod(name, namespace="ml")
        return found.annotations.get("pod-group-name"), found.labels.get("kai.scheduler/subgroup-name")

    def warnings(self) -> list[str]:
        """Return the notes of the events about pods that are not grouped."""
        return [str(event["note"]) for event in self.cluster.events("PodGrouperWarning")]

    def fault(self, method: str, path: str, **keywords: Any) -> Fault:
        """Let requests go wrong from now on."""
        return self.cluster.server.faults.add(Fault(method=method, path=path, **keywords))

    def patch_pod(self, name: str, patch: Mapping[str, object]) -> None:
        """Change a pod."""
        self.cluster.patch(Pod, name, patch, namespace="ml")


@pytest.fixture
def grouper(pyscheduler_cluster: FakeCluster) -> GrouperCluster:
    """Return a cluster that serves KAI's pod groups."""
    return GrouperCluster(pyscheduler_cluster)
