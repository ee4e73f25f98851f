"""The HTTP pages about gangs: Koordinator's `GangSummary` with some more fields.

Durations are in nanoseconds, as in Go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import format_time
from pyscheduler.framework import NotFoundError
from pyscheduler.podgroup import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler_gang.gangs import Gangs
    from pyscheduler_gang.record import GangRecord

__all__ = ["PATHS", "add_routes", "summary"]

#: The first is Koordinator's path.
PATHS: Final = ("/apis/v1/plugins/Coscheduling", "/apis/v1/plugins/Gang")

_NANOSECONDS: Final = 10**9


def add_routes(gangs: Gangs, handle: Handle) -> None:
    """Serve the list of gangs and each gang."""

    def all_gangs(_query: Mapping[str, str]) -> object:
        return {record.id.key: summary(gangs, record) for record in sorted(gangs, key=lambda each: each.id)}

    def one_gang(query: Mapping[str, str]) -> object:
        key = f"{query['namespace']}/{query['name']}"
        record = gangs.named(key)
        if record is None:
            raise NotFoundError(f"cannot find gang {key}", status=404)
        return summary(gangs, record)

    for path in PATHS:
        handle.add_route(f"{path}/gangs", all_gangs)
        handle.add_route(f"{path}/gang/{{namespace}}/{{name}}", one_gang)


def summary(gangs: Gangs, record: GangRecord) -> dict[str, object]:
    """Return the page of a gang."""
    state = record.state
    group = state.group
    names = {pod.uid: pod.key for pod in state.children()}
    deadline = record.deadline
    return {
        "name": record.id.key,
        "waitTime": round(gangs.wait_seconds(record) * _NANOSECONDS),
        "createTime": format_time(group.created),
        "mode": str(group.mode),
        "gangMatchPolicy": str(gangs.policy(record)),
        "minRequiredNumber": group.min,
        "totalChildrenNum": group.total,
        "gangGroup": list(group.gang_group),
        "children": _keys(state.children()),
        "pendingChildren": _keys(state.pending.values()),
        "waitingForBindChildren": _keys(state.waiting.values()),
        "boundChildren": _keys(state.bound.values()),
        "onceResourceSatisfied": state.satisfied,
        "gangGroupInfo": {
            "gangGroupId": group.gang_group_id,
            "gangs": [each.id.key for each in gangs.group(record)],
            "onceResourceSatisfied": state.satisfied,
        },
        "gangFrom": _origin(gangs, record),
        "hasGangInit": group.is_declared,
        "scheduleCycle": record.schedule_cycle,
        "scheduleCycleValid": record.schedule_cycle_valid,
        "childrenScheduleRoundMap": {
            name: record.rounds.get(uid, 0) for uid, name in sorted(names.items(), key=lambda each: each[1])
        },
        "waitDeadline": None if deadline is None else format_time(gangs.clock.wall() + deadline - gangs.clock.now()),
        "timedOut": sorted(names[uid] for uid in record.timed_out if uid in names),
        "deadlockState": gangs.deadlocks.describe(state),
        "yieldCount": gangs.deadlocks.yield_count(state),
        "problems": [str(problem) for problem in group.problems] + list(group.disagreements),
    }


def _keys(pods: Iterable[Pod]) -> list[str]:
    return sorted(pod.key for pod in pods)


def _origin(gangs: Gangs, record: GangRecord) -> str:
    group = record.state.group
    if group.origin is Origin.NOBODY:
        # Nobody declares it yet: the dialect says what will.
        from_object = bool(gangs.groups.table.named(group.dialect).kinds)
    else:
        from_object = group.origin is Origin.OBJECT
    return "GangFromPodGroupCrd" if from_object else "GangFromPodAnnotation"
