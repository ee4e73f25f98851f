"""What tests of the runtime share: a recorder that remembers, and a kit that makes profiles on a real snapshot."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import Node, Pod
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import (
    BindPlugin,
    CycleState,
    ExtensionPoint,
    NominatingInfo,
    Plugin,
    PluginError,
    PodInfo,
    QueuedPodInfo,
    QueueSortPlugin,
    Status,
)
from pyscheduler.framework.profile import EnabledPlugin, PluginSet, ProfileSpec
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.queue.nominator import Nominator
from pyscheduler.runtime.assembly.registry import Registry
from pyscheduler.runtime.handle_dependencies import HandleDependencies
from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
from pyscheduler.runtime.profile import Profile
from pyscheduler.runtime.snapshot_access import SnapshotAccess
from pyscheduler.testing.builders import make_node, make_pod


class NoQueue:
    """Knows no pod, and remembers which pods are activated."""

    def __init__(self, activated: list[Pod]) -> None:
        self.activate = activated.extend

    def resort(self, pods: Iterable[Pod]) -> None:
        """Sort nothing."""

    def place_of(self, uid: str) -> None:
        """Find no pod."""


class Recording(NullRecorder):
    """Remembers what tests look at."""

    def __init__(self) -> None:
        self.points: list[tuple[str, str, float]] = []
        self.plugins: list[tuple[str, str, str, float]] = []
        self.waits: list[tuple[str, float]] = []
        self.warnings: Counter[str] = Counter()

    def observe(self, family: str, value: float, *labels: str) -> None:
        """Keep the runs of extension points and of plugins, and the waits."""
        match family, labels:
            case "scheduler_framework_extension_point_duration_seconds", (point, status, profile):
                assert profile
                self.points.append((point, status, value))
            case "scheduler_plugin_execution_duration_seconds", (plugin, point, status):
                self.plugins.append((plugin, point, status, value))
            case "scheduler_permit_wait_duration_seconds", (result,):
                self.waits.append((result, value))

    def warning(self, kind: str) -> None:
        """Count by kind."""
        self.warnings[kind] += 1


class Events:
    """Writes events into a list."""

    def __init__(self, controller: str) -> None:
        self.controller = controller

    def event(
        self, regarding: object, *, type: str, reason: str, action: str, note: str, related: object | None = None
    ) -> None:
        """Write nothing."""


class Sort(QueueSortPlugin):
    def sort_key(self, info: QueuedPodInfo) -> tuple[object, ...]:
        return (-info.pod.priority, info.enqueued_at)


class Binder(BindPlugin):
    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


def no_lister(kind: type) -> object:
    """Know no kind."""
    raise PluginError(f"{kind.__name__} is not watched", plugin="")


class Kit:
    """One scheduler's worth of services, and profiles on it; `Sort` and `Binder` complete a profile that lacks them."""

    SORT = Sort
    BINDER = Binder

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.recorder = Recording()
        self.registry = Registry()
        self.nominator = Nominator()
        self.cache = Cache()
        self.snapshot = Snapshot(nominator=self.nominator)
        self.waiting_pods = WaitingPodMap(clock=self.clock, recorder=self.recorder)
        self.activated: list[Pod] = []
        self.declared: list[object] = []
        self.services = HandleDependencies(
            snapshot=self.snapshot,
            clock=self.clock,
            rng=random.Random(0),
            client=object(),  # type: ignore[arg-type]  # nobody here writes to an API server
            nominator=self.nominator,
            waiting_pods=self.waiting_pods,
            snapshot_access=SnapshotAccess(self.waiting_pods.releases, refresh=lambda: None),
            lister=no_lister,  # type: ignore[arg-type]  # it finds nothing of any type
            event_recorder=Events,
            recorder=self.recorder,
            declare=self.declared.append,
        )
        self.services.queue = NoQueue(self.activated)  # type: ignore[assignment]  # as much of it as plugins reach

    def add_nodes(self, *nodes: str | Node, pods: Iterable[Pod] = ()) -> None:
        """Put nodes, and pods that name theirs, into the snapshot."""
        for node in nodes:
            self.cache.add_node(make_node(node) if isinstance(node, str) else node)
        for pod in pods:
            self.cache.add_pod(PodInfo.of(pod))
        self.cache.update_snapshot(self.snapshot)

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Promise a pod a node."""
        self.nominator.add(PodInfo.of(pod), NominatingInfo(node_name))

    def spec(
        self,
        *names: str,
        name: str = "pyscheduler",
        plugins: Mapping[ExtensionPoint, PluginSet] | None = None,
        args: Mapping[str, object] | None = None,
    ) -> ProfileSpec:
        """Describe a profile that enables `names` at multiPoint, in that order; `Name:3` gives a weight."""
        enabled = []
        for each in names:
            plugin, _, weight = each.partition(":")
            enabled.append(EnabledPlugin(plugin, int(weight or 0)))
        return ProfileSpec(
            scheduler_name=name,
            multi_point=PluginSet(enabled=tuple(enabled)),
            plugins=plugins or {},
            args=args or {},
        )

    def register(self, *classes: type[Plugin]) -> None:
        """Make classes known, and `Sort` and `Binder` with them."""
        for cls in (*classes, Sort, Binder):
            self.registry.add(cls.name, cls)

    def profile(
        self,
        *classes: type[Plugin],
        name: str = "pyscheduler",
        plugins: Mapping[ExtensionPoint, PluginSet] | None = None,
        args: Mapping[str, object] | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> Profile:
        """Build a profile of these classes, in that order."""
        self.register(*classes)
        names = [f"{cls.name}:{(weights or {}).get(cls.name, 0)}" for cls in classes]
        if not any(issubclass(cls, QueueSortPlugin) for cls in classes):
            names.append(Sort.name)
        if not any(issubclass(cls, BindPlugin) for cls in classes):
            names.append(Binder.name)
        return Profile.build(self.spec(*names, name=name, plugins=plugins, args=args), self.registry, self.services)

    def sample_all(self) -> None:
        """Time plugins in every cycle."""
        self.services.rng = _Always()

    @staticmethod
    def queued(name: str, *, enqueued_at: float = 0.0, **keywords: object) -> QueuedPodInfo:
        """Return a pod in the queue."""
        return QueuedPodInfo(pod_info=PodInfo.of(make_pod(name, **keywords)), enqueued_at=enqueued_at)


class _Always(random.Random):
    def random(self) -> float:
        return 0.0


KitFactory = Callable[[], Kit]
Names = Sequence[str]


@pytest.fixture
def kit() -> Kit:
    """Give a kit without nodes."""
    return Kit()


@pytest.fixture(scope="session")
def new_kit() -> KitFactory:
    """Give the way to make kits, for tests that need one per example."""
    return Kit
