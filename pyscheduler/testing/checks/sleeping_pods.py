"""Find pods that would be bound if the scheduler tried them, but wait for an event that never comes.

The usual cause is a queueing hint that answered SKIP, or an event that the plugin did not register.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyscheduler.framework.events import QueueingHint
from pyscheduler.queue.sub_queues import QueuePlace
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.testing.checks.plugin_calls import describe

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework.events import ClusterEvent, QueueingHintFn
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.testing.checks.observation import Observation
    from pyscheduler.testing.checks.probes import Probes
    from pyscheduler.testing.fake_framework import FakeFramework

__all__ = ["SleepingPods"]


class SleepingPods:
    """Looks for pods asleep after each step, and keeps the events and the answers of the hints of that step."""

    def __init__(self, framework: FakeFramework, profile: Profile, probes: Probes, seen: Observation) -> None:
        self._framework = framework
        self._profile = profile
        self._probes = probes
        self._seen = seen
        self._events: list[ClusterEvent] = []
        #: By uid: the hints that answered SKIP.
        self._skips: dict[str, list[str]] = {}
        self._observe_events()
        self._observe_hints()

    def begin_step(self) -> None:
        """Forget the events of the step before."""
        self._events.clear()
        self._skips.clear()

    async def check(self) -> None:
        """Add a finding for each pod that the plugin left asleep."""
        scheduler, name = self._framework.scheduler, self._seen.plugin
        for pod in scheduler.queue.pending_pods():
            if scheduler.queue.place_of(pod.uid) is not QueuePlace.UNSCHEDULABLE:
                continue
            info = scheduler.queue.get(pod.uid)
            if info is None or pod.scheduler_name != self._profile.name:
                continue
            rejectors = {*info.unschedulable_plugins, *info.pending_plugins, info.gating_plugin}
            if name not in rejectors:
                continue
            found = await evaluate(scheduler, self._profile, pod, post_filter=False)
            if found.error is not None or found.pre_enqueue is not None or found.fit_error is not None:
                continue
            # A plugin may still reject the pod at Reserve or Permit: only trying shows it.
            events, skips = [*self._events], [*self._skips.get(pod.uid, ())]
            is_gated = info.gating_plugin == name
            rejections = self._probes.rejections.get(pod.uid)
            scheduler.queue.activate([pod])
            await self._framework.settle()
            result = self._framework.result(pod.name, namespace=pod.namespace)
            if result.node is None:
                continue
            if not is_gated and rejections is None and result.state == "waiting":
                continue  # the last attempt had a node, too, and ended after Filter: at Permit, nothing has changed
            if not is_gated and rejections is not None:
                former = rejections.get(result.node)
                if former is not None and former.plugin not in {"", name}:
                    continue  # another plugin rejected this node: its hints had to report the change
            self._report(pod, result.node, events, skips)

    def _report(self, pod: Pod, node: str, events: list[ClusterEvent], skips: list[str]) -> None:
        labels = sorted({event.label for event in events})
        what = f"pod {pod.key} sleeps among the unschedulable pods, but node {node} takes it now"
        registered = self._profile.registered_events().get(self._seen.plugin, ())
        place = self._probes.place("events_to_register")
        if skips:
            what += f"; the hint answered SKIP: {', '.join(dict.fromkeys(skips))}"
            place = skips[-1].rpartition(" for ")[0]
        elif labels:
            mine = ", ".join(sorted(event.label for event in registered)) or "no event"
            what += f"; the step caused {', '.join(labels)}, but the plugin registers {mine}"
        else:
            what += "; no event was announced: the pod itself changed, time passed, or nobody watches what changed"
        self._seen.add("hints", place, what)

    def _observe_events(self) -> None:
        queue = self._framework.scheduler.queue
        move_all = queue.move_all

        def observed(event: ClusterEvent, *arguments: Any, **keywords: Any) -> None:
            self._events.append(event)
            move_all(event, *arguments, **keywords)

        queue.move_all = observed  # type: ignore[method-assign]  # the handlers look it up at each event

    def _observe_hints(self) -> None:
        """Put an observer around each hint of the plugin."""
        for event, registrations in self._profile.hints().items():
            assert isinstance(registrations, list)
            for place, (plugin, hint) in enumerate(registrations):
                if plugin == self._seen.plugin and hint is not None:
                    registrations[place] = (plugin, self._observed_hint(event, hint))

    def _observed_hint(self, event: ClusterEvent, hint: QueueingHintFn) -> QueueingHintFn:
        name = describe(hint, self._seen.plugin)

        def observed(pod: Pod, old: object | None, new: object | None, /) -> QueueingHint:
            try:
                answer: object = hint(pod, old, new)
            except Exception as error:
                self._seen.add("raises", name, f"the hint for pod {pod.key} raised {type(error).__name__}: {error}")
                raise
            if not isinstance(answer, QueueingHint):
                self._seen.add("statuses", name, f"the hint for pod {pod.key} returned {answer!r}, no QueueingHint")
            if answer is QueueingHint.SKIP:
                self._skips.setdefault(pod.uid, []).append(f"{name} for {event.label}")
            return cast("QueueingHint", answer)

        return observed
