"""Rebuild stories (why pods waited) from the log lines of all replicas, in any order.

A new leader logs the reason of each waiting pod. A pod that the leader does not name was deleted or bound meanwhile.
"""

from __future__ import annotations

import math
import re
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import msgspec

from kube_objects.times import format_time, parse_time
from pyscheduler.api import DecodeError
from pyscheduler.stories.lines import CHANGED, CLOSED, LOGGER, NO_SCHEDULER, REPEATED, STORY
from pyscheduler.stories.record import DELETED, ENDS, Run, Story
from pyscheduler.stories.view import run_view, story_view

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pyscheduler.stories.view import StoryView

__all__ = ["History"]

T = TypeVar("T")

#: The reason of a row for the time in which no scheduler ran.
_NO_SCHEDULER: Final = "NoScheduler"
#: The reason of a pod that waited, and that the next leader does not name.
_NOT_SEEN: Final = "NotSeen"
_ABOUT_PODS: Final = (CHANGED, REPEATED, CLOSED)
_VALUE: Final = r'(?:"(?:[^"\\]|\\.)*"|[^\s"]+)'
#: A whole line of the text log, from its time to the end of the message.
_TEXT: Final = re.compile(
    rf"(\d{{4}}-\d\d-\d\dT[\d:.]+Z) info {LOGGER} ({'|'.join((*_ABOUT_PODS, NO_SCHEDULER))})"
    rf'((?: \w+={_VALUE})+ message="(?:[^"\\]|\\.)*")\s*$'
)
_FIELD: Final = re.compile(rf" (\w+)=({_VALUE})")
#: Where a line of the JSON log begins, if it follows the rest of a line that was cut.
_JSON: Final = re.compile(r'\{"ts":')

_Fields = dict[str, Any]


@attrs.define
class _Reason:
    """A run, and whether its count is only the least."""

    run: Run
    is_least: bool = True


@attrs.frozen(kw_only=True)
class _Change:
    """One line about a pod: its present reason, and what the line says about the reason before."""

    at: float
    pod: str
    uid: str
    profile: str
    first_seen: str
    #: When the pod was created; 0.0 if the line does not say.
    created: float
    queue: str
    #: How the line begins: whether the run has just begun, or was counted so far, or to its end.
    kind: str
    run: Run
    before: Run | None


@attrs.frozen
class _Gap:
    """A time in which no scheduler ran for some profiles, in seconds since the epoch."""

    first: float
    last: float
    profiles: tuple[str, ...]
    message: str


class History:
    """Reads lines, and returns the stories of one pod in them."""

    def __init__(self, namespace: str, name: str) -> None:
        self.pod = f"{namespace}/{name}"
        self._name = name
        #: By uid, time, reason and kind of line: a collector may deliver a line twice.
        self._changes: dict[tuple[str, int, str, str], _Change] = {}
        self._gaps: set[_Gap] = set()
        #: The number of lines, and of changes among them.
        self.lines = 0
        self.changes = 0
        #: The number of lines about a pod of this name that cannot be read: they were cut.
        self.cut = 0
        #: Pods of this name in other namespaces.
        self.namesakes: set[str] = set()

    def read(self, lines: Iterable[str]) -> None:
        """Take over the changes in the lines."""
        for line in lines:
            self.lines += 1
            if NO_SCHEDULER in line:
                self._gaps.update(_read_from(line, _gap))
            if STORY not in line:
                continue
            self.changes += 1
            if self._name in line:
                self._read(line)

    def _read(self, line: str) -> None:
        found = _read_from(line, _change)
        if not found:
            self.cut += 1
        for change in found:
            if change.pod == self.pod:
                self._changes[change.uid, round(change.at * 1e6), change.run.reason, change.kind] = change
            elif change.pod.rpartition("/")[2] == self._name:
                self.namesakes.add(change.pod)

    def stories(self) -> list[StoryView]:
        """Return a story for each pod that had this name, the one that was seen last first."""
        by_uid: dict[str, list[_Change]] = {}
        for change in sorted(self._changes.values(), key=lambda change: change.at):
            by_uid.setdefault(change.uid, []).append(change)
        stories = [_story(changes, self._gaps) for changes in by_uid.values()]
        stories.sort(key=lambda story: story.first_seen, reverse=True)
        for newer, older in pairwise(stories):
            _end_before(older, newer)
        return stories


def _read_from(line: str, read: Callable[[_Fields], T]) -> list[T]:
    """Return what `read` makes of a line; nothing for a line that this program has not written."""
    try:
        return [read(fields) for fields in _fields_of(line)]
    except (KeyError, TypeError, ValueError, DecodeError):
        return []


def _fields_of(line: str) -> Iterator[_Fields]:
    """Return the fields of a line, with its time as `ts` and its beginning as `msg`; nothing if the line was cut."""
    entry = _json_of(line)
    if entry is not None:
        if entry.get("logger") == LOGGER:
            # `ts` is in milliseconds.
            yield entry | {"ts": entry["ts"] / 1000}
        elif "logger" not in entry:  # an object of a collector, with the line in it
            for value in entry.values():
                if isinstance(value, str) and LOGGER in value:
                    yield from _fields_of(value)
    elif (found := _TEXT.search(line)) is not None:
        fields: _Fields = {
            name: msgspec.json.decode(value, type=str) if value.startswith('"') else value
            for name, value in _FIELD.findall(found[3])
        }
        yield fields | {"ts": parse_time(found[1]), "msg": found[2]}


def _json_of(line: str) -> _Fields | None:
    """Return the object at the end of a line; None if there is none."""
    first = line.find("{")
    for start in chain((first,) if first >= 0 else (), (found.start() for found in _JSON.finditer(line, first + 1))):
        try:
            return msgspec.json.decode(line[start:], type=dict[str, Any])
        except msgspec.MsgspecError:
            continue
    return None


def _gap(fields: _Fields) -> _Gap:
    if fields["msg"] != NO_SCHEDULER:
        raise ValueError
    times = parse_time(fields["from"]), parse_time(fields["until"])
    return _Gap(*times, _list(fields["profiles"]), str(fields["message"]))


def _change(fields: _Fields) -> _Change:
    """Return the change in a line; raise `KeyError`, `TypeError`, `ValueError` or `DecodeError` if there is none."""
    at, kind = float(fields["ts"]), fields["msg"]
    if kind not in _ABOUT_PODS:
        raise ValueError
    before = None
    if "before" in fields:
        last = parse_time(fields["beforeLast"])
        count, woken = int(fields["beforeCount"]), _woken(fields.get("beforeWokenBy", ""))
        before = Run(str(fields["before"]), "", last, last, count, woken=woken)
    is_new = kind == CHANGED
    return _Change(
        at=at,
        pod=str(fields["pod"]),
        uid=str(fields["uid"]),
        profile=str(fields["profile"]),
        first_seen=str(fields["firstSeen"]),
        created=parse_time(fields["created"]) if "created" in fields else 0.0,
        queue=str(fields.get("queue", "")),
        kind=kind,
        run=Run(
            str(fields["reason"]),
            str(fields["message"]),
            at if is_new else parse_time(fields["since"]),
            at if is_new else parse_time(fields["last"]),
            1 if is_new else int(fields["count"]),
            woken=_woken(fields.get("wokenBy", "")),
            plugins=_list(fields.get("plugins", "")),
            node=str(fields.get("node", "")),
            others=_list(fields.get("others", "")),
        ),
        before=before,
    )


def _list(text: object) -> tuple[str, ...]:
    return tuple(filter(None, str(text).split(",")))


def _woken(text: object) -> dict[str, int]:
    pairs = (part.rpartition(":") for part in _list(text))
    return {event: int(count) for event, _, count in pairs}


def _story(changes: list[_Change], gaps: Collection[_Gap]) -> StoryView:
    """Return the story of one pod; `changes` are in order of time."""
    reasons: list[_Reason] = []
    #: By `firstSeen`, the last reason of each process.
    last: dict[str, _Reason] = {}
    for change in changes:
        reason = last.get(change.first_seen)
        if change.kind != CHANGED:
            if reason is None or not reason.run.is_like(change.run):
                reason = last[change.first_seen] = _Reason(change.run)
                reasons.append(reason)
            reason.run, reason.is_least = change.run, change.kind == REPEATED
            continue
        if change.before is not None:
            if reason is None or reason.run.reason != change.before.reason:
                reason = _Reason(change.before)
                reasons.append(reason)
            _complete(reason, change.before)
        last[change.first_seen] = _Reason(change.run)
        reasons.append(last[change.first_seen])
    newest = changes[-1]
    first_seen = min(parse_time(change.first_seen) for change in changes)
    created = max(change.created for change in changes)
    end = min((reason.run.first for reason in reasons if reason.run.reason in ENDS), default=math.inf)
    reasons += [
        _Reason(Run(_NO_SCHEDULER, gap.message, gap.first, gap.last), is_least=False)
        for gap in (_shortened(gap, changes) for gap in gaps)
        if newest.profile in gap.profiles and gap.last > (created or first_seen) and gap.first < end
    ]
    reasons += _not_seen(newest, gaps)
    joined: list[_Reason] = []
    for reason in sorted(reasons, key=lambda reason: reason.run.first):
        if joined and _is_same(joined[-1].run, reason.run):
            _join(joined[-1], reason)
        else:
            joined.append(reason)
    runs = [reason.run for reason in joined if reason.run.reason != _NO_SCHEDULER]
    found = story_view(Story(newest.pod, newest.uid, newest.profile, first_seen, created, newest.queue, runs))
    found.runs = [run_view(reason.run) for reason in joined]
    found.pending &= found.reason != _NOT_SEEN
    for view, reason in zip(found.runs, joined, strict=True):
        view.count_is_least = reason.is_least and reason.run.reason not in ENDS
    return found


def _not_seen(newest: _Change, gaps: Iterable[_Gap]) -> list[_Reason]:
    """Return the end of the wait of a pod that the leader after its newest line does not name."""
    later = [gap.last for gap in gaps if newest.profile in gap.profiles and gap.last > newest.at]
    if newest.run.reason in ENDS or not later:
        return []
    began = min(later)
    text = f"the leader since {format_time(began)} does not name the pod: it was deleted or bound, or the logs end here"
    return [_Reason(Run(_NOT_SEEN, text, began, began, 0), is_least=False)]


def _end_before(story: StoryView, newer: StoryView) -> None:
    """End the story of a pod that still waited when a pod of the same name was created."""
    if story.reason in ENDS:
        return
    at = newer.created or newer.first_seen
    text = f"at the latest: another pod of this name was created at {at}, uid {newer.uid}"
    end = Run(DELETED, text, parse_time(at), parse_time(at), 0)
    story.runs = [*(run for run in story.runs if run.reason != _NOT_SEEN), run_view(end)]
    story.reason, story.pending, story.queue = DELETED, False, ""


def _shortened(gap: _Gap, changes: list[_Change]) -> _Gap:
    """Return a gap that begins after the last line before it: a leader may log more after it last renewed its lease."""
    return attrs.evolve(gap, first=max([gap.first, *(change.at for change in changes if change.at < gap.last)]))


def _complete(reason: _Reason, said: Run) -> None:
    """Add to a reason what the line about the next reason says about it."""
    reason.is_least = False
    run = reason.run
    # The line is written some microseconds after the book has taken the time.
    run.count, run.last, run.woken = said.count, max(said.last, run.first), said.woken


def _is_same(run: Run, again: Run) -> bool:
    """Return whether two runs are one reason; a run that was made from the next line has the reason alone."""
    is_vague = any(not (each.plugins or each.node or each.message) for each in (run, again))
    return run.is_like(again) or (is_vague and run.reason == again.reason)


def _join(reason: _Reason, again: _Reason) -> None:
    """Add a reason that was found again, by the same process or by the next leader."""
    reason.is_least |= again.is_least
    run, more = reason.run, again.run
    run.plugins, run.node = run.plugins or more.plugins, run.node or more.node
    run.count += more.count
    run.last = max(run.last, more.last)
    run.message = more.message or run.message
    run.others = more.others or run.others
    woken = {**(run.woken or {})}
    for event, count in (more.woken or {}).items():
        woken[event] = woken.get(event, 0) + count
    run.woken = woken
