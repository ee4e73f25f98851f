"""The preset `kube-batch`: its actions and plugins, and which of them are on by default.

Sources: kube-batch `pkg/scheduler/util.go` and its plugins.
"""

from __future__ import annotations

from typing import Final

from pyscheduler_batch.preset import Preset
from pyscheduler_volcano.preset import FLAGS, NODE_ORDER

__all__ = ["KUBE_BATCH"]

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
        "nodeorder": NODE_ORDER,
    },
    flags=FLAGS,
    kinds={"*.weight": "integer 0..", "predicate.*": "boolean"},
    shared_names='kube-batch and Volcano both have these names; kube-batch counts, write "preset: volcano" for Volcano',
)
