"""One model of a pod group over all dialects, for every group plugin, ours and others'.

Belongs here: what a group is in each dialect (`dialects`, `declarations`, `wire`, `model`); its members and their
places (`directory`, `membership`); the order in which groups are tried (`sort_keys`); the status of a group
(`status`) and the controller that writes it (`controller`); periods in which a group must not be tried
(`expiry`); how many pods of a group need room (`room_needed`); and what all group plugins of a scheduler share
(`groups`, where to begin).
Does not belong here: the decision to schedule a group; any I/O.
"""

from __future__ import annotations

from pyscheduler.api.deprecation import deprecated_names
from pyscheduler.podgroup.controller import StatusController as StatusController, status_rules as status_rules
from pyscheduler.podgroup.deadlock import Deadlocks as Deadlocks
from pyscheduler.podgroup.deadlock_units import (
    DeadlockArgs as DeadlockArgs,
    DeadlockParty as DeadlockParty,
    UnitKey as UnitKey,
)
from pyscheduler.podgroup.dialects import (
    DIALECTS as DIALECTS,
    Dialect as Dialect,
    DialectTable as DialectTable,
    Key as Key,
    KeyPlace as KeyPlace,
    kinds_of as kinds_of,
    resolve as resolve,
)
from pyscheduler.podgroup.directory import (
    ChangeKind as ChangeKind,
    GroupChange as GroupChange,
    GroupDirectory as GroupDirectory,
)
from pyscheduler.podgroup.expiry import ExpiringMap as ExpiringMap
from pyscheduler.podgroup.fields import (
    NOTHING_SAID as NOTHING_SAID,
    GroupFields as GroupFields,
    MatchPolicy as MatchPolicy,
    Mode as Mode,
    Problem as Problem,
)
from pyscheduler.podgroup.groups import PodGroups as PodGroups
from pyscheduler.podgroup.identity import GroupId as GroupId
from pyscheduler.podgroup.membership import (
    GangGroup as GangGroup,
    GroupState as GroupState,
    MemberPlace as MemberPlace,
    created_at as created_at,
)
from pyscheduler.podgroup.model import Group as Group, Origin as Origin, merge as merge
from pyscheduler.podgroup.old_names import StatusStyle as _StatusStyle, next_status as _next_status
from pyscheduler.podgroup.room_needed import asks as asks, places_needed as places_needed
from pyscheduler.podgroup.sort_keys import (
    QueueOrder as QueueOrder,
    coscheduling_key as coscheduling_key,
    gang_key as gang_key,
)
from pyscheduler.podgroup.status import (
    ConditionStatus as ConditionStatus,
    CountsStatus as CountsStatus,
    DialectStatus as DialectStatus,
    KubeBatchStatus as KubeBatchStatus,
    MemberFacts as MemberFacts,
    Phase as Phase,
    PhaseStatus as PhaseStatus,
    coscheduling_phase as coscheduling_phase,
    is_overdue as is_overdue,
    is_unschedulable as is_unschedulable,
    koordinator_phase as koordinator_phase,
    ming_phase as ming_phase,
    occupied_by as occupied_by,
    scheduled_condition as scheduled_condition,
    status_patch as status_patch,
)
from pyscheduler.podgroup.wire import GroupObject as GroupObject, GroupStatus as GroupStatus

__all__ = [
    "DIALECTS",
    "NOTHING_SAID",
    "ChangeKind",
    "ConditionStatus",
    "CountsStatus",
    "DeadlockArgs",
    "DeadlockParty",
    "Deadlocks",
    "Dialect",
    "DialectStatus",
    "DialectTable",
    "ExpiringMap",
    "GangGroup",
    "Group",
    "GroupChange",
    "GroupDirectory",
    "GroupFields",
    "GroupId",
    "GroupObject",
    "GroupState",
    "GroupStatus",
    "Key",
    "KeyPlace",
    "KubeBatchStatus",
    "MatchPolicy",
    "MemberFacts",
    "MemberPlace",
    "Mode",
    "Origin",
    "Phase",
    "PhaseStatus",
    "PodGroups",
    "Problem",
    "QueueOrder",
    "StatusController",
    "UnitKey",
    "asks",
    "coscheduling_key",
    "coscheduling_phase",
    "created_at",
    "gang_key",
    "is_overdue",
    "is_unschedulable",
    "kinds_of",
    "koordinator_phase",
    "merge",
    "ming_phase",
    "occupied_by",
    "places_needed",
    "resolve",
    "scheduled_condition",
    "status_patch",
    "status_rules",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Place": ("MemberPlace", MemberPlace),
        "StatusStyle": ("a DialectStatus", _StatusStyle),
        "next_status": ("DialectStatus.next", _next_status),
    },
)
