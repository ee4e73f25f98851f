"""The rules in which KAI differs from other batch systems, for the plugin `Batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from pyscheduler_batch.contract import GPU
from pyscheduler_batch.system import System
from pyscheduler_kai.backoff import held_back
from pyscheduler_kai.objects import JOBS, NODE_POOL_LABEL, QUEUE_LABEL, QUEUES, kai_last_start, without_succeeded
from pyscheduler_kai.preset import KAI
from pyscheduler_kai.reports import KaiReports
from pyscheduler_kai.topologies import KAI_TOPOLOGIES, levels_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import Pod, ResourceKind
    from pyscheduler.podgroup import GroupState
    from pyscheduler_batch.batch_args import BatchArgs, PolicyEntry
    from pyscheduler_batch.contract import JobSpec, Session
    from pyscheduler_batch.dialects import JobDialect
    from pyscheduler_batch.status.reports import Reports

__all__ = ["Kai"]


class Kai(System):
    """Queues in a tree with fair shares, nodes in pools, GPUs of claims, and jobs that a high priority protects."""

    preset = KAI
    actions: ClassVar[Mapping[str, str]] = {
        "allocate": "pyscheduler_kai.allocate:Allocate",
        "consolidation": "pyscheduler_kai.evictions:Consolidation",
        "reclaim": "pyscheduler_kai.evictions:Reclaim",
        "preempt": "pyscheduler_kai.evictions:Preempt",
        "stalegangeviction": "pyscheduler_kai.evictions:StaleGangEviction",
    }
    policies: ClassVar[Mapping[str, str]] = {
        "predicates": "pyscheduler_kai.switches:Predicates",
        "proportion": "pyscheduler_kai.proportion:Proportion",
        "priority": "pyscheduler_kai.orders:Priority",
        "elastic": "pyscheduler_kai.orders:Elastic",
        "kubeflow": "pyscheduler_kai.orders:Kubeflow",
        "ray": "pyscheduler_kai.orders:Ray",
        "nodeavailability": "pyscheduler_kai.switches:NodeAvailability",
        "gpusharingorder": "pyscheduler_kai.switches:GpuSharingOrder",
        "gpupack": "pyscheduler_kai.switches:GpuPack",
        "resourcetype": "pyscheduler_kai.switches:ResourceType",
        "subgrouporder": "pyscheduler_kai.switches:SubGroupOrder",
        "taskorder": "pyscheduler_kai.orders:TaskPriority",
        "nominatednode": "pyscheduler_kai.switches:NominatedNode",
        "dynamicresources": "pyscheduler_kai.switches:DynamicResources",
        "nodeplacement": "pyscheduler_kai.placement:NodePlacement",
        "minruntime": "pyscheduler_kai.min_runtime:MinRuntime",
        "topology": "pyscheduler_kai.topology:Topology",
        "snapshot": "pyscheduler_kai.switches:Snapshot",
        "sg-nodelocalgreedy": "pyscheduler_kai.switches:NodeLocalGreedy",
        "sg-multinodegang": "pyscheduler_kai.switches:MultiNodeGang",
        "gpuspread": "pyscheduler_kai.switches:GpuSpread",
        "podaffinity": "pyscheduler_kai.pod_affinity:PodAffinity",
        "reflectjoborder": "pyscheduler_kai.switches:ReflectJobOrder",
    }
    needed_policies: ClassVar[Sequence[str]] = ("proportion",)
    session: ClassVar[str] = "pyscheduler_kai.session:KaiSession"
    jobs, queues = JOBS, QUEUES
    read_by: ClassVar[Mapping[str, ResourceKind]] = {"topology": KAI_TOPOLOGIES}
    reports: ClassVar[Reports] = KaiReports()

    pod_event = "Unschedulable"
    inner_queues = False
    always_counted = (GPU,)
    has_pools = True
    has_queue_tree = True
    counts_claimed_gpus = True
    shares_gpus = True
    queue_label = QUEUE_LABEL
    node_pool_label = NODE_POOL_LABEL
    has_sub_group_tree = True
    counts_past_use = True
    pods_have_own_priority = False
    default_priority = 50
    protected_from = 100

    @classmethod
    def action_arguments(cls, args: BatchArgs, action: str) -> Mapping[str, str]:
        """Return the arguments of an action, with the settings of KAI's scheduler."""
        settings = {
            "maxConsolidationVictims": str(args.max_consolidation_victims),
            "consolidatingReclaim": str(args.consolidating_reclaim).lower(),
            "schedulingSignatures": str(args.scheduling_signatures).lower(),
            "defaultStalenessGracePeriod": str(args.staleness_grace),
            **args.search_budgets.arguments(action),
        }
        if action in args.queue_depth_per_action:
            settings["queueDepth"] = str(args.queue_depth_per_action[action])
        return {**settings, **args.action_arguments.get(action, {})}

    @classmethod
    def policy_arguments(cls, args: BatchArgs, entry: PolicyEntry) -> Mapping[str, str]:
        """Return the arguments of a policy, with the limit of the search where it proposes victims."""
        budgets = args.search_budgets
        if not budgets.limits(entry.name):
            return entry.arguments
        return {"maxSearchDuration": str(budgets.generator_seconds(entry.name)), **entry.arguments}

    @classmethod
    def waits_for_quota(cls, args: BatchArgs) -> bool:
        """Return False: KAI's queues divide what a namespace has."""
        return False

    @property
    def spreads_gpus(self) -> bool:
        """Return whether `gpuspread` is there without `gpupack`: their scores of devices cancel each other out."""
        return self.args.policy("gpuspread") is not None and self.args.policy("gpupack") is None

    def prepare(self, session: Session) -> None:
        """Give a session the levels of the topologies."""
        session.topologies = {item.name: levels_of(item) for item in self.reading(KAI_TOPOLOGIES)}

    def queue_of(self, pod: Pod) -> str:
        """Return the queue in the label that the configuration names."""
        return pod.labels.get(self.queue_label_of(self.args), "")

    def completed(
        self, spec: JobSpec, pods: Sequence[Pod], row: JobDialect | None = None, state: GroupState | None = None
    ) -> JobSpec:
        """Return a description with the last start of the job, and without sub-groups that have succeeded."""
        last_start = kai_last_start(spec.last_start, pods)
        if last_start != spec.last_start:
            spec = attrs.evolve(spec, last_start=last_start)
        if row is None or state is None or not state.succeeded:
            return spec
        living = [pod for pod in pods if pod.uid not in state.succeeded]
        return self.without_succeeded(spec, map(row.sub_group, living), map(row.sub_group, state.succeeded.values()))

    @classmethod
    def without_succeeded(cls, spec: JobSpec, living: Iterable[str], succeeded: Iterable[str]) -> JobSpec:
        """Return a description whose minimums count pods that succeeded once the others are too few."""
        return without_succeeded(spec, living, succeeded)

    def held_back(self, spec: JobSpec) -> str:
        """Return why the pool does not try a group again that it tried once, or ""."""
        return held_back(spec, self.pool.shown_name)
