"""Shared by the tests of the queue: a recorder, pods, and a kit that makes a queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest

from pyscheduler.api import ObjectMeta, Pod, PodSpec, PodStatus
from pyscheduler.framework import ActionType, ClusterEvent, Code, EventResource, PodInfo, QueuedPodInfo, Status
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.queue.hints import HintMap
from pyscheduler.queue.nominator import Nominator
from pyscheduler.queue.scheduling_queue import SchedulingQueue
from pyscheduler.queue.sub_queues import QueuePlace
from tests.queue.manual_clock import ManualClock

PROFILE = "python-scheduler"


class Recording(NullRecorder):
    """Remembers what tests look at."""

    def __init__(self) -> None:
        self.incoming: Counter[tuple[str, str]] = Counter()
        self.hints: list[tuple[str, str, str]] = []
        self.warnings: Counter[str] = Counter()

    def count(self, family: str, *labels: str) -> None:
        """Count incoming pods by queue and event."""
        if family == "scheduler_queue_incoming_pods_total":
            queue, event = labels
            self.incoming[queue, event] += 1

    def observe(self, family: str, value: float, *labels: str) -> None:
        """Keep each call of a hint."""
        if family == "scheduler_queueing_hint_execution_duration_seconds":
            assert value >= 0
            plugin, event, hint = labels
            self.hints.append((plugin, event, hint))

    def warning(self, kind: str) -> None:
        """Count by kind."""
        self.warnings[kind] += 1


def sort_key(info: QueuedPodInfo) -> tuple[int, float]:
    """Order as PrioritySort does."""
    return -info.pod.priority, info.enqueued_at


class Kit:
    """A queue with everything it needs; pods have names, and their uid is `uid-<name>`.

    `shut` maps names of pods to the PreEnqueue plugin that rejects them. All profiles, `PROFILE` and `profiles`, have
    the same `gating_events` and `hints`.
    """

    PROFILE = PROFILE
    NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
    NODE_DELETE = ClusterEvent(EventResource.NODE, ActionType.DELETE)
    PV_ADD = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.ADD)
    POD_UPDATE = ClusterEvent(EventResource.POD, ActionType.UPDATE)
    ASSIGNED_POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)

    def __init__(
        self,
        *,
        hints: HintMap | None = None,
        gating_events: dict[str, list[ClusterEvent]] | None = None,
        start_at: float = 1000.0,
        profiles: Iterable[str] = (),
        **options: object,
    ) -> None:
        self.clock = ManualClock(start_at)
        self.recorder = Recording()
        self.shut: dict[str, str] = {}
        self.pre_enqueue_runs: Counter[str] = Counter()
        self.nominator = Nominator()
        names = (PROFILE, *profiles)
        wiring: dict[str, object] = {
            "sort_key": sort_key,
            "pre_enqueue": dict.fromkeys(names, self._pre_enqueue),
            "hints": dict.fromkeys(names, hints or {}),
            "gating_events": dict.fromkeys(names, gating_events or {}),
            **options,
        }
        self.queue = SchedulingQueue(
            clock=self.clock,
            recorder=self.recorder,
            nominator=self.nominator,
            **wiring,  # type: ignore[arg-type]  # options of the test's choice
        )

    def _pre_enqueue(self, pod: Pod) -> Status | None:
        self.pre_enqueue_runs[pod.name] += 1
        plugin = self.shut.get(pod.name)
        if plugin is None:
            return None
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "not yet", plugin=plugin)

    @staticmethod
    def pod(
        name: str = "p",
        *,
        priority: int = 0,
        nominated: str = "",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        uid: str = "",
        profile: str = PROFILE,
        **spec: object,
    ) -> Pod:
        """Make a pod without a node."""
        return Pod(
            metadata=ObjectMeta(
                name=name,
                namespace="default",
                uid=uid or f"uid-{name}",
                labels=labels or {},
                annotations=annotations or {},
            ),
            spec=PodSpec(
                scheduler_name=profile,
                priority=priority,
                **spec,  # type: ignore[arg-type]  # fields of the test's choice
            ),
            status=PodStatus(nominated_node_name=nominated),
        )

    @staticmethod
    def info(pod: Pod) -> PodInfo:
        """Work out what the queue takes in."""
        return PodInfo.of(pod)

    def add(self, name: str = "p", **fields: object) -> Pod:
        """Add a new pod."""
        pod = self.pod(name, **fields)  # type: ignore[arg-type]  # fields of the test's choice
        self.queue.add(PodInfo.of(pod))
        return pod

    def update(self, old: Pod, new: Pod) -> None:
        """Announce a new version of a pod."""
        self.queue.update(old, PodInfo.of(new))

    def pop(self) -> QueuedPodInfo:
        """Pop a pod that must be there."""
        info = self.queue.pop()
        assert info is not None
        return info

    def pop_names(self) -> list[str]:
        """Pop all there is, and return the names."""
        return [info.pod.name for info in iter(self.queue.pop, None)]

    def fail(self, info: QueuedPodInfo, *plugins: str, pending: Iterable[str] = ()) -> None:
        """Bring a popped pod back: rejected by `plugins`, or, without any, after an error."""
        info.unschedulable_plugins = set(plugins)
        info.pending_plugins = set(pending)
        self.queue.requeue_failed(info)

    def rejected(self, name: str = "p", *plugins: str, pending: Iterable[str] = (), **fields: object) -> Pod:
        """Add a pod, pop it, and bring it back rejected. It must be the first in activeQ."""
        pod = self.add(name, **fields)
        info = self.pop()
        assert info.pod is pod
        self.fail(info, *plugins, pending=pending)
        return pod

    def place(self, name: str = "p") -> QueuePlace | None:
        """Return where a pod is."""
        return self.queue.place_of(f"uid-{name}")

    def get(self, name: str = "p") -> QueuedPodInfo:
        """Return a pod that waits."""
        info = self.queue.get(f"uid-{name}")
        assert info is not None
        return info


@pytest.fixture
def make_kit() -> Iterator[Callable[..., Kit]]:
    """Make kits whose queues must be sound when the test ends."""
    kits: list[Kit] = []

    def make(**options: object) -> Kit:
        kit = Kit(**options)  # type: ignore[arg-type]  # options of the test's choice
        kits.append(kit)
        return kit

    yield make
    for kit in kits:
        kit.queue.check_invariants()


@pytest.fixture
def kit(make_kit: Callable[..., Kit]) -> Kit:
    """Make a queue in which plugin A waits for nodes, and B for volumes; neither has a hint function."""
    return make_kit(hints={Kit.NODE_ADD: [("A", None)], Kit.PV_ADD: [("B", None)]})
