"""Groups of pods that are scheduled together, as Koordinator, Volcano, KAI and other systems describe them.

Each of these systems has its own labels, annotations and objects for groups; this format is called a dialect. The
package reads all dialects into one model. The modules are:

- `groups`: the state that all group plugins of a scheduler share (begin here)
- `dialects`, `declarations`, `wire`, `model`: the settings of a group, and how each dialect writes them
- `directory`, `membership`: the members of a group and their states
- `sub_groups`: parts of a group that have minimums of their own
- `sort_keys`: the order in which pods of groups are scheduled
- `status`, `controller`: the status of a group, and the controller that writes it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.podgroup.controller import StatusController, status_rules
from pyscheduler.podgroup.dialects import DIALECTS, Dialect, DialectTable, Key, KeyPlace, kinds_of, resolve
from pyscheduler.podgroup.directory import ChangeKind, GroupChange, GroupDirectory
from pyscheduler.podgroup.expiry import ExpiringMap
from pyscheduler.podgroup.fields import NOTHING_SAID, GroupFields, MatchPolicy, Mode, Problem
from pyscheduler.podgroup.groups import PodGroups
from pyscheduler.podgroup.identity import GroupId
from pyscheduler.podgroup.membership import GroupState, MemberPlace, created_at
from pyscheduler.podgroup.model import Group, Origin
from pyscheduler.podgroup.old_names import old_name
from pyscheduler.podgroup.room_needed import asks, places_needed
from pyscheduler.podgroup.sort_keys import coscheduling_key, gang_key
from pyscheduler.podgroup.status import (
    CountsStatus,
    DialectStatus,
    MemberFacts,
    Phase,
    PhaseStatus,
    coscheduling_phase,
)
from pyscheduler.podgroup.sub_groups import SubGroup, SubGroups, SubGroupTree
from pyscheduler.podgroup.wire import GroupObject

__all__ = [
    "DIALECTS",
    "NOTHING_SAID",
    "ChangeKind",
    "CountsStatus",
    "Dialect",
    "DialectStatus",
    "DialectTable",
    "ExpiringMap",
    "Group",
    "GroupChange",
    "GroupDirectory",
    "GroupFields",
    "GroupId",
    "GroupObject",
    "GroupState",
    "Key",
    "KeyPlace",
    "MatchPolicy",
    "MemberFacts",
    "MemberPlace",
    "Mode",
    "Origin",
    "Phase",
    "PhaseStatus",
    "PodGroups",
    "Problem",
    "StatusController",
    "SubGroup",
    "SubGroupTree",
    "SubGroups",
    "asks",
    "coscheduling_key",
    "coscheduling_phase",
    "created_at",
    "gang_key",
    "kinds_of",
    "places_needed",
    "resolve",
    "status_rules",
]

if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = old_name
