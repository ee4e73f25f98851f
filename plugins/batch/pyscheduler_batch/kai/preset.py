"""The preset `kai`: its actions and policies, by name, as `module:Class`. Nothing is imported until it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ACTIONS", "DEFAULT_ACTIONS", "DEFAULT_TIERS", "NEEDED_POLICIES", "POLICIES", "SESSION"]

ACTIONS: Final[Mapping[str, str]] = {
    "allocate": "pyscheduler_batch.kai.allocate:Allocate",
    "consolidation": "pyscheduler_batch.kai.evictions:Consolidation",
    "reclaim": "pyscheduler_batch.kai.evictions:Reclaim",
    "preempt": "pyscheduler_batch.kai.evictions:Preempt",
    "stalegangeviction": "pyscheduler_batch.kai.evictions:StaleGangEviction",
}
#: In the order of the default file of KAI-Scheduler; the last three are not in it.
POLICIES: Final[Mapping[str, str]] = {
    "predicates": "pyscheduler_batch.kai.switches:Predicates",
    "proportion": "pyscheduler_batch.kai.proportion:Proportion",
    "priority": "pyscheduler_batch.kai.orders:Priority",
    "elastic": "pyscheduler_batch.kai.orders:Elastic",
    "kubeflow": "pyscheduler_batch.kai.orders:Kubeflow",
    "ray": "pyscheduler_batch.kai.orders:Ray",
    "nodeavailability": "pyscheduler_batch.kai.switches:NodeAvailability",
    "gpusharingorder": "pyscheduler_batch.kai.switches:GpuSharingOrder",
    "gpupack": "pyscheduler_batch.kai.switches:GpuPack",
    "resourcetype": "pyscheduler_batch.kai.switches:ResourceType",
    "subgrouporder": "pyscheduler_batch.kai.switches:SubGroupOrder",
    "taskorder": "pyscheduler_batch.kai.orders:TaskPriority",
    "nominatednode": "pyscheduler_batch.kai.switches:NominatedNode",
    "dynamicresources": "pyscheduler_batch.kai.switches:DynamicResources",
    "nodeplacement": "pyscheduler_batch.kai.placement:NodePlacement",
    "minruntime": "pyscheduler_batch.kai.min_runtime:MinRuntime",
    "topology": "pyscheduler_batch.kai.topology:Topology",
    "snapshot": "pyscheduler_batch.kai.switches:Snapshot",
    "sg-nodelocalgreedy": "pyscheduler_batch.kai.switches:NodeLocalGreedy",
    "sg-multinodegang": "pyscheduler_batch.kai.switches:MultiNodeGang",
    "gpuspread": "pyscheduler_batch.kai.switches:GpuSpread",
    "podaffinity": "pyscheduler_batch.kai.pod_affinity:PodAffinity",
    "reflectjoborder": "pyscheduler_batch.kai.switches:ReflectJobOrder",
}
#: Those without which the preset's actions cannot run.
NEEDED_POLICIES: Final[Sequence[str]] = ("proportion",)
SESSION: Final = "pyscheduler_batch.kai.session:KaiSession"
DEFAULT_ACTIONS: Final[Sequence[str]] = tuple(ACTIONS)
DEFAULT_TIERS: Final[Sequence[Sequence[str]]] = (tuple(POLICIES)[:-3],)
