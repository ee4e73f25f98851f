"""Stories (why pods wait) as JSON: the fields of `/debug/story`, `/debug/state` and `/debug/stream`.

Times are RFC 3339 texts in UTC, or "" if unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kube_objects.times import format_micro_time

if TYPE_CHECKING:
    from pyscheduler.stories.record import Run, Story

__all__ = [
    "PodStories",
    "RunView",
    "StorySummary",
    "StoryUpdate",
    "StoryView",
    "run_view",
    "story_summary",
    "story_update",
    "story_view",
]


class RunView(msgspec.Struct, rename="camel", kw_only=True):
    """A reason that held for some time, and how often it was found."""

    reason: str
    message: str
    first: str
    last: str
    count: int
    #: The plugins that rejected or hold the pod.
    plugins: tuple[str, ...]
    node: str
    #: How often each event woke the pod while this reason held.
    woken_by: dict[str, int]
    #: The pods that are evicted for this pod; for an evicted pod, those that get its room.
    others: tuple[str, ...]
    #: The number of `others` that are left out, because the reader may not see pods of their namespaces.
    others_hidden: int = 0
    #: Whether the reason may have been found more often: the count is from logs that do not say how the run ended.
    count_is_least: bool = False


class StoryView(msgspec.Struct, rename="camel", kw_only=True):
    """The story of one pod; `runs` are in order of time."""

    pod: str
    uid: str
    #: The pod's `schedulerName`.
    profile: str
    pending: bool
    #: The reason of the last run, or `Queued` if there is none.
    reason: str
    queue: str
    created: str
    first_seen: str
    runs: list[RunView]
    #: The number of older runs that are left out.
    omitted: int


class PodStories(msgspec.Struct, rename="camel", kw_only=True):
    """The answer of `GET /debug/story`: the stories of the pods that had this key, the newest pod first."""

    pod: str
    #: False: the replica is a standby, and knows only since when pods wait.
    is_leader: bool
    stories: list[StoryView]
    #: The schedulerNames of the profiles: no other pod has a story.
    profiles: tuple[str, ...] = ()


class StoryUpdate(msgspec.Struct, rename="camel", kw_only=True):
    """A change of a story: one event of the stream. `run` has just begun; its fields are those of `RunView`."""

    pod: str
    uid: str
    profile: str
    pending: bool
    queue: str
    created: str
    first_seen: str
    run: RunView


class StorySummary(msgspec.Struct, rename="camel", kw_only=True):
    """The story of a pending pod in one row, without messages."""

    pod: str
    uid: str
    profile: str
    queue: str
    reason: str
    plugins: tuple[str, ...]
    node: str
    #: How often the present reason was found, and since when it holds.
    count: int
    since: str
    created: str
    first_seen: str


def run_view(run: Run) -> RunView:
    """Return a run as JSON has it."""
    return RunView(
        reason=run.reason,
        message=run.message,
        first=_time(run.first),
        last=_time(run.last),
        count=run.count,
        plugins=run.plugins,
        node=run.node,
        woken_by=run.woken or {},
        others=run.others,
    )


def story_view(story: Story) -> StoryView:
    """Return a story as JSON has it."""
    return StoryView(
        pod=story.pod,
        uid=story.uid,
        profile=story.profile,
        pending=story.is_pending,
        reason=story.reason,
        queue=story.queue if story.is_pending else "",
        created=_time(story.created),
        first_seen=_time(story.first_seen),
        runs=[run_view(run) for run in story.runs],
        omitted=story.omitted,
    )


def story_update(story: Story, run: Run) -> StoryUpdate:
    """Return a change as JSON has it."""
    return StoryUpdate(
        pod=story.pod,
        uid=story.uid,
        profile=story.profile,
        pending=story.is_pending,
        queue=story.queue,
        created=_time(story.created),
        first_seen=_time(story.first_seen),
        run=run_view(run),
    )


def story_summary(story: Story) -> StorySummary:
    """Return a pending story in one row."""
    run = story.runs[-1] if story.runs else None
    return StorySummary(
        pod=story.pod,
        uid=story.uid,
        profile=story.profile,
        queue=story.queue,
        reason=story.reason,
        plugins=run.plugins if run is not None else (),
        node=run.node if run is not None else "",
        count=run.count if run is not None else 0,
        since=_time(run.first if run is not None else story.first_seen),
        created=_time(story.created),
        first_seen=_time(story.first_seen),
    )


def _time(seconds: float) -> str:
    return format_micro_time(seconds) if seconds else ""
