"""The parts of the scheduler that plugins reach through their `Handle`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.plugin_failures import PluginFailures
from pyscheduler.framework.plugin_metrics import MetricFamilies
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.framework.stories import NullStories, Stories
from pyscheduler.runtime.permit.pods_in_pre_bind import PodsInPreBind
from pyscheduler.runtime.routes import Routes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, ResourceKind, Wire
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.handle import Client, EventRecorder, Nominator
    from pyscheduler.framework.preemption import PreemptionExtender
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.watches import Lister
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
    from pyscheduler.runtime.snapshot_access import SnapshotAccess

__all__ = ["HandleDependencies", "ListerOf"]

F = TypeVar("F", bound="Wire")
K = TypeVar("K", bound="KubeObject")


class ListerOf(Protocol):
    """Finds the cached objects of a kind."""

    def __call__(self, kind: type[K]) -> Lister[K]:
        """Return the lister; raise `PluginError` for a kind that is not watched."""
        ...


class FieldsOf(Protocol):
    """Finds fields that plugins declare."""

    def __call__(self, item: KubeObject, cls: type[F], /) -> F:
        """Return the fields of a pod or node; raise `PluginError` for a type that no plugin declares."""
        ...


def _no_fields(item: KubeObject, cls: type[F], /) -> F:  # noqa: ARG001 - there are none
    raise PluginError(f"{cls.__name__} is not declared", plugin="")


@attrs.define(kw_only=True, eq=False)
class HandleDependencies:
    """One set for all profiles of a scheduler; nothing in it knows of profiles."""

    snapshot: Snapshot
    clock: Clock
    #: Decides in which cycles plugins are timed. A stream of its own: decisions must not shift with measurements.
    rng: random.Random
    client: Client
    nominator: Nominator
    waiting_pods: WaitingPodMap
    #: Set once the profiles are made, because the queue asks them how to sort.
    queue: SchedulingQueue = attrs.field(init=False)
    snapshot_access: SnapshotAccess
    #: The longest wait at Permit in place of what the plugins themselves say, in seconds; None leaves it to them.
    permit_wait_limit_seconds: float | None = None
    lister: ListerOf
    fields: FieldsOf = _no_fields
    #: Makes the recorder that writes events in the name of a profile.
    event_recorder: Callable[[str], EventRecorder]
    recorder: Recorder = attrs.Factory(NullRecorder)
    #: The metrics of plugins.
    metric_families: MetricFamilies = attrs.field(
        init=False, default=attrs.Factory(lambda self: MetricFamilies(self.recorder), takes_self=True)
    )
    failures: PluginFailures = attrs.Factory(lambda self: PluginFailures(self.recorder), takes_self=True)
    #: Why each pod waits.
    stories: Stories = attrs.Factory(NullStories)
    feature_gates: Mapping[str, bool] = attrs.Factory(dict)
    #: Called with each kind that an enabled plugin watches, before any plugin is made.
    declare: Callable[[ResourceKind], object] = lambda _kind: None
    routes: Routes = attrs.Factory(Routes)
    #: Decides where preemption begins to search, and among equals.
    preemption_rng: random.Random = attrs.Factory(lambda: random.Random(0))
    #: Have a say in preemption; in the order in which they are asked.
    extenders: Sequence[PreemptionExtender] = ()
    #: Whose bindings can still be called off.
    pods_in_pre_bind: PodsInPreBind = attrs.Factory(PodsInPreBind)
    #: What plugins of all profiles share, by their keys.
    shared: dict[str, object] = attrs.Factory(dict)
