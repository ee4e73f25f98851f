"""The lines of the logger `decision`, which `pyscheduler explain --history` reads.

Most lines say why a pod waits.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kube_objects.times import format_micro_time, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler.stories.record import Run, Story

__all__ = ["CHANGED", "CLOSED", "LOGGER", "NO_SCHEDULER", "REPEATED", "STORY", "log_change", "log_count", "log_gap"]

LOGGER: Final = "decision"
#: How the message of each kind of line begins.
STORY: Final = "Pod story"
CHANGED: Final = f"{STORY} changed"
REPEATED: Final = f"{STORY} repeated"
CLOSED: Final = f"{STORY} closed"
NO_SCHEDULER: Final = "No scheduler ran"
_log = logging.getLogger(LOGGER)


def log_change(story: Story, run: Run, before: Run | None) -> None:
    """Log that `run` has begun, with the final count of the run before."""
    if before is None:
        _log_run(CHANGED, story, run, {})
        return
    more = {"before": before.reason, "beforeCount": before.count, "beforeLast": format_micro_time(before.last)}
    _log_run(CHANGED, story, run, more | _woken("beforeWokenBy", before))


def log_count(story: Story, run: Run, *, closed: bool) -> None:
    """Log how often the present reason was found; `closed`: this replica stops, so that the count is final."""
    more = {"since": format_micro_time(run.first), "last": format_micro_time(run.last), "count": run.count}
    _log_run(CLOSED if closed else REPEATED, story, run, more | _woken("wokenBy", run))


def log_gap(profiles: Iterable[str], since: float, until: float, lease: str) -> None:
    """Log that these profiles had no leader from `since` to `until`, in seconds since the epoch."""
    times = format_micro_time(since), format_micro_time(until)
    _log.info(
        f'{NO_SCHEDULER} from=%s until=%s profiles=%s message="%s"',
        *times,
        ",".join(profiles),
        f"the lease {lease} had no leader",
    )


def _log_run(kind: str, story: Story, run: Run, more: Mapping[str, object]) -> None:
    fields: dict[str, object] = {
        "pod": story.pod,
        "uid": story.uid,
        "profile": story.profile,
        "reason": run.reason,
        "firstSeen": format_micro_time(story.first_seen),
    }
    if story.created:
        fields["created"] = format_time(story.created)
    if run.plugins:
        fields["plugins"] = ",".join(run.plugins)
    if run.node:
        fields["node"] = run.node
    if story.queue:
        fields["queue"] = story.queue
    if run.others:
        fields["others"] = ",".join(run.others)
    fields |= more
    _log.info(f'{kind} {"=%s ".join(fields)}=%s message="%s"', *fields.values(), run.message)


def _woken(name: str, run: Run) -> dict[str, object]:
    return {name: ",".join(f"{event}:{count}" for event, count in run.woken.items())} if run.woken else {}
