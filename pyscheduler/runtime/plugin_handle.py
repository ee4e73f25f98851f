"""The `Handle` of the plugins of one profile: everything that a plugin may ask of the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from pyscheduler.api import Pod
from pyscheduler.framework.plugin_metrics import PluginMetrics
from pyscheduler.runtime.assembly.plugin_methods import check_rules
from pyscheduler.runtime.background import Background
from pyscheduler.runtime.preemption.eviction import Evictions
from pyscheduler.runtime.preemption.search import BUDGETS, Preemption
from pyscheduler.runtime.what_if import what_if

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from kube_objects.clock import Clock
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.handle import Client, EventRecorder, Nominator
    from pyscheduler.framework.preemption import PreemptionRules
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.what_if import WhatIf
    from pyscheduler.runtime.handle_dependencies import HandleDependencies
    from pyscheduler.runtime.profile import Profile

__all__ = ["PluginHandle"]

S = TypeVar("S")


class PluginHandle:
    """Implements `framework.handle.Handle`. Plugins get it when they are made, before their profile is complete."""

    def __init__(self, profile_name: str, dependencies: HandleDependencies) -> None:
        self._dependencies = dependencies
        self.profile_name = profile_name
        self.event_recorder: EventRecorder = dependencies.event_recorder(profile_name)
        self.snapshot: Snapshot = dependencies.snapshot
        self.clock: Clock = dependencies.clock
        self.recorder: Recorder = dependencies.recorder
        self.metric_families = dependencies.metric_families
        self.metrics = PluginMetrics(self.metric_families, profile_name)
        self.nominator: Nominator = dependencies.nominator
        self.client: Client = dependencies.client
        self.feature_gates: Mapping[str, bool] = dependencies.feature_gates
        self.lister = dependencies.lister
        self.fields = dependencies.fields
        self.get_waiting_pod = dependencies.waiting_pods.get
        self.waiting_pods = dependencies.waiting_pods.all
        self.index_waiting_pods = dependencies.waiting_pods.index
        self.wait_verdict = dependencies.waiting_pods.verdict
        self.background = Background(clock=dependencies.clock, failures=dependencies.failures)
        #: By plugin, what preempts in its name.
        self.preemptors: dict[str, Preemption] = {}

    def complete(self, profile: Profile) -> None:
        """Set the profile once its plugins are made; what runs plugins works from then on."""
        self.profile = profile
        self.run_filters = profile.run_filters
        self.run_add_pod = profile.run_add_pod
        self.run_remove_pod = profile.run_remove_pod

    def reject_waiting_pod(self, uid: str, *, plugin: str = "", reason: str = "removed") -> bool:
        """Reject a waiting pod; raise `ValueError` for the name of a plugin that does not exist."""
        self._dependencies.waiting_pods.check_name(plugin)
        return self._dependencies.waiting_pods.reject(uid, plugin=plugin, reason=reason)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods that are unschedulable or in backoff to activeQ at once."""
        self._dependencies.queue.activate(_several(pods, "activate"))

    def _retry_after_backoff(self, pods: Iterable[Pod]) -> None:
        self._dependencies.queue.retry_after_backoff(pods)

    def resort(self, pods: Iterable[Pod]) -> None:
        """Sort these pods again, in whichever queue they are."""
        self._dependencies.queue.resort(_several(pods, "resort"))

    def forget_answers(self, nodes: Iterable[str]) -> None:
        """Let plugins with `Reuse.UNTIL_FORGOTTEN` be asked again about the nodes of these names."""
        if isinstance(nodes, str):
            raise TypeError("forget_answers() takes several names of nodes; write handle.forget_answers([name])")
        self.snapshot.forget_answers(nodes)

    def queue_place(self, uid: str) -> str:
        """Return where a pod queues, or ""."""
        return self._dependencies.queue.place_of(uid) or ""

    def what_if(self) -> AbstractAsyncContextManager[WhatIf]:
        """Return an object that answers whether pods would fit, between two cycles."""
        return what_if(self.profile, self._dependencies.snapshot_access)

    def preemptor(self, plugin: str, rules: PreemptionRules) -> Preemption:
        """Return what makes room in the name of a plugin, by its rules; watch the budgets of victims.

        Raises `TypeError` for rules that cannot be called.
        """
        dependencies = self._dependencies
        for problem in check_rules(rules):
            dependencies.failures.warn(f'plugin "{plugin}": {problem}')
        dependencies.declare(BUDGETS)
        evictions = Evictions(
            plugin,
            handle=self,
            in_pre_bind=dependencies.pods_in_pre_bind,
            stories=dependencies.stories,
            in_background=dependencies.feature_gates.get("SchedulerAsyncPreemption", True),
            retry_after_backoff=self._retry_after_backoff,
        )
        made = self.preemptors[plugin] = Preemption(
            plugin,
            rules,
            handle=self,
            rng=dependencies.preemption_rng,
            extenders=dependencies.extenders,
            evictions=evictions,
        )
        return made

    def spawn(self, work: Coroutine[object, object, None], *, name: str = "") -> asyncio.Task[None]:
        """Run a coroutine beside the scheduler."""
        what = name or getattr(work, "__qualname__", "task")
        return self.background.spawn(work, name=f"{self.profile_name} {what}")

    def shared(self, key: str, make: Callable[[], S]) -> S:
        """Return the one object that plugins of all profiles share under `key`."""
        shared = self._dependencies.shared
        if key not in shared:
            shared[key] = make()
        return cast("S", shared[key])

    def add_route(self, path: str, handler: Callable[[Mapping[str, str]], object]) -> None:
        """Answer GET `path` beside the metrics."""
        self._dependencies.routes.add(path, handler, profile=self.profile_name)


def _several(pods: Iterable[Pod], method: str) -> Iterable[Pod]:
    """Return the pods; raise `TypeError` for one pod alone."""
    if isinstance(pods, Pod):
        raise TypeError(f"{method}() takes several pods; write handle.{method}([pod])")
    return pods
