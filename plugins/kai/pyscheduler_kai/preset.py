"""The preset `kai`: the actions and plugins of KAI-Scheduler, and which of them run by default.

Sources: KAI-Scheduler `pkg/scheduler/conf_util/scheduler_conf_util.go` and `pkg/apis/kai/v1/schedulingshard_types.go`.
"""

from __future__ import annotations

from typing import Final

from pyscheduler_batch.preset import Preset, Shard
from pyscheduler_kai.shard import actions_and_tiers, places_in_shard, shard_settings

__all__ = ["KAI"]

_SHARD: Final = Shard(
    kind="SchedulingShard",
    group="kai.scheduler",
    settings=shard_settings,
    actions_and_tiers=actions_and_tiers,
    places=places_in_shard,
)
#: One argument of `proportion`: KAI's own name, which is misspelt, and by which others it is known.
_MULTIPLIER: Final = "relcaimerSaturationMultiplier"
_SAID: Final = ("reclaimerSaturationMultiplier", "reclaimerUtilizationMultiplier")

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
    is_told_by_names=True,
    file_keys=("queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets", "shard"),
    aliases=dict.fromkeys(_SAID, _MULTIPLIER),
    shard=_SHARD,
)
