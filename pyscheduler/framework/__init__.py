"""The plugin contract: everything a plugin author imports, and nothing that runs a plugin.

Belongs here: a class per extension point, `Status` and `Code`, `CycleState`, `NodeInfo`, `PodInfo`, cluster events
and queueing hints, what a plugin may ask of its `Handle`, the profile types that `runtime` consumes, the clock.
Does not belong here: the runtime, the queue, the cache, any I/O. This package imports `api`, attrs and numpy only
(and pluggy's two markers, in `hooks`).
"""

from __future__ import annotations

from pyscheduler.framework.affinity_terms import (
    AffinityTerm as AffinityTerm,
)
from pyscheduler.framework.affinity_terms import (
    WeightedAffinityTerm as WeightedAffinityTerm,
)
from pyscheduler.framework.clock import (
    Clock as Clock,
)
from pyscheduler.framework.clock import (
    LoopClock as LoopClock,
)
from pyscheduler.framework.clock import (
    Timer as Timer,
)
from pyscheduler.framework.cycle_state import (
    PODS_TO_ACTIVATE as PODS_TO_ACTIVATE,
)
from pyscheduler.framework.cycle_state import (
    CycleState as CycleState,
)
from pyscheduler.framework.cycle_state import (
    PodsToActivate as PodsToActivate,
)
from pyscheduler.framework.cycle_state import (
    StateData as StateData,
)
from pyscheduler.framework.cycle_state import (
    StateKey as StateKey,
)
from pyscheduler.framework.cycle_state import (
    StateNotFoundError as StateNotFoundError,
)
from pyscheduler.framework.diagnosis import (
    NO_NODES_AVAILABLE as NO_NODES_AVAILABLE,
)
from pyscheduler.framework.diagnosis import (
    Diagnosis as Diagnosis,
)
from pyscheduler.framework.diagnosis import (
    FitError as FitError,
)
from pyscheduler.framework.diagnosis import (
    NoNodesError as NoNodesError,
)
from pyscheduler.framework.errors import (
    AlreadyExistsError as AlreadyExistsError,
)
from pyscheduler.framework.errors import (
    APIError as APIError,
)
from pyscheduler.framework.errors import (
    ConfigError as ConfigError,
)
from pyscheduler.framework.errors import (
    ConflictError as ConflictError,
)
from pyscheduler.framework.errors import (
    ForbiddenError as ForbiddenError,
)
from pyscheduler.framework.errors import (
    GoneError as GoneError,
)
from pyscheduler.framework.errors import (
    NotFoundError as NotFoundError,
)
from pyscheduler.framework.errors import (
    PluginError as PluginError,
)
from pyscheduler.framework.errors import (
    PySchedulerError as PySchedulerError,
)
from pyscheduler.framework.errors import (
    TooManyRequestsError as TooManyRequestsError,
)
from pyscheduler.framework.errors import (
    TransportError as TransportError,
)
from pyscheduler.framework.errors import (
    UnauthorizedError as UnauthorizedError,
)
from pyscheduler.framework.events import (
    ActionType as ActionType,
)
from pyscheduler.framework.events import (
    ClusterEvent as ClusterEvent,
)
from pyscheduler.framework.events import (
    ClusterEventWithHint as ClusterEventWithHint,
)
from pyscheduler.framework.events import (
    EventResource as EventResource,
)
from pyscheduler.framework.events import (
    QueueingHint as QueueingHint,
)
from pyscheduler.framework.events import (
    QueueingHintFn as QueueingHintFn,
)
from pyscheduler.framework.handle import (
    Client as Client,
)
from pyscheduler.framework.handle import (
    EventRecorder as EventRecorder,
)
from pyscheduler.framework.handle import (
    Handle as Handle,
)
from pyscheduler.framework.handle import (
    Nominator as Nominator,
)
from pyscheduler.framework.hooks import (
    ENTRY_POINT_GROUP as ENTRY_POINT_GROUP,
)
from pyscheduler.framework.hooks import (
    PluginRegistry as PluginRegistry,
)
from pyscheduler.framework.hooks import (
    hookimpl as hookimpl,
)
from pyscheduler.framework.hooks import (
    hookspec as hookspec,
)
from pyscheduler.framework.interfaces import (
    BindPlugin as BindPlugin,
)
from pyscheduler.framework.interfaces import (
    EnqueueExtensions as EnqueueExtensions,
)
from pyscheduler.framework.interfaces import (
    FilterPlugin as FilterPlugin,
)
from pyscheduler.framework.interfaces import (
    NodeScore as NodeScore,
)
from pyscheduler.framework.interfaces import (
    NominatingInfo as NominatingInfo,
)
from pyscheduler.framework.interfaces import (
    PermitPlugin as PermitPlugin,
)
from pyscheduler.framework.interfaces import (
    Plugin as Plugin,
)
from pyscheduler.framework.interfaces import (
    PostBindPlugin as PostBindPlugin,
)
from pyscheduler.framework.interfaces import (
    PostFilterPlugin as PostFilterPlugin,
)
from pyscheduler.framework.interfaces import (
    PostFilterResult as PostFilterResult,
)
from pyscheduler.framework.interfaces import (
    PreBindPlugin as PreBindPlugin,
)
from pyscheduler.framework.interfaces import (
    PreBindPreFlightResult as PreBindPreFlightResult,
)
from pyscheduler.framework.interfaces import (
    PreEnqueuePlugin as PreEnqueuePlugin,
)
from pyscheduler.framework.interfaces import (
    PreFilterPlugin as PreFilterPlugin,
)
from pyscheduler.framework.interfaces import (
    PreFilterResult as PreFilterResult,
)
from pyscheduler.framework.interfaces import (
    PreScorePlugin as PreScorePlugin,
)
from pyscheduler.framework.interfaces import (
    QueueSortPlugin as QueueSortPlugin,
)
from pyscheduler.framework.interfaces import (
    ReservePlugin as ReservePlugin,
)
from pyscheduler.framework.interfaces import (
    ScorePlugin as ScorePlugin,
)
from pyscheduler.framework.interfaces import (
    SignFragment as SignFragment,
)
from pyscheduler.framework.interfaces import (
    SignPlugin as SignPlugin,
)
from pyscheduler.framework.node_info import (
    HostPorts as HostPorts,
)
from pyscheduler.framework.node_info import (
    ImageState as ImageState,
)
from pyscheduler.framework.node_info import (
    NodeInfo as NodeInfo,
)
from pyscheduler.framework.node_info import (
    next_generation as next_generation,
)
from pyscheduler.framework.node_statuses import (
    NodeStatuses as NodeStatuses,
)
from pyscheduler.framework.nodes import (
    ImageColumn as ImageColumn,
)
from pyscheduler.framework.nodes import (
    LabelColumn as LabelColumn,
)
from pyscheduler.framework.nodes import (
    Nodes as Nodes,
)
from pyscheduler.framework.nodes import (
    TaintColumn as TaintColumn,
)
from pyscheduler.framework.pod_info import (
    PodInfo as PodInfo,
)
from pyscheduler.framework.pod_info import (
    QueuedPodInfo as QueuedPodInfo,
)
from pyscheduler.framework.profile import (
    EnabledPlugin as EnabledPlugin,
)
from pyscheduler.framework.profile import (
    ExtensionPoint as ExtensionPoint,
)
from pyscheduler.framework.profile import (
    PluginSet as PluginSet,
)
from pyscheduler.framework.profile import (
    ProfileSpec as ProfileSpec,
)
from pyscheduler.framework.recorder import (
    NullRecorder as NullRecorder,
)
from pyscheduler.framework.recorder import (
    Recorder as Recorder,
)
from pyscheduler.framework.resource import (
    CPU as CPU,
)
from pyscheduler.framework.resource import (
    EPHEMERAL_STORAGE as EPHEMERAL_STORAGE,
)
from pyscheduler.framework.resource import (
    MEMORY as MEMORY,
)
from pyscheduler.framework.resource import (
    PODS as PODS,
)
from pyscheduler.framework.resource import (
    Resource as Resource,
)
from pyscheduler.framework.snapshot import (
    Checkpoint as Checkpoint,
)
from pyscheduler.framework.snapshot import (
    Snapshot as Snapshot,
)
from pyscheduler.framework.status import (
    MAX_SCORE as MAX_SCORE,
)
from pyscheduler.framework.status import (
    MAX_TOTAL_SCORE as MAX_TOTAL_SCORE,
)
from pyscheduler.framework.status import (
    MIN_SCORE as MIN_SCORE,
)
from pyscheduler.framework.status import (
    Code as Code,
)
from pyscheduler.framework.status import (
    Status as Status,
)
from pyscheduler.framework.waiting import (
    WaitingPod as WaitingPod,
)
from pyscheduler.framework.waiting import (
    WaitVerdict as WaitVerdict,
)
from pyscheduler.framework.watches import (
    Lister as Lister,
)
from pyscheduler.framework.watches import (
    PolicyRule as PolicyRule,
)
from pyscheduler.framework.watches import (
    Watch as Watch,
)

__all__ = [
    "CPU",
    "ENTRY_POINT_GROUP",
    "EPHEMERAL_STORAGE",
    "MAX_SCORE",
    "MAX_TOTAL_SCORE",
    "MEMORY",
    "MIN_SCORE",
    "NO_NODES_AVAILABLE",
    "PODS",
    "PODS_TO_ACTIVATE",
    "APIError",
    "ActionType",
    "AffinityTerm",
    "AlreadyExistsError",
    "BindPlugin",
    "Checkpoint",
    "Client",
    "Clock",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "ConfigError",
    "ConflictError",
    "CycleState",
    "Diagnosis",
    "EnabledPlugin",
    "EnqueueExtensions",
    "EventRecorder",
    "EventResource",
    "ExtensionPoint",
    "FilterPlugin",
    "FitError",
    "ForbiddenError",
    "GoneError",
    "Handle",
    "HostPorts",
    "ImageColumn",
    "ImageState",
    "LabelColumn",
    "Lister",
    "LoopClock",
    "NoNodesError",
    "NodeInfo",
    "NodeScore",
    "NodeStatuses",
    "Nodes",
    "NominatingInfo",
    "Nominator",
    "NotFoundError",
    "NullRecorder",
    "PermitPlugin",
    "Plugin",
    "PluginError",
    "PluginRegistry",
    "PluginSet",
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
    "ProfileSpec",
    "PySchedulerError",
    "QueueSortPlugin",
    "QueuedPodInfo",
    "QueueingHint",
    "QueueingHintFn",
    "Recorder",
    "ReservePlugin",
    "Resource",
    "ScorePlugin",
    "SignFragment",
    "SignPlugin",
    "Snapshot",
    "StateData",
    "StateKey",
    "StateNotFoundError",
    "Status",
    "TaintColumn",
    "Timer",
    "TooManyRequestsError",
    "TransportError",
    "UnauthorizedError",
    "WaitVerdict",
    "WaitingPod",
    "Watch",
    "WeightedAffinityTerm",
    "hookimpl",
    "hookspec",
    "next_generation",
]
