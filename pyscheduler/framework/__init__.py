"""The interface between the scheduler and plugins: the classes that plugins inherit or use.

The package `runtime` has the code that runs plugins.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from kube_objects.clock import Clock as Clock, LoopClock as LoopClock, Timer as Timer
from pyscheduler.framework import trial as _trial
from pyscheduler.framework.affinity_terms import (
    AffinityTerm as AffinityTerm,
    PlacedTerm as PlacedTerm,
    TermKind as TermKind,
    WeightedAffinityTerm as WeightedAffinityTerm,
)
from pyscheduler.framework.cycle_state import (
    AFTER_FAILURE as AFTER_FAILURE,
    PODS_TO_ACTIVATE as PODS_TO_ACTIVATE,
    AfterFailure as AfterFailure,
    CycleState as CycleState,
    PodsToActivate as PodsToActivate,
    StateData as StateData,
    StateKey as StateKey,
    StateNotFoundError as StateNotFoundError,
)
from pyscheduler.framework.diagnosis import (
    Diagnosis as Diagnosis,
    FitError as FitError,
)
from pyscheduler.framework.errors import (
    AlreadyExistsError as AlreadyExistsError,
    APIError as APIError,
    ConfigError as ConfigError,
    ConflictError as ConflictError,
    ForbiddenError as ForbiddenError,
    GoneError as GoneError,
    NotFoundError as NotFoundError,
    PluginError as PluginError,
    PySchedulerError as PySchedulerError,
    TooManyRequestsError as TooManyRequestsError,
    TransportError as TransportError,
    UnauthorizedError as UnauthorizedError,
)
from pyscheduler.framework.events import (
    ActionType as ActionType,
    ClusterEvent as ClusterEvent,
    ClusterEventWithHint as ClusterEventWithHint,
    EventResource as EventResource,
    QueueingHint as QueueingHint,
    QueueingHintFn as QueueingHintFn,
)
from pyscheduler.framework.group_cycle import (
    GroupOutcome as GroupOutcome,
    GroupVerdict as GroupVerdict,
    MemberTree as MemberTree,
)
from pyscheduler.framework.group_placements import (
    GroupAssignments as GroupAssignments,
    GroupInfo as GroupInfo,
    GroupPlacement as GroupPlacement,
    PlacementLevels as PlacementLevels,
    PlacementTable as PlacementTable,
)
from pyscheduler.framework.handle import (
    Client as Client,
    EventRecorder as EventRecorder,
    Handle as Handle,
    Nominator as Nominator,
)
from pyscheduler.framework.hooks import (
    PLUGIN_API as PLUGIN_API,
    PluginFactory as PluginFactory,
    PluginRegistry as PluginRegistry,
    hookimpl as hookimpl,
)
from pyscheduler.framework.interfaces import (
    BindPlugin as BindPlugin,
    EnqueueExtensions as EnqueueExtensions,
    FilterPlugin as FilterPlugin,
    GroupCyclePlugin as GroupCyclePlugin,
    NodeScore as NodeScore,
    NominatingInfo as NominatingInfo,
    PermitPlugin as PermitPlugin,
    PlacementGeneratePlugin as PlacementGeneratePlugin,
    PlacementScorePlugin as PlacementScorePlugin,
    Plugin as Plugin,
    PostBindPlugin as PostBindPlugin,
    PostFilterPlugin as PostFilterPlugin,
    PostFilterResult as PostFilterResult,
    PreBindPlugin as PreBindPlugin,
    PreBindPreFlightResult as PreBindPreFlightResult,
    PreEnqueuePlugin as PreEnqueuePlugin,
    PreFilterPlugin as PreFilterPlugin,
    PreFilterResult as PreFilterResult,
    PreScorePlugin as PreScorePlugin,
    QueueSortPlugin as QueueSortPlugin,
    ReservePlugin as ReservePlugin,
    ScorePlugin as ScorePlugin,
    SignFragment as SignFragment,
    SignPlugin as SignPlugin,
)
from pyscheduler.framework.node_info import (
    HostPorts as HostPorts,
    ImageState as ImageState,
    NodeInfo as NodeInfo,
)
from pyscheduler.framework.node_statuses import NodeStatuses as NodeStatuses
from pyscheduler.framework.nodes import (
    FeatureColumn as FeatureColumn,
    ImageColumn as ImageColumn,
    LabelColumn as LabelColumn,
    Nodes as Nodes,
    TaintColumn as TaintColumn,
)
from pyscheduler.framework.plugin_metrics import (
    CounterMetric as CounterMetric,
    GaugeMetric as GaugeMetric,
    HistogramMetric as HistogramMetric,
    PluginMetrics as PluginMetrics,
)
from pyscheduler.framework.pod_info import PodInfo as PodInfo, QueuedPodInfo as QueuedPodInfo
from pyscheduler.framework.preemption import (
    PREEMPTION_FINDINGS as PREEMPTION_FINDINGS,
    Candidate as Candidate,
    PreemptionFindings as PreemptionFindings,
    PreemptionRules as PreemptionRules,
    Preemptor as Preemptor,
)
from pyscheduler.framework.profile import (
    ExtensionPoint as ExtensionPoint,
)
from pyscheduler.framework.recorder import MetricRecorder as MetricRecorder
from pyscheduler.framework.resource import (
    CPU as CPU,
    EPHEMERAL_STORAGE as EPHEMERAL_STORAGE,
    MEMORY as MEMORY,
    PODS as PODS,
    Resource as Resource,
)
from pyscheduler.framework.reuse import Reuse as Reuse
from pyscheduler.framework.snapshot import Checkpoint as Checkpoint, Snapshot as Snapshot
from pyscheduler.framework.statement import Statement as Statement
from pyscheduler.framework.status import (
    MAX_SCORE as MAX_SCORE,
    MAX_TOTAL_SCORE as MAX_TOTAL_SCORE,
    MIN_SCORE as MIN_SCORE,
    Code as Code,
    Status as Status,
)
from pyscheduler.framework.trial import Trial as Trial, TrialKind as TrialKind
from pyscheduler.framework.waiting import (
    WaitingIndex as WaitingIndex,
    WaitingPod as WaitingPod,
    WaitVerdict as WaitVerdict,
)
from pyscheduler.framework.watches import Lister as Lister, PolicyRule as PolicyRule, event_resource as event_resource
from pyscheduler.framework.what_if import WhatIf as WhatIf
from pyscheduler.moved import FRAMEWORK_NAMES as _FRAMEWORK_NAMES, moved_names as _moved_names

#: Replaced by `CycleState.trial`; for one version.
_REPLACED = {
    "GROUP_CYCLE": _trial.GROUP_CYCLE,
    "GroupCycle": Trial,
    "PREEMPTION_INQUIRY": _trial.PREEMPTION_INQUIRY,
    "PreemptionInquiry": _trial.PreemptionInquiry,
    "WHAT_IF": _trial.WHAT_IF,
}

_internal = _moved_names(__name__, _FRAMEWORK_NAMES)


def _old_name(name: str) -> object:
    if name not in _REPLACED:
        return _internal(name)
    text = f"{name} is replaced by the attribute `trial` of the cycle state; it is removed in 0.4"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return _REPLACED[name]


if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _old_name
