"""Make KAI or Volcano queues for teams; each queue has a quota of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from kube_testserver.resources.open_definitions import open_definition
from pyscheduler_batch.dialects import QUEUE_DIALECTS
from pyscheduler_kai.objects import KAI_QUEUES
from pyscheduler_kai.topologies import KAI_TOPOLOGIES
from pyscheduler_volcano.hyper_nodes import HYPER_NODES
from pyscheduler_volcano.objects import ROOT_QUEUE, VOLCANO_QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler_lab.traces import Job

__all__ = ["QueuePlan", "Team", "batch_definitions", "kai_queues", "volcano_queues"]


@attrs.frozen(kw_only=True)
class Team:
    """A team, or a department of teams. `quota` is in GPUs; `parent` names the department."""

    name: str
    quota: int
    parent: str = ""


@attrs.frozen(kw_only=True)
class QueuePlan:
    """The queues of a replay: their objects, and the queue of each job."""

    #: Name of the dialect in which groups are written.
    dialect: str
    manifests: Sequence[dict[str, Any]]
    queue_of: Callable[[Job], str]


def batch_definitions() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of all kinds of queues and topologies.

    A scheduler asks for a missing kind every ten seconds, which is most of the work over months of virtual time.
    """
    queues = [kind for dialect in QUEUE_DIALECTS for kind in dialect.kinds]
    return [
        open_definition(kind.group, kind.kind, kind.plural, [kind.version], namespaced=kind.namespaced)
        for kind in (*queues, KAI_TOPOLOGIES, HYPER_NODES)
    ]


def kai_queues(teams: Iterable[Team]) -> list[dict[str, Any]]:
    """Return KAI's queues.

    GPUs beyond the quota are divided in proportion to the quotas. CPU and memory are not divided.
    """
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    found = []
    for team in teams:
        gpu = {"quota": team.quota, "limit": -1, "overQuotaWeight": team.quota}
        parent = {"parentQueue": team.parent} if team.parent else {}
        spec = {**parent, "resources": {"gpu": gpu, "cpu": unlimited, "memory": unlimited}}
        found.append(_queue(KAI_QUEUES.api_version, team.name, spec))
    return found


def volcano_queues(teams: Sequence[Team], jobs: Sequence[Job], *, is_tree: bool = False) -> list[dict[str, Any]]:
    """Return Volcano's queues; for a tree also its root, which Volcano's scheduler creates at its start.

    The quota is written in the form of each policy: as weight (proportion), as deserved amount (capacity), and as
    weight below the root of the hierarchy (drf). The deserved CPU and memory are what the jobs request per GPU on
    average: a queue that has more of either may reclaim although it has all its GPUs.
    """
    gpus = max(sum(job.gpu_count for job in jobs), 1)
    cpu = sum(job.cpu_milli * job.workers for job in jobs) / gpus
    memory = sum(job.memory_mib * job.workers for job in jobs) / gpus
    found = []
    for team in teams:
        deserved = {
            "cpu": f"{round(cpu * team.quota)}m",
            "memory": f"{round(memory * team.quota)}Mi",
            "nvidia.com/gpu": str(team.quota),
        }
        spec = {"weight": max(team.quota, 1), "deserved": deserved, "reclaimable": True}
        queue = _queue(VOLCANO_QUEUES.api_version, team.name, spec)
        queue["metadata"]["annotations"] = {
            "volcano.sh/hierarchy": f"root/{team.name}",
            "volcano.sh/hierarchy-weights": f"1/{max(team.quota, 1)}",
        }
        found.append(queue)
    if is_tree and all(team.name != ROOT_QUEUE for team in teams):
        found.append(_queue(VOLCANO_QUEUES.api_version, ROOT_QUEUE, {"weight": 1, "reclaimable": False}))
    return found


def _queue(api_version: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
