"""A cluster whose scheduler gets every trouble that has an alert, and the repair of each.

The scheduler has a plugin that raises, is slow, blocks the loop or keeps memory, as a label of a pod says; and profiles
of batch systems, in which a job is evicted by another.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import yaml

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from pyscheduler.testing import node_manifest, pod_manifest
from tests.processes import PATIENCE_SECONDS

__all__ = ["PLUGIN", "Trial", "add_system", "compete", "configuration"]

CONFIGS: Final = Path(__file__).parents[2] / "configs"
#: Does what the label of a pod says; memory is held until another pod says so.
PLUGIN: Final = """
import time
from pyscheduler import FilterPlugin

held = []

class Faulty(FilterPlugin):
    def filter(self, state, pod, node):
        fault = pod.labels.get("fault", "")
        if fault == "raises":
            raise RuntimeError("as the test wants it")
        if fault == "slow":
            time.sleep(0.25)
        elif fault == "blocks":
            time.sleep(2)
        elif fault == "hoards":
            held.append(b"x" * (200 << 20))
        elif fault == "frees":
            held.clear()
        return None
"""
#: The group of the kinds of each system, and how its pods name their group.
_GROUPS: Final = {"kai": "scheduling.run.ai", "volcano": "scheduling.volcano.sh"}
_OTHER_GROUP: Final = "scheduling.incubator.k8s.io"
_KEYS: Final = {"kai": "pod-group-name"}
_OTHER_KEY: Final = "scheduling.k8s.io/group-name"
_VERSIONS: Final = {"kai": ("v2", "v2alpha2"), "volcano": ("v1beta1", "v1beta1")}
_OTHER_VERSIONS: Final = ("v1alpha1", "v1alpha1")


def configuration(*systems: str) -> str:
    """Return a configuration with a profile that has the plugin, and with the ready-made profiles of these systems."""
    profiles: list[Any] = [
        {"schedulerName": "pyscheduler", "plugins": {"multiPoint": {"enabled": [{"name": "Faulty"}]}}}
    ]
    for system in systems:
        profiles += yaml.safe_load((CONFIGS / f"batch-{system}.yaml").read_text(encoding="utf-8"))["profiles"]
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": -1},
            "leaderElection": {"leaseDuration": "5s", "renewDeadline": "4s", "retryPeriod": "1s"},
            "profiles": profiles,
        }
    )


def add_system(cluster: EmbeddedCluster, system: str) -> None:
    """Define the kinds of a system, and add its queue and a node for the jobs that compete."""
    group = _GROUPS.get(system, _OTHER_GROUP)
    for plural in ("queues", "podgroups"):
        cluster.load((CONFIGS / "crds" / f"{plural}.{group}.yaml").read_bytes())
    version, _ = _VERSIONS.get(system, _OTHER_VERSIONS)
    queue = {"apiVersion": f"{group}/{version}", "kind": "Queue"}
    if system == "kai":
        amounts = {name: {"quota": 10, "limit": -1, "overQuotaWeight": 1} for name in ("cpu", "gpu", "memory")}
        cluster.add({**queue, "metadata": {"name": "top"}, "spec": {"resources": amounts}})
        below = {"resources": amounts, "parentQueue": "top"}
        cluster.add({**queue, "metadata": {"name": "default-queue"}, "spec": below})
    else:
        cluster.add({**queue, "metadata": {"name": system}, "spec": {"weight": 1}})
    cluster.add(node_manifest(f"n-{system}", allocatable={"cpu": "2", "pods": "9"}, labels={"of": system}))


async def compete(cluster: EmbeddedCluster, system: str) -> None:
    """Let a job evict a pod of another one that has a lower priority."""
    _job(cluster, system, "low", 2)
    for number in range(2):
        await until(lambda name=f"{system}-low-{number}": phase(cluster, name) == "Running")  # type: ignore[misc]
    _job(cluster, system, "high", 1, priorityClassName="high")


def _job(cluster: EmbeddedCluster, system: str, name: str, count: int, **spec: Any) -> None:
    """Create a group that needs one pod, with its pods."""
    group = _GROUPS.get(system, _OTHER_GROUP)
    _, version = _VERSIONS.get(system, _OTHER_VERSIONS)
    queue = "default-queue" if system == "kai" else system
    name = f"{system}-{name}"
    metadata = {"name": name, "namespace": "default"}
    wanted = {"minMember": 1, "queue": queue, **spec}
    cluster.add({"apiVersion": f"{group}/{version}", "kind": "PodGroup", "metadata": metadata, "spec": wanted})
    for number in range(count):
        cluster.add(
            pod_manifest(
                f"{name}-{number}",
                requests={"cpu": "1"},
                annotations={_KEYS.get(system, _OTHER_KEY): name},
                scheduler_name=f"pyscheduler-{system}",
                node_selector={"of": system},
                spec={"priorityClassName": "high", "priority": 80} if spec else {},
            )
        )


def phase(cluster: EmbeddedCluster, name: str) -> str:
    """Return the phase of a pod."""
    found: str = cluster.get("v1", "Pod", name, namespace="default")["status"].get("phase", "")
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if holds():
                return
            await asyncio.sleep(0.1)


def pod(name: str, fault: str = "", **keywords: Any) -> dict[str, Any]:
    """Return a pod that makes the plugin fail in its way: once, because only one node is left for it."""
    keywords.setdefault("node_selector", {"of": "plugin"})
    return pod_manifest(name, labels={"fault": fault}, **keywords)


@attrs.define
class Trial:
    """A cluster whose scheduler, with the configuration in the file `config`, is hurt and mended."""

    cluster: EmbeddedCluster
    config: Path
    text: str

    def begin(self) -> None:
        """Write the configuration, and add nodes."""
        self.config.write_text(self.text)
        amounts = {"plugin": {"cpu": "1000", "pods": "1000", "nvidia.com/gpu": "8"}, "race": {"cpu": "1", "pods": "9"}}
        for name, allocatable in amounts.items():
            self.cluster.add(node_manifest(name, allocatable=allocatable, labels={"of": name}))

    async def hurt(self) -> None:
        """Cause everything that has an alert, except the end of the leader and a second one."""
        add = self.cluster.add
        self.cluster.faults.add(Fault(method="POST", path="/pods/refused[^/]*/binding$", status=403))
        add(*(pod(f"refused-{number}") for number in range(10)))
        add(pod("raises", "raises"), pod("hoards", "hoards"), pod("never", requests={"cpu": "10k"}))
        add(
            pod_manifest(
                "starves",
                scheduler_name="pyscheduler-kai",
                requests={"nvidia.com/gpu": "2"},
                labels={"kai.scheduler/queue": "default-queue"},
                node_selector={"no": "node"},
            )
        )
        self.config.write_text(self.text + "parallelism: 4\n")
        await self._race()
        add(pod("blocks", "blocks"))
        await until(lambda: phase(self.cluster, "blocks") == "Running")
        self.cluster.faults.add(Fault(method="GET", path="^/api/v1/nodes$", status=503))
        self.cluster.router.drop_watches(how="cut")

    async def _race(self) -> None:
        """Let another scheduler take the room of a pod while its binding is on the way; the kubelet refuses the pod."""
        binding = self.cluster.faults.add(Fault(method="POST", path="/pods/raced/binding$", delay_seconds=1))
        self.cluster.add(pod("raced", requests={"cpu": "1"}, node_selector={"of": "race"}))
        await until(lambda: binding.hits == 1)
        self.cluster.add(
            pod_manifest("theirs", requests={"cpu": "1"}, node_name="race", scheduler_name="default-scheduler")
        )
        await until(lambda: phase(self.cluster, "raced") == "Failed")

    async def flood(self) -> None:
        """Create pods twice as fast as the plugin lets them be scheduled, until cancelled."""
        for number in itertools.count():
            self.cluster.add(*(pod(f"slow-{number}-{each}", "slow") for each in range(8)))
            await asyncio.sleep(1)

    def mend(self) -> None:
        """Repair everything."""
        self.cluster.faults.clear()
        self.config.write_text(self.text)
        for each in self.cluster.pods():
            self.cluster.remove("v1", "Pod", each["metadata"]["name"], namespace="default")
        self.cluster.add(pod("frees", "frees"))
