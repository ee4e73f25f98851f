"""The lines of the logger `decision`: each is a change in the story of one pod; `history` reads them again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kube_objects.times import format_micro_time, format_time

if TYPE_CHECKING:
    from pyscheduler.stories.record import Run, Story

__all__ = ["CHANGE", "LOGGER", "log_change"]

LOGGER: Final = "decision"
#: How the message of a change begins.
CHANGE: Final = "Pod story changed"
_log = logging.getLogger(LOGGER)


def log_change(story: Story, run: Run, before: Run | None) -> None:
    """Log a change with everything that `pyscheduler explain --history` needs; the message is last.

    A line that was cut, because the process was killed, has no message at its end, and is recognized by that.
    """
    text = f"{CHANGE} pod=%s uid=%s profile=%s reason=%s firstSeen=%s"
    values: list[object] = [story.pod, story.uid, story.profile, run.reason, format_micro_time(story.first_seen)]

    def add(name: str, value: object) -> None:
        nonlocal text
        text += f" {name}=%s"
        values.append(value)

    if story.created:
        add("created", format_time(story.created))
    if run.plugins:
        add("plugins", ",".join(run.plugins))
    if run.node:
        add("node", run.node)
    if story.queue:
        add("queue", story.queue)
    if run.others:
        add("others", ",".join(run.others))
    if before is not None:
        add("before", before.reason)
        add("beforeCount", before.count)
        add("beforeLast", format_micro_time(before.last))
        if before.woken:
            add("beforeWokenBy", ",".join(f"{event}:{count}" for event, count in before.woken.items()))
    _log.info(f'{text} message="%s"', *values, run.message)
