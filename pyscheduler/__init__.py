"""kube-scheduler's scheduling framework in Python.

The names for plugin authors are here, as in `from pyscheduler import FilterPlugin`. The packages are described in
`docs/explanation/architecture.md`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from pyscheduler.moved import FRAMEWORK_NAMES as _FRAMEWORK_NAMES, forward as _forward

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.api import Node as Node, Pod as Pod
    from pyscheduler.framework import *  # of these, `__all__` says which are public here

__all__ = [
    "AFTER_FAILURE",
    "CPU",
    "EPHEMERAL_STORAGE",
    "MAX_SCORE",
    "MAX_TOTAL_SCORE",
    "MEMORY",
    "MIN_SCORE",
    "PLUGIN_API",
    "PODS",
    "PODS_TO_ACTIVATE",
    "PREEMPTION_FINDINGS",
    "APIError",
    "ActionType",
    "AffinityTerm",
    "AfterFailure",
    "AlreadyExistsError",
    "BindPlugin",
    "Candidate",
    "Checkpoint",
    "Client",
    "Clock",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "ConfigError",
    "ConflictError",
    "CounterMetric",
    "CycleState",
    "Diagnosis",
    "EnqueueExtensions",
    "EventRecorder",
    "EventResource",
    "ExtensionPoint",
    "FeatureColumn",
    "FilterPlugin",
    "FitError",
    "ForbiddenError",
    "GaugeMetric",
    "GoneError",
    "GroupAssignments",
    "GroupCyclePlugin",
    "GroupInfo",
    "GroupOutcome",
    "GroupPlacement",
    "GroupVerdict",
    "Handle",
    "HistogramMetric",
    "HostPorts",
    "ImageColumn",
    "ImageState",
    "LabelColumn",
    "Lister",
    "LoopClock",
    "MemberTree",
    "MetricRecorder",
    "Node",
    "NodeInfo",
    "NodeScore",
    "NodeStatuses",
    "Nodes",
    "NominatingInfo",
    "Nominator",
    "NotFoundError",
    "PermitPlugin",
    "PlacedTerm",
    "PlacementGeneratePlugin",
    "PlacementLevels",
    "PlacementScorePlugin",
    "PlacementTable",
    "Plugin",
    "PluginError",
    "PluginFactory",
    "PluginMetrics",
    "PluginRegistry",
    "Pod",
    "PodInfo",
    "PodsToActivate",
    "PolicyRule",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreBindPreFlightResult",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "PreemptionFindings",
    "PreemptionRules",
    "Preemptor",
    "PySchedulerError",
    "QueueSortPlugin",
    "QueuedPodInfo",
    "QueueingHint",
    "QueueingHintFn",
    "ReservePlugin",
    "Resource",
    "Reuse",
    "ScorePlugin",
    "SignFragment",
    "SignPlugin",
    "Snapshot",
    "StateData",
    "StateKey",
    "StateNotFoundError",
    "Statement",
    "Status",
    "TaintColumn",
    "TermKind",
    "Timer",
    "TooManyRequestsError",
    "TransportError",
    "Trial",
    "TrialKind",
    "UnauthorizedError",
    "WaitVerdict",
    "WaitingIndex",
    "WaitingPod",
    "WeightedAffinityTerm",
    "WhatIf",
    "event_resource",
    "hookimpl",
]


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of `package`: `modules` gives the full name of the module that each name comes from."""

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # the next look-up does not come here
        return value

    return load


#: Most names come from `pyscheduler.framework`.
_MODULES = {**dict.fromkeys(__all__, "pyscheduler.framework"), "Node": "pyscheduler.api", "Pod": "pyscheduler.api"}
_MODULES |= dict.fromkeys(
    ("GROUP_CYCLE", "GroupCycle", "PREEMPTION_INQUIRY", "PreemptionInquiry", *_FRAMEWORK_NAMES), "pyscheduler.framework"
)
# Type checkers must not see it: they would accept every name.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_forward()
