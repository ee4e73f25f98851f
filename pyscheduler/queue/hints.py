"""Queueing hints: decide whether an event is worth another attempt of a rejected pod.

A plugin registers the events after which it may accept a pod, each with or without a hint function. A hint function
returns QUEUE or SKIP for a pod. Without a hint function, the answer is always QUEUE. After an event, only the plugins
that rejected the pod decide:

* If no plugin registered the event, or all answers are SKIP, the pod keeps waiting.
* If any answer is QUEUE, the pod is retried after its backoff.
* The pod skips this backoff if a plugin that answers QUEUE had rejected the pod with the status PENDING.

Source: kube-scheduler 1.36, `isPodWorthRequeuing`.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pyscheduler.api import Pod
from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, QueueingHintFn
from pyscheduler.framework.plugin_failures import EVENT_HANDLER, HINT, SLOW_SECONDS, PluginFailures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kube_objects.clock import Clock
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.in_flight import ObservedEvent

__all__ = ["FORCE_ACTIVATE", "RETRY_AFTER", "UNSCHEDULABLE_TIMEOUT", "HintMap", "Matches", "QueueingHints", "Strategy"]

_log = logging.getLogger(__name__)

#: What one profile's plugins registered, in profile order: plugin name and hint function, None meaning always QUEUE.
HintMap: TypeAlias = Mapping[ClusterEvent, Sequence[tuple[str, QueueingHintFn | None]]]

#: `activate` asked for the pod.
FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")
#: The pod has been unschedulable for five minutes, and is retried without another event.
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")
#: The moment has come at which a plugin that rejected the pod wants it retried.
RETRY_AFTER: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "RetryAfter")


class Strategy(Enum):
    """The treatment of a waiting pod after an event."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class Matches(NamedTuple):
    """The registrations that match one event, by profile; plugins in profile order."""

    event: ClusterEvent
    #: The event's name in metrics.
    label: str
    #: Whether the event moves pods without a hint.
    is_wildcard: bool
    registrations: Mapping[str, Sequence[tuple[str, QueueingHintFn | None]]]
    #: The names of the plugins only.
    plugins: Mapping[str, frozenset[str]]
    #: Whether any plugin of any profile registered the event; True for the wildcard.
    is_of_interest: bool

    def may_move(self, scheduler_name: str, rejectors: frozenset[str]) -> bool:
        """Return True if the event may help pods of that profile that those plugins rejected."""
        if self.is_wildcard or not rejectors:
            return True
        plugins = self.plugins.get(scheduler_name)
        return plugins is None or not plugins.isdisjoint(rejectors)


class QueueingHints:
    """The registrations of all profiles, looked up by event."""

    def __init__(
        self,
        hints: Mapping[str, HintMap],
        *,
        clock: Clock,
        recorder: Recorder,
        failures: PluginFailures | None = None,
    ) -> None:
        self._hints = hints
        self._clock = clock
        self._recorder = recorder
        self._failures = failures if failures is not None else PluginFailures(recorder)
        #: A cache: there are few kinds of events.
        self._matches: dict[ClusterEvent, Matches] = {}

    def match(self, event: ClusterEvent) -> Matches:
        """Return the registrations that cover the event."""
        matches = self._matches.get(event)
        if matches is None:
            registrations = {
                scheduler_name: tuple(
                    registration
                    for registered, plugins in hint_map.items()
                    if registered.matches(event)
                    for registration in plugins
                )
                for scheduler_name, hint_map in self._hints.items()
            }
            plugins = {name: frozenset(plugin for plugin, _ in found) for name, found in registrations.items()}
            of_interest = event.is_wildcard or any(registrations.values())
            matches = Matches(event, event.label, event.is_wildcard, registrations, plugins, of_interest)
            self._matches[event] = matches
        return matches

    def evaluate(self, info: QueuedPodInfo, matches: Matches, old: object | None, new: object | None) -> Strategy:
        """Return the strategy that follows from the event, by the hints of the plugins that rejected the pod."""
        rejected_by, pending_for = info.unschedulable_plugins, info.pending_plugins
        if not rejected_by and not pending_for:
            return Strategy.AFTER_BACKOFF
        pod = info.pod
        if matches.is_wildcard:
            is_for_other = new is not None and not (isinstance(new, Pod) and new.uid == pod.uid)
            return Strategy.SKIP if is_for_other else Strategy.AFTER_BACKOFF
        registrations = matches.registrations.get(pod.scheduler_name)
        if registrations is None:
            _log.error("No queueing hints are known for profile=%s pod=%s", pod.scheduler_name, pod.key)
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for plugin, hint in registrations:
            is_pending = plugin in pending_for
            if not is_pending and plugin not in rejected_by:
                continue
            if not self._is_worth_it(plugin, hint, pod, matches.label, old, new):
                continue
            if is_pending:
                return Strategy.IMMEDIATELY
            if not pending_for:
                return Strategy.AFTER_BACKOFF
            # A pending plugin later in the profile may still return IMMEDIATELY.
            strategy = Strategy.AFTER_BACKOFF
        return strategy

    def evaluate_all(self, info: QueuedPodInfo, events: Iterable[ObservedEvent]) -> Strategy:
        """Return the best strategy that follows from several events."""
        best = Strategy.SKIP
        for event, old, new, _, _ in events:
            strategy = self.evaluate(info, self.match(event), old, new)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                best = strategy
                if not info.pending_plugins:
                    break
        return best

    def ignores(self, ignored_by: Callable[[Pod], bool], pod: Pod) -> bool:
        """Return True if a plugin's predicate says that the pod ignores an event; False if the predicate fails."""
        try:
            return bool(ignored_by(pod))
        except PLUGIN_FAILURES as error:
            self._failures.report(error, plugin="", point=EVENT_HANDLER, about=f"pod={pod.key}", call=ignored_by)
            return False

    def _is_worth_it(
        self, plugin: str, hint: QueueingHintFn | None, pod: Pod, event: str, old: object | None, new: object | None
    ) -> bool:
        """Return True unless the plugin's hint is SKIP; a hint that fails counts as QUEUE, so that no pod is stuck."""
        label = "Queue"
        began = self._clock.now()
        if hint is not None:
            try:
                answer: object = hint(pod, old, new)  # of others' code, types prove nothing
                if answer is QueueingHint.SKIP:
                    label = "QueueSkip"
                elif answer is not QueueingHint.QUEUE:
                    if isinstance(answer, Coroutine):
                        answer.close()
                    expected = "QueueingHint.QUEUE or QueueingHint.SKIP"
                    raise TypeError(f"{HINT} returned {type(answer).__name__}; expected {expected}")
            except PLUGIN_FAILURES as error:
                label = "Error"
                about = f"event={event} pod={pod.key}"
                self._failures.report(
                    error, plugin=plugin, point=HINT, about=about, call=hint, warning="queueing_hint_failed"
                )
        now = self._clock.now()
        if now - began >= SLOW_SECONDS:
            about = f"event={event} pod={pod.key}"
            self._failures.slow(plugin=plugin, point=HINT, about=about, seconds=now - began, now=now)
        name = "scheduler_queueing_hint_execution_duration_seconds"
        self._recorder.observe(name, now - began, plugin, event, label)
        return label != "QueueSkip"
