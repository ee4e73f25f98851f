"""For tests: create queues, pod groups and pods of KAI, Volcano or kube-batch, and start a scheduler for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod, ResourceKind
from pyscheduler_batch.dialects import JOB_DIALECTS, QUEUE_DIALECTS

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster, FakeFramework

__all__ = ["PROFILE", "BatchCluster", "gpus", "kai", "kube_batch", "volcano"]

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: pyscheduler
"""
PROFILE = """
- schedulerName: %s
  plugins: {multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: Batch, args: %s}]
"""
KEYS = {
    "kai": "pod-group-name",
    "volcano": "scheduling.k8s.io/group-name",
    "kube-batch": "scheduling.k8s.io/group-name",
}
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def gpus(quota: Any, limit: Any = -1, weight: Any = 1) -> dict[str, Any]:
    """Return the resources of a queue of KAI that bound GPUs only."""
    return {"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight}}


class BatchCluster:
    """The queues, groups and pods of one system, and their statuses."""

    def __init__(self, cluster: FakeCluster, preset: str) -> None:
        self.cluster = cluster
        self.preset = preset
        self.group_kind: ResourceKind = next(row for row in JOB_DIALECTS if row.name == preset).groups.kinds[0]
        self.queue_kind: ResourceKind = next(row for row in QUEUE_DIALECTS if row.name == preset).kinds[0]
        cluster.watch_plugins = False  # a pass of many jobs may take 100 ms on a busy machine
        cluster.serve(self.group_kind)
        cluster.serve(self.queue_kind)
        self.scheduler: FakeFramework | None = None

    async def start(
        self,
        args: str = "",
        *,
        profiles: tuple[str, ...] = ("batch",),
        before: str = "",
        plugins: str = "",
        **keywords: Any,
    ) -> FakeFramework:
        """Start a scheduler with batch profiles; `args` are further args of `Batch`, `before` is another profile.

        `plugins` are further plugins, such as `, {name: Mine}`; `keywords` are those of `FakeCluster.framework`.
        """
        given = f"{{preset: {self.preset}, {args}}}"
        config = CONFIG + before + "".join(PROFILE % (name, given) for name in profiles)
        config = config.replace("{name: Batch}]", f"{{name: Batch}}{plugins}]")
        self.scheduler = self.cluster.framework(config=config, **keywords)
        await self.scheduler.start()
        return self.scheduler

    async def pass_time(self, seconds: float = 3.0) -> None:
        """Let the scheduler work."""
        await self.cluster.clock.advance(seconds)

    def values(self, metric: str, *queues: str) -> dict[str, float]:
        """Return a metric of queues, by their names."""
        assert self.scheduler is not None
        return {name: self.scheduler.metric(metric, queue_name=name) for name in queues}

    def nodes(self, count: int, labels: dict[str, str] | None = None, **allocatable: str) -> None:
        """Add nodes."""
        amounts = {"memory": "64Gi", "pods": "110", **allocatable}
        for number in range(count):
            self.cluster.add_node(f"n{number}", allocatable=amounts, labels=labels or {})

    def labelled_queue(self, name: str, labels: dict[str, str]) -> None:
        """Create a queue with labels; in KAI it is unlimited."""
        self.queue(name)
        self.cluster.patch(self.queue_kind.type, name, {"metadata": {"labels": labels}}, namespace="")

    def labelled_group(self, name: str, queue: str, minimum: int, labels: dict[str, str]) -> None:
        """Create a group with labels."""
        self.group(name, queue, minimum)
        self.cluster.patch(self.group_kind.type, name, {"metadata": {"labels": labels}})

    def queue(self, name: str, **spec: Any) -> None:
        """Create a queue; in KAI it is unlimited unless `resources` are given."""
        if self.preset == "kai":
            spec.setdefault("resources", {"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": UNLIMITED})
        self._create(self.queue_kind, {"name": name}, spec)

    def group(self, name: str, queue: str, minimum: int, **spec: Any) -> None:
        """Create a group."""
        self._create(
            self.group_kind, {"name": name, "namespace": "default"}, {"minMember": minimum, "queue": queue, **spec}
        )

    def _create(self, kind: ResourceKind, metadata: dict[str, Any], spec: dict[str, Any]) -> None:
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        self.cluster.add(manifest, kind.type)

    def pods(self, group: str, count: int, *, start: int = 0, profile: str = "batch", **keywords: Any) -> None:
        """Create members, each with one CPU unless `requests` says otherwise."""
        keywords.setdefault("requests", {"cpu": "1"})
        for number in range(start, start + count):
            self.cluster.add_pod(
                f"{group}-{number}", annotations={KEYS[self.preset]: group}, scheduler_name=profile, **keywords
            )

    def job(self, name: str, queue: str, count: int, **keywords: Any) -> None:
        """Create a group with its pods; all of them are needed."""
        self.group(name, queue, count)
        self.pods(name, count, **keywords)

    def go(self, phase: str, *names: str) -> None:
        """Let pods run, or end."""
        for name in names:
            self.cluster.patch(Pod, name, {"status": {"phase": phase}}, status=True)

    def nodes_of(self, group: str) -> list[str | None]:
        """Return the nodes of a group's pods."""
        return [pod.node_name for pod in self.cluster.pods() if pod.name.startswith(f"{group}-")]

    def raw(self, kind: ResourceKind, name: str) -> dict[str, Any]:
        """Return an object as it is stored."""
        found = self.cluster.server.objects(kind.api_version, kind.kind)
        return next(each for each in found if each["metadata"]["name"] == name)

    def queue_status(self, name: str) -> dict[str, Any]:
        """Return the status of a queue as it is stored."""
        status: dict[str, Any] = self.raw(self.queue_kind, name).get("status") or {}
        return status

    def group_status(self, name: str) -> dict[str, Any]:
        """Return the status of a group as it is stored."""
        status: dict[str, Any] = self.raw(self.group_kind, name).get("status") or {}
        return status

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """Return a condition of a group."""
        return next(each for each in self.group_status(name)["conditions"] if each["type"] == kind)

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """Return type, reason and note of the events about an object."""
        found = (each for each in self.cluster.events() if each["regarding"]["name"] == name)
        return [(each["type"], each["reason"], each["note"]) for each in found]

    def patch_status(self, kind: ResourceKind, name: str, status: dict[str, Any]) -> None:
        """Write a status as another program."""
        namespace = "default" if kind.namespaced else ""
        self.cluster.patch(kind.type, name, {"status": status}, namespace=namespace, status=True)

    def writes(self, path: str, *, status: int = 0, times: int | None = None, **keywords: Any) -> Fault:
        """Count the patches of paths; with `status` they fail."""
        fault = Fault(method="PATCH", path=path, status=status, times=times, **keywords)
        self.cluster.server.faults._faults.insert(0, fault)  # noqa: SLF001 - before the faults that count the same paths
        return fault


@pytest.fixture
def kai(pyscheduler_cluster: FakeCluster) -> BatchCluster:
    """Return a cluster of KAI."""
    return BatchCluster(pyscheduler_cluster, "kai")


@pytest.fixture
def volcano(pyscheduler_cluster: FakeCluster) -> BatchCluster:
    """Return a cluster of Volcano."""
    return BatchCluster(pyscheduler_cluster, "volcano")


@pytest.fixture
def kube_batch(pyscheduler_cluster: FakeCluster) -> BatchCluster:
    """Return a cluster of kube-batch."""
    return BatchCluster(pyscheduler_cluster, "kube-batch")
