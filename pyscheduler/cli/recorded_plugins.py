"""Plugins that repeat mistakes of kube-scheduler 1.36.2, for comparisons with its decisions.

`pyscheduler explain --cases` uses these plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import Namespace
from pyscheduler.framework import ActionType, ClusterEventWithHint, EventResource
from pyscheduler.plugins.default_preemption import DefaultPreemption, DefaultRules
from pyscheduler.plugins.dynamic_resources.plugin import DynamicResources
from pyscheduler.plugins.inter_pod_affinity.hints import Hints
from pyscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from pyscheduler.plugins.inter_pod_affinity.terms import Namespaces, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import AffinityTerm, Handle, NodeInfo, QueueingHintFn
    from pyscheduler.framework.in_tree_args import InterPodAffinityArgs
    from pyscheduler.runtime.assembly.registry import Registry

__all__ = ["use_recorded_plugins"]

_NO_LABELS: Final[Mapping[str, str]] = {}


def use_recorded_plugins(registry: Registry) -> None:
    """Replace the plugins that decide otherwise than kube-scheduler 1.36.2."""
    registry.replace(InterPodAffinity.name, _RecordedInterPodAffinity)
    registry.replace(DefaultPreemption.name, _RecordedDefaultPreemption)
    registry.replace(DynamicResources.name, _RecordedDynamicResources)


class _RecordedRules(DefaultRules):
    def is_stuck(self, node: NodeInfo, preemptor: Pod, now: float) -> bool:
        return False


class _RecordedDefaultPreemption(DefaultPreemption):
    name = DefaultPreemption.name
    rules_type = _RecordedRules


class _RecordedDynamicResources(DynamicResources):
    name = DynamicResources.name

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [
            each
            for each in super().events_to_register()
            if each.event.resource != EventResource.POD or not each.event.action & ActionType.DELETE
        ]


class _RecordedInterPodAffinity(InterPodAffinity):
    name = InterPodAffinity.name

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._namespaces = _RecordedNamespaces(handle.lister(Namespace))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        hints = _RecordedHints(lambda _: _NO_LABELS)
        known: Mapping[str, QueueingHintFn] = {
            EventResource.POD: hints.after_pod_change,
            EventResource.NODE: hints.after_node_change,
        }
        return [
            ClusterEventWithHint(each.event, known[each.event.resource])
            for each in super().events_to_register()
            if each.event.resource in known
        ]


class _RecordedNamespaces(Namespaces):
    __slots__ = ()

    def target(self, term: AffinityTerm) -> Target:
        found = super().target(term)
        return found._replace(namespaces=None) if term.namespace_selector.matches(_NO_LABELS) else found


class _RecordedHints(Hints):
    def _is_unwanted(self, terms: Sequence[AffinityTerm], pod: Pod) -> bool:
        return self._is_wanted(terms, pod)

    def _may_be_first(self, affinity: Sequence[AffinityTerm], pod: Pod, left: Pod) -> bool:
        return False
