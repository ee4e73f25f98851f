"""Record the pods of gangs from watches, and check that no gang ran partially.

The module shares no code with the scheduler, so that it does not repeat the scheduler's mistakes.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["GPU", "GROUP_LABEL", "LONGEST_BURST_SECONDS", "Change", "Judge", "Recording", "Verdict"]

GPU: Final = "nvidia.com/gpu"
"""The only resource that is asked for here, in whole numbers."""

GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label in which a pod names its gang."""

LONGEST_BURST_SECONDS: Final = 5.0
"""So much may pass from the first binding of a gang to the one that completes its minimum. It is milliseconds unless
the machine is busy."""

_WATCH_SECONDS: Final = 30.0


@attrs.frozen(kw_only=True)
class Change:
    """One revision of a pod; `at` is the reader's clock, in seconds."""

    revision: int
    at: float
    name: str
    gang: str
    node: str
    gpus: int
    ended: bool
    succeeded: bool

    @classmethod
    def of(cls, event: Mapping[str, Any], at: float) -> Change:
        """Decode one line of a watch."""
        pod = event["object"]
        metadata, spec = pod["metadata"], pod["spec"]
        phase = pod["status"].get("phase")
        requests = [each.get("resources", {}).get("requests", {}) for each in spec["containers"]]
        return cls(
            revision=int(metadata["resourceVersion"]),
            at=at,
            name=metadata["name"],
            gang=metadata.get("labels", {}).get(GROUP_LABEL, ""),
            node=spec.get("nodeName", ""),
            gpus=sum(int(each.get(GPU, 0)) for each in requests),
            ended=event["type"] == "DELETED" or phase in {"Succeeded", "Failed"},
            succeeded=phase == "Succeeded",
        )


@attrs.define(kw_only=True)
class GangRecord:
    """The record of one gang."""

    minimum: int
    #: Node by member name, in the order of the bindings.
    bound: dict[str, str] = attrs.Factory(dict)
    ended: set[str] = attrs.Factory(set)
    succeeded: set[str] = attrs.Factory(set)
    #: Free GPUs on each node just before the first binding.
    free_before: dict[str, int] = attrs.Factory(dict)
    first_revision: int = 0
    first_at: float = 0.0
    #: Time at which the minimum was bound, or None.
    complete_at: float | None = None

    @property
    def burst_seconds(self) -> float:
        """Return the time from the first binding to the binding that completed the minimum."""
        return (self.complete_at or self.first_at) - self.first_at

    @property
    def is_partial(self) -> bool:
        """Return True if some members, but fewer than the minimum, are bound."""
        return 0 < len(self.bound) < self.minimum

    @property
    def running(self) -> int:
        """Return the number of members that are bound and have not ended."""
        return len(self.bound.keys() - self.ended)

    @property
    def is_finished(self) -> bool:
        """Return True if the whole minimum has ended."""
        return len(self.ended) >= self.minimum


@attrs.frozen(kw_only=True)
class Verdict:
    """The result of the record; without `problems`, no gang ran partially."""

    gangs: int
    pods: int
    bursts_seconds: list[float]
    problems: list[str]


class Judge:
    """Checks the record revision by revision. `capacity` is in GPUs per node, `minima` by gang."""

    def __init__(self, capacity: Mapping[str, int], minima: Mapping[str, int]) -> None:
        self.capacity = dict(capacity)
        self.used = dict.fromkeys(capacity, 0)
        self.gangs = {name: GangRecord(minimum=minimum) for name, minimum in minima.items()}
        self._gpus: dict[str, int] = {}
        self._revision = 0
        self.problems: list[str] = []

    def take(self, change: Change) -> None:
        """Process the next revision."""
        if change.revision < self._revision:
            self.problems.append(f"the record is out of order: revision {change.revision} after {self._revision}")
        self._revision = change.revision
        gang = self.gangs.get(change.gang)
        if gang is None:
            return
        if change.node:
            known = gang.bound.get(change.name)
            if known is None:
                self._bind(gang, change)
            elif known != change.node:
                self.problems.append(f"pod {change.name} was bound to {known}, and then to {change.node}")
        if change.ended and change.name not in gang.ended:
            self._end(gang, change)

    def _bind(self, gang: GangRecord, change: Change) -> None:
        if not gang.bound:
            gang.first_revision, gang.first_at = change.revision, change.at
            gang.free_before = {node: self.capacity[node] - used for node, used in self.used.items()}
        gang.bound[change.name] = change.node
        self._gpus[change.name] = change.gpus
        if change.node not in self.used:
            self.problems.append(f"pod {change.name} was bound to {change.node}, which does not exist")
            return
        self.used[change.node] += change.gpus
        if self.used[change.node] > self.capacity[change.node]:
            over = self.used[change.node] - self.capacity[change.node]
            self.problems.append(f"node {change.node} was overcommitted by {over} GPUs at revision {change.revision}")
        if len(gang.bound) == gang.minimum:
            self._complete(gang, change)

    def _complete(self, gang: GangRecord, change: Change) -> None:
        gang.complete_at = change.at
        needed: dict[str, int] = {}
        for name, node in gang.bound.items():
            needed[node] = needed.get(node, 0) + self._gpus[name]
        for node, gpus in sorted(needed.items()):
            if gpus > gang.free_before.get(node, 0):
                self.problems.append(
                    f"gang {change.gang} was started at revision {gang.first_revision} without room for all of it: "
                    f"{gpus} GPUs of {node}, where {gang.free_before.get(node, 0)} were free"
                )
        if gang.burst_seconds > LONGEST_BURST_SECONDS:
            self.problems.append(f"gang {change.gang} was partly bound for {gang.burst_seconds:.1f} s")

    def _end(self, gang: GangRecord, change: Change) -> None:
        gang.ended.add(change.name)
        if change.succeeded:
            gang.succeeded.add(change.name)
        else:
            self.problems.append(f"pod {change.name} did not succeed")
        node = gang.bound.get(change.name)
        if node in self.used:
            self.used[node] -= self._gpus[change.name]
        if gang.complete_at is None:
            self.problems.append(f"pod {change.name} ended before its gang {change.gang} was complete")

    def verdict(self) -> Verdict:
        """Return the verdict, assuming that the record is complete."""
        problems = list(self.problems)
        for name, gang in self.gangs.items():
            if not gang.bound:
                problems.append(f"gang {name} was never started")
            elif gang.is_partial:
                problems.append(f"gang {name} stayed partial: {len(gang.bound)} of {gang.minimum} members were bound")
            elif len(gang.succeeded) < gang.minimum:
                problems.append(f"gang {name} did not finish: {len(gang.succeeded)} of {gang.minimum} succeeded")
        return Verdict(
            gangs=len(self.gangs),
            pods=sum(len(gang.bound) for gang in self.gangs.values()),
            bursts_seconds=[gang.burst_seconds for gang in self.gangs.values() if gang.complete_at is not None],
            problems=problems,
        )


class Recording:
    """Feeds a judge from a watch, in a thread of its own; start it before pods are created."""

    def __init__(self, server: str, judge: Judge) -> None:
        self.judge = judge
        self._server = server
        #: The resource version from which the next watch starts; 0 starts at the server's oldest.
        self._revision = _version_of(server)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)

    def start(self) -> None:
        """Start to read."""
        self._thread.start()

    def stop(self) -> Verdict:
        """Read the remaining events and return the verdict."""
        self._stopping.set()
        self._thread.join(_WATCH_SECONDS)
        if self._thread.is_alive():
            self.judge.problems.append("the record has no end: the server keeps silent")
        return self.judge.verdict()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                # Short watches, each resumed where the last one ended, so that the reader knows when it has read
                # everything.
                for event in _watch(self._server, self._revision, seconds=1):
                    self._revision = int(event["object"]["metadata"]["resourceVersion"])
                    if event["type"] != "BOOKMARK":
                        self.judge.take(Change.of(event, time.monotonic()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.judge.problems.append(f"the record has a gap: {error!r}")


def _version_of(server: str) -> int:
    with urllib.request.urlopen(f"{server}/api/v1/pods?limit=1", timeout=_WATCH_SECONDS) as answer:  # noqa: S310
        return int(json.load(answer)["metadata"]["resourceVersion"])


def _watch(server: str, revision: int, *, seconds: int) -> Iterable[dict[str, Any]]:
    url = f"{server}/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds={seconds}"
    with urllib.request.urlopen(url, timeout=_WATCH_SECONDS) as answer:  # noqa: S310 - the demo's own server
        for line in answer:
            event: dict[str, Any] = json.loads(line)
            if event["type"] == "ERROR":
                raise ValueError(event["object"].get("message", "the watch ended in an error"))
            yield event
