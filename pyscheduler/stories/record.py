"""The record of one pod's story: the reasons for which the pod waited, each with a count and times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DELETED",
    "ENDS",
    "QUEUED",
    "SCHEDULED",
    "Run",
    "Story",
    "add_run",
    "decode",
    "encode",
    "joined",
    "key_prefix",
    "short",
]

#: The reason of a pod that was not tried yet.
QUEUED: Final = "Queued"
#: What ends a wait; the names are those of Kubernetes' events where it has one.
SCHEDULED: Final = "Scheduled"
DELETED: Final = "Deleted"
#: What happens only to a pod that does not wait any more.
ENDS: Final = frozenset({SCHEDULED, DELETED, "Preempted", "Evicted", "RejectedByKubelet"})

#: The most runs of a story; from then on, the oldest but the first ones are left out.
_MOST_RUNS: Final = 24
_FIRST_RUNS: Final = 4
#: The longest message of the last run, and of those before it, in characters.
_LONGEST: Final = 1024
_LONGEST_BEFORE: Final = 300


class Run(msgspec.Struct, array_like=True, gc=False):
    """A reason that held for some time. Times are seconds since the epoch."""

    reason: str
    message: str
    first: float
    last: float
    #: How often the reason was found; for a batch profile, how often its text changed.
    count: int = 1
    #: The plugins that rejected or hold the pod.
    plugins: tuple[str, ...] = ()
    node: str = ""
    #: How often each event woke the pod while this reason held.
    woken: dict[str, int] | None = None
    #: The pods that are evicted for this pod; for a pod that is evicted, those that get its room.
    others: tuple[str, ...] = ()

    def is_like(self, other: Run) -> bool:
        """Return whether the other run is the same reason, found again."""
        return (self.reason, self.plugins, self.node) == (other.reason, other.plugins, other.node)


class Story(msgspec.Struct, array_like=True, gc=False):
    """The story of one pod."""

    #: `namespace/name`. The first field, so that a search need not decode.
    pod: str
    uid: str
    #: The pod's `schedulerName`.
    profile: str
    first_seen: float
    #: When the pod was created; 0.0 if it does not say.
    created: float = 0.0
    #: The sub-queue that the pod entered last.
    queue: str = ""
    runs: list[Run] = []
    #: The number of runs that were left out.
    omitted: int = 0

    @property
    def reason(self) -> str:
        """Return why the pod waits now."""
        return self.runs[-1].reason if self.runs else QUEUED

    @property
    def is_pending(self) -> bool:
        """Return whether the pod still waits for a node."""
        return self.reason not in ENDS


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Story)

#: Return the bytes of a story.
encode = _encoder.encode
#: Return the story in these bytes.
decode = _decoder.decode


def key_prefix(pod: str) -> bytes:
    """Return how the bytes of all stories of this pod begin, whichever other fields they have."""
    whole = _encoder.encode(Story(pod, "", "", 0.0))
    return whole[: whole.index(pod.encode()) + len(pod.encode())]


def short(message: str) -> str:
    """Return a message in the length in which it is kept, and so that it can be encoded."""
    if not message.isascii():
        message = message.encode(errors="replace").decode()  # a plugin's text may have half a surrogate pair
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 4]} ..."


def add_run(story: Story, run: Run) -> None:
    """Append a run; shorten the message of the one before, and leave out an old run if there are too many."""
    runs = story.runs
    if runs:
        before = runs[-1]
        if len(before.message) > _LONGEST_BEFORE:
            before.message = f"{before.message[: _LONGEST_BEFORE - 4]} ..."
        if len(runs) >= _MOST_RUNS:
            del runs[_FIRST_RUNS]
            story.omitted += 1
    runs.append(run)


def joined(records: Iterable[Story]) -> list[Story]:
    """Return one story for each uid, the pod that came last first; records of one uid are put in order of time."""
    found: dict[str, Story] = {}
    for record in records:
        story = found.get(record.uid)
        if story is None:
            found[record.uid] = msgspec.structs.replace(record, runs=[*record.runs])
            continue
        story.runs = sorted([*story.runs, *record.runs], key=lambda run: run.first)
        story.omitted += record.omitted
        story.first_seen = min(story.first_seen, record.first_seen)
        story.queue = record.queue
    return sorted(found.values(), key=lambda story: -story.first_seen)
