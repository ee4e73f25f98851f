"""The presets: what each system runs without a configuration, and the names that its configuration knows.

Sources: KAI-Scheduler `pkg/scheduler/conf_util/scheduler_conf_util.go` and `pkg/apis/kai/v1/schedulingshard_types.go`;
Volcano `pkg/scheduler/util.go`, `pkg/scheduler/conf/scheduler_conf.go` and its plugins; kube-batch
`pkg/scheduler/util.go` and its plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KAI", "KUBE_BATCH", "PRESETS", "VOLCANO", "Preset"]

#: Stands for any text in the name of an argument.
_ANY: Final = "*"


@attrs.frozen(kw_only=True)
class Preset:
    """One system."""

    name: str
    #: The `schedulerName` of its pods.
    scheduler_name: str
    #: The actions and tiers without a configuration: `name`, or `name key=value ...` with arguments.
    actions: tuple[str, ...]
    tiers: tuple[tuple[str, ...], ...]
    #: The actions that it has, with the arguments that `configurations` may give.
    known_actions: Mapping[str, tuple[str, ...]]
    #: The policies that it has, with their arguments; `*` at the end of one stands for any text.
    known_policies: Mapping[str, tuple[str, ...]]
    #: The flags of a policy in a tier.
    flags: tuple[str, ...]
    #: By pattern of an argument: the kind of its value, as in `arguments.checked`. Others are any text.
    kinds: Mapping[str, str]
    #: The actions and policies of the system that do not exist here.
    missing: frozenset[str] = frozenset()

    @property
    def actions_here(self) -> list[str]:
        """Return the names of the actions that exist here."""
        return [name for name in self.known_actions if name not in self.missing]

    @property
    def policies_here(self) -> list[str]:
        """Return the names of the policies that exist here."""
        return [name for name in self.known_policies if name not in self.missing]

    def knows_argument(self, policy: str, argument: str) -> bool:
        """Return whether a policy of this preset has an argument."""
        known = self.known_policies.get(policy, ())
        return any(
            argument == each or (each.endswith(_ANY) and argument.startswith(each.removesuffix(_ANY))) for each in known
        )


_FLAGS: Final = (
    "enableJobOrder",
    "enableJobReady",
    "enableJobPipelined",
    "enableTaskOrder",
    "enablePreemptable",
    "enableReclaimable",
    "enableQueueOrder",
    "enablePredicate",
    "enableNodeOrder",
)
_NODE_ORDER: Final = ("nodeaffinity.weight", "podaffinity.weight", "leastrequested.weight", "balancedresource.weight")

KAI: Final = Preset(
    name="kai",
    scheduler_name="kai-scheduler",
    actions=("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"),
    tiers=(
        (
            "predicates",
            "proportion",
            "priority",
            "elastic",
            "kubeflow",
            "ray",
            "nodeavailability",
            "gpusharingorder",
            "gpupack",
            "resourcetype",
            "subgrouporder",
            "taskorder",
            "nominatednode",
            "dynamicresources",
            "nodeplacement cpu=binpack gpu=binpack",
            "minruntime",
            "topology",
            "snapshot",
            "sg-nodelocalgreedy",
            "sg-multinodegang",
        ),
    ),
    known_actions=dict.fromkeys(("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"), ()),
    known_policies={
        **dict.fromkeys(
            (
                "predicates",
                "priority",
                "elastic",
                "kubeflow",
                "ray",
                "nodeavailability",
                "gpusharingorder",
                "gpupack",
                "gpuspread",
                "resourcetype",
                "podaffinity",
                "subgrouporder",
                "taskorder",
                "nominatednode",
                "dynamicresources",
                "topology",
                "snapshot",
                "reflectjoborder",
                "sg-nodelocalgreedy",
                "sg-multinodegang",
            ),
            (),
        ),
        "proportion": ("kValue", "relcaimerSaturationMultiplier"),
        "minruntime": ("defaultPreemptMinRuntime", "defaultReclaimMinRuntime", "reclaimResolveMethod"),
        "nodeplacement": ("cpu", "gpu"),
    },
    flags=(
        "enableJobOrder",
        "enableTaskOrder",
        "enablePreemptable",
        "enableReclaimable",
        "enableQueueOrder",
        "enablePredicate",
        "enableNodeOrder",
    ),
    kinds={
        "kValue": "number 0.. nearest",
        "relcaimerSaturationMultiplier": "number 1..",
        "default*MinRuntime": "seconds",
        "reclaimResolveMethod": "lca|queue",
        "cpu": "binpack|spread",
        "gpu": "binpack|spread",
    },
)

_CACHED: Final = ("predicateErrorCacheEnable",)

VOLCANO: Final = Preset(
    name="volcano",
    scheduler_name="volcano",
    actions=("enqueue", "allocate", "backfill"),
    tiers=(
        ("priority", "gang", "conformance"),
        ("overcommit", "drf", "predicates", "proportion", "nodeorder"),
    ),
    known_actions={
        "enqueue": (),
        "allocate": _CACHED,
        "backfill": _CACHED,
        "preempt": (
            *_CACHED,
            "enableTopologyAwarePreemption",
            "topologyAwarePreemptWorkerNum",
            "minCandidateNodesPercentage",
            "minCandidateNodesAbsolute",
            "maxCandidateNodesAbsolute",
        ),
        "reclaim": _CACHED,
        "shuffle": (),
        "gangpreempt": ("maxDomains", "allowWholeBundle"),
        "gangreclaim": ("maxDomains", "allowWholeBundle"),
    },
    known_policies={
        **dict.fromkeys(("priority", "gang", "conformance", "drf", "proportion", "cdp", "pdb", "resourcequota"), ()),
        "overcommit": ("overcommit-factor",),
        "predicates": (
            "predicate.*",
            "volumebinding.bindTimeoutSeconds",
            "volumebinding.weight",
            "volumebinding.shape",
            "dynamicresources.filterTimeoutSeconds",
        ),
        "nodeorder": (
            *_NODE_ORDER,
            "mostrequested.weight",
            "tainttoleration.weight",
            "imagelocality.weight",
            "podtopologyspread.weight",
        ),
        "binpack": ("binpack.weight", "binpack.cpu", "binpack.memory", "binpack.resources", "binpack.resources.*"),
        "capacity": (
            "ancestorReclaimLevel",
            "capacity.DynamicResourceAllocationEnable",
            "capacity.DRAConsumableCapacityEnable",
        ),
        "sla": ("sla-waiting-time",),
        "deviceshare": ("deviceshare.*",),
        "resource-strategy-fit": ("resourceStrategyFitWeight", "resources", "sra", "sra.*", "proportional"),
        "tdm": ("tdm.*",),
        "task-topology": ("task-topology.weight",),
        "numa-aware": ("weight",),
        "rescheduling": ("interval", "metricsPeriod", "strategies"),
        "usage": ("usage.weight", "cpu.weight", "memory.weight", "thresholds", "estimator"),
        "nodegroup": ("strict", "enablePreferredOrder", "enableHierarchy"),
        "network-topology-aware": ("weight", "hypernode.*"),
        "extender": ("extender.*",),
    },
    flags=(
        *_FLAGS,
        "enableHierarchy",
        "enablePreemptive",
        "enableBestNode",
        "enableTargetJob",
        "enableReservedNodes",
        "enableJobEnqueued",
        "enableJobStarving",
        "enabledClusterOrder",
        "enabledVictim",
        "enabledOverused",
        "enabledAllocatable",
        "enabledHyperNodeOrder",
        "enabledHyperNodeGradient",
        "enabledSubJobReady",
        "enabledSubJobPipelined",
        "enabledSubJobOrder",
    ),
    kinds={
        # A negative weight prefers empty nodes.
        "binpack.weight": "integer",
        "*.weight": "integer 0..",
        "weight": "integer 0..",
        "*binpack.cpu": "integer 0..",
        "*binpack.memory": "integer 0..",
        "*binpack.resources.*": "integer 0..",
        "hypernode.binpack.normal-pod.fading": "number 0..",
        "ancestorReclaimLevel": "integer 0..",
        "overcommit-factor": "number 1..",
        "sla-waiting-time": "duration",
        "predicate.*": "boolean",
        "capacity.*": "boolean",
        "volumebinding.bindTimeoutSeconds": "integer 0..",
        "dynamicresources.filterTimeoutSeconds": "integer 0..",
        "predicateErrorCacheEnable": "boolean",
        "enableTopologyAwarePreemption": "boolean",
        "topologyAwarePreemptWorkerNum": "integer",
        "minCandidateNodesPercentage": "integer 0..100 nearest",
        "m*CandidateNodesAbsolute": "integer 0.. nearest",
    },
    missing=frozenset(
        {
            "shuffle",
            "gangpreempt",
            "gangreclaim",
            "cdp",
            "pdb",
            "deviceshare",
            "resource-strategy-fit",
            "tdm",
            "task-topology",
            "numa-aware",
            "rescheduling",
            "usage",
            "nodegroup",
            "extender",
        }
    ),
)

KUBE_BATCH: Final = Preset(
    name="kube-batch",
    scheduler_name="kube-batch",
    actions=("allocate", "backfill"),
    tiers=(("priority", "gang"), ("drf", "predicates", "proportion", "nodeorder")),
    known_actions=dict.fromkeys(("allocate", "backfill", "preempt", "reclaim"), ()),
    known_policies={
        **dict.fromkeys(("priority", "gang", "conformance", "drf", "proportion"), ()),
        "predicates": (
            "predicate.MemoryPressureEnable",
            "predicate.DiskPressureEnable",
            "predicate.PIDPressureEnable",
        ),
        "nodeorder": _NODE_ORDER,
    },
    flags=_FLAGS,
    kinds={"*.weight": "integer 0..", "predicate.*": "boolean"},
)

PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in (KAI, VOLCANO, KUBE_BATCH)}
"""All presets by name."""
