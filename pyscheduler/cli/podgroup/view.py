"""Format groups for `kubectl podgroup`: as a table, a description, JSON or YAML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kube_objects.durations import format_duration
from kube_testserver.printing.columns import NONE, UNKNOWN, age, human_duration
from pyscheduler.cli.terminal import printable_cells
from pyscheduler.podgroup.wire import GroupObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.cli.podgroup.reader import CoreEvent
    from pyscheduler.cli.podgroup.summary import Member, Summary

__all__ = ["Table", "data_of", "described", "indented", "list_of", "padded", "row"]

#: Minimum width of a column, and the space between two columns; kubectl's.
_LEAST: Final = 3
_GAP: Final = 3
#: Longer reasons are cut in the narrow table, and their common beginning is omitted.
_REASON: Final = 100
_BEGINNING: Final = re.compile(r"^\d+/\d+ nodes are available: ")

_COLUMNS: Final = ("NAME", "DIALECT", "PHASE", "MIN", "BOUND", "WAITING", "PENDING", "AGE")
#: Further columns of the wide table, before and after those of facts.
_WIDE: Final = ("TOTAL", "RUNNING", "SUCCEEDED", "FAILED", "MODE")
_LAST: Final = ("DECLARED-BY", "GANG-GROUP")


class Table:
    """Aligned columns over several outputs: a column never becomes narrower. The last column is not padded.

    `facts` are the headings of facts, which the wide table shows.
    """

    def __init__(
        self, *, wide: bool = False, namespaced: bool = False, headers: bool = True, facts: Iterable[str] = ()
    ) -> None:
        self.wide = wide
        self.namespaced = namespaced
        first = ("NAMESPACE",) if namespaced else ()
        more = (*_WIDE, *(heading.upper() for heading in facts), *_LAST) if wide else ()
        self._header: Sequence[str] | None = (*first, *_COLUMNS, *more, "REASON")
        self._widths = [_LEAST] * len(self._header)
        if not headers:
            self._header = None

    def lines(self, rows: Iterable[Sequence[str]]) -> list[str]:
        """Return the rows as lines, with the header on the first call."""
        cells: list[Sequence[str]] = [*printable_cells(rows)]
        if not cells:
            return []
        if self._header is not None:
            cells.insert(0, self._header)
            self._header = None
        for each in cells:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, each, strict=True)]
        return [padded(each, self._widths) for each in cells]


def padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return the cells as a line; `widths` are those of all cells but the last."""
    *first, last = cells
    text = "".join(cell.ljust(width + _GAP) for cell, width in zip(first, widths, strict=False))
    return (text + last).rstrip()


def row(summary: Summary, now: float, *, wide: bool, namespaced: bool) -> tuple[str, ...]:
    """Return a group's cells; `now` is wall time."""
    state, group = summary.state, summary.state.group
    cells = [
        group.id.name,
        group.dialect,
        summary.phase,
        UNKNOWN if summary.is_unread else str(group.min) if group.is_declared and group.is_gang else NONE,
        str(summary.bound),
        str(summary.waiting),
        str(summary.pending),
        _age(summary, now),
    ]
    reason = " ".join(summary.reason.split())
    if wide:
        cells += [
            UNKNOWN if summary.is_unread else str(group.total) if group.is_declared and group.is_gang else NONE,
            str(len(state.running)),
            str(len(state.succeeded)),
            str(len(state.failed)),
            str(group.mode),
            *(fact.cell or NONE for fact in summary.facts.values()),
            _declared_by(summary),
            group.gang_group_id if len(group.gang_group) > 1 else NONE,
        ]
    else:
        reason = _BEGINNING.sub("", reason)
        if len(reason) > _REASON:
            reason = f"{reason[: _REASON - 3]}..."
    return (*((group.id.namespace,) if namespaced else ()), *cells, reason)


def _age(summary: Summary, now: float) -> str:
    created = summary.state.group.created
    return human_duration(now - created) if created else UNKNOWN


def _declared_by(summary: Summary) -> str:
    item, group = summary.state.object, summary.state.group
    if item is not None:
        return f"{item.kind}.{item.api_version}"
    return UNKNOWN if summary.is_unread else "its pods" if group.is_declared else "nobody"


# --- json and yaml ---------------------------------------------------------------------------------


def data_of(summary: Summary) -> dict[str, Any]:
    """Return a group as data, in one form for all dialects."""
    state, group = summary.state, summary.state.group
    item = state.object
    metadata: dict[str, Any] = {"namespace": group.id.namespace, "name": group.id.name}
    if item is not None:
        metadata |= {"uid": item.uid, "creationTimestamp": item.metadata.creation_timestamp}
        metadata |= {name: dict(value) for name in ("labels", "annotations") if (value := getattr(item, name))}
    spec: dict[str, Any] = {
        "minMember": group.min if group.is_declared else None,
        "totalMember": group.total if group.is_declared else None,
        "minResources": dict(group.min_resources),
        "waitSeconds": group.wait_seconds,
        "mode": str(group.mode),
        "matchPolicy": str(group.policy) if group.policy is not None else None,
        "gangGroup": list(group.gang_group),
        "isGang": group.is_gang,
    }
    status: dict[str, Any] = {
        "phase": summary.phase,
        "phaseFrom": "object" if summary.phase_is_written else "members",
        "bound": summary.bound,
        "waiting": summary.waiting,
        "pending": summary.pending,
        "gated": len(state.gated),
        "running": len(state.running),
        "succeeded": len(state.succeeded),
        "failed": len(state.failed),
        "reason": summary.reason,
    }
    for fact in summary.facts.values():
        status |= fact.data
    if summary.sub_groups:
        status["subGroups"] = [
            {"name": name, "withNode": placed, "needed": needed} for name, placed, needed in summary.sub_groups
        ]
    if isinstance(item, GroupObject) and item.status.occupied_by:
        status["occupiedBy"] = item.status.occupied_by
    return {
        "apiVersion": "pyscheduler.io/v1",
        "kind": "PodGroupSummary",
        "metadata": metadata,
        "dialect": group.dialect,
        "declaredBy": {"apiVersion": item.api_version, "kind": item.kind} if item is not None else None,
        "spec": spec,
        "status": status,
        "members": [_member_data(member) for member in summary.members],
        "problems": [str(problem) for problem in group.problems],
        "disagreements": list(group.disagreements),
    }


def _member_data(member: Member) -> dict[str, Any]:
    pod = member.pod
    return {
        "name": pod.name,
        "uid": pod.uid,
        "state": member.state,
        "node": "" if member.intended else member.node,
        "nominatedNode": member.node if member.intended else "",
        "schedulerName": pod.scheduler_name,
        "message": member.message,
    }


def list_of(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return several groups as one List object, as kubectl does."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items), "metadata": {"resourceVersion": ""}}


# --- describe --------------------------------------------------------------------------------------


def described(summary: Summary, events: Iterable[CoreEvent], now: float) -> list[str]:
    """Return the description of a group as lines; `events` are the namespace's events about PodGroups."""
    state, group = summary.state, summary.state.group
    fields = [
        ("Name", group.id.name),
        ("Namespace", group.id.namespace),
        ("Dialect", f"{group.dialect} ({summary.dialect.system})"),
        ("Plugin", f"{summary.dialect.claimed_by} (by default)"),
        ("Declared by", _declared_by(summary)),
        ("Age", _age(summary, now)),
        ("Phase", summary.phase + ("" if summary.phase_is_written else " (by its members)")),
        ("Minimum", str(group.min) if group.is_declared else UNKNOWN if summary.is_unread else NONE),
        ("Total", str(group.total) if group.is_declared else UNKNOWN if summary.is_unread else NONE),
        ("Mode", str(group.mode)),
        ("Match policy", str(group.policy) if group.policy is not None else NONE),
        ("Wait time", format_duration(group.wait_seconds) if group.wait_seconds is not None else NONE),
        ("Min resources", ", ".join(f"{name}={value}" for name, value in group.min_resources.items()) or NONE),
        *((heading, fact.line or NONE) for heading, fact in summary.facts.items()),
        ("Gang group", ", ".join(group.gang_group) if len(group.gang_group) > 1 else NONE),
        *([("Sub-groups", _sub_groups(summary))] if summary.sub_groups else []),
        ("Pods", _counts(summary)),
        ("Reason", " ".join(summary.reason.split()) or NONE),
        *(("Problem", text) for text in (*map(str, group.problems), *group.disagreements)),
    ]
    width = max(len(name) for name, _ in fields) + 3
    lines = [f"{name}:".ljust(width) + value for name, value in fields]
    lines += _members(summary, now)
    item = state.object
    mine = [event for event in events if item is not None and event.involved_object.uid == item.uid]
    return lines + _events(mine, now)


def _sub_groups(summary: Summary) -> str:
    """Return how many members of each sub-group have a node, and how many it needs."""
    return ", ".join(f"{name} {placed}/{needed}" for name, placed, needed in summary.sub_groups)


def _counts(summary: Summary) -> str:
    state = summary.state
    counts = {
        "bound": summary.bound,
        "waiting": summary.waiting,
        "pending": summary.pending,
        "succeeded": len(state.succeeded),
        "failed": len(state.failed),
    }
    running = f" ({len(state.running)} running)" if state.running else ""
    return " / ".join(f"{number} {name}{running if name == 'bound' else ''}" for name, number in counts.items())


def _members(summary: Summary, now: float) -> list[str]:
    if not summary.members:
        return ["Members:  <none>"]
    cells = [("Name", "State", "Node", "Age", "Scheduler", "Message")]
    cells += [
        (
            member.pod.name,
            member.state,
            f"({member.node})" if member.intended else member.node or NONE,
            age(created, now) if (created := member.pod.metadata.creation_timestamp) else UNKNOWN,
            member.pod.scheduler_name,
            " ".join(member.message.split()),
        )
        for member in summary.members
    ]
    return ["Members:", *indented(cells)]


def _events(events: Sequence[CoreEvent], now: float) -> list[str]:
    if not events:
        return ["Events:  <none>"]
    cells = [("Type", "Reason", "Age", "From", "Message")]
    cells += [
        (
            event.type,
            event.reason,
            _event_age(event, now),
            event.source.component or event.reporting_component,
            " ".join(event.message.split()),
        )
        for event in events
    ]
    return ["Events:", *indented(cells)]


def _event_age(event: CoreEvent, now: float) -> str:
    last = age(event.last_seen, now) if event.last_seen else UNKNOWN
    first = age(event.first_seen, now) if event.first_seen else UNKNOWN
    return f"{last} (x{event.count} over {first})" if event.count > 1 else last


def indented(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return a table under an underlined heading, as in `kubectl describe`."""
    header, *rest = cells
    lines = [header, tuple("-" * len(name) for name in header), *printable_cells(rest)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return ["  " + padded(line, [width - 1 for width in widths]) for line in lines]
