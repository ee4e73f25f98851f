"""The preset `volcano`: the default actions and plugins, and the names of all actions, plugins and arguments.

Source: Volcano `pkg/scheduler/util.go`, `pkg/scheduler/conf/scheduler_conf.go`.
"""

from __future__ import annotations

from typing import Final

from pyscheduler_batch.preset import Preset

__all__ = ["FLAGS", "NODE_ORDER", "VOLCANO"]

FLAGS: Final = (
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
"""The flags of a policy in a tier that kube-batch has, too."""

NODE_ORDER: Final = ("nodeaffinity.weight", "podaffinity.weight", "leastrequested.weight", "balancedresource.weight")
"""The arguments of `nodeorder` that kube-batch has, too."""

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
            *NODE_ORDER,
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
        *FLAGS,
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
    is_told_by_names=True,
    file_keys=("configurations", "metrics"),
    config_map_keys=("volcano-scheduler.conf", "volcano-scheduler-ci.conf"),
)
