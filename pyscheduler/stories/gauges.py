"""Gauges about pending pods: the longest waits by reason, and the memory that the records of waits (stories) take."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.stories.book import StoryBook

__all__ = ["register_gauges"]


def register_gauges(recorder: Recorder, book: StoryBook) -> None:
    """Register the gauges of a book."""
    recorder.gauge(
        "pyscheduler_oldest_pending_seconds",
        lambda: {
            (("profile", profile), ("queue", queue), ("reason", reason)): seconds
            for (profile, queue, reason), seconds in book.oldest().items()
        },
    )
    recorder.gauge("pyscheduler_stories_bytes", lambda: {(): float(book.bytes())})
