"""Which events may make a pod schedulable again, as the plugins of a profile registered them.

Source: kube-scheduler 1.36, `fillEnqueueExtensions`, `buildQueueingHintMap`, `UnrollWildCardResource`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from pyscheduler.framework.interfaces import (
    FilterPlugin,
    PermitPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.framework.interfaces import Plugin

__all__ = ["EXTENDER", "registrations_of", "with_extenders"]

#: What stands for all extenders among the plugins that rejected a pod.
EXTENDER: Final = "Extender"

#: Only plugins of these kinds put a pod aside for an event; of others registrations mean nothing.
_REJECTING: Final = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)

#: What a plugin is taken to wait for that does not say: any change of a kind that scheduling looks at.
_ANYTHING: Final = tuple(
    ClusterEventWithHint(ClusterEvent(resource, ActionType.ALL))
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    )
)

#: With the gate GenericWorkload.
_ANYTHING_OF_GROUPS: Final = ClusterEventWithHint(ClusterEvent(EventResource.POD_GROUP, ActionType.ALL))

_NODE_TAINT: Final = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)


def _anything(*, generic_workload: bool) -> Sequence[ClusterEventWithHint]:
    return (*_ANYTHING, _ANYTHING_OF_GROUPS) if generic_workload else _ANYTHING


def registrations_of(plugin: Plugin, *, generic_workload: bool = False) -> Sequence[ClusterEventWithHint]:
    """Return what the plugin registers. Lets its exceptions through; raises `TypeError` for what is no registration.

    With the gate GenericWorkload, PodGroups are among what a plugin waits for that does not say.
    As in Go, a plugin that has the method registers, whether or not it names `EnqueueExtensions` among its bases: one
    that forgot to would be woken by everything, and nobody would notice.
    """
    if not isinstance(plugin, _REJECTING):
        return ()
    register = getattr(plugin, "events_to_register", None)
    if register is None:
        return _anything(generic_workload=generic_workload)
    registered = list(register())
    for each in registered:
        if not isinstance(each, ClusterEventWithHint):
            raise TypeError(f"EventsToRegister returned a {type(each).__name__}; expected ClusterEventWithHint")
    nodes = [each.event.action for each in registered if each.event.resource == EventResource.NODE]
    added = any(action & ActionType.ADD for action in nodes)
    if added and not any(action & ActionType.UPDATE_NODE_TAINT for action in nodes):
        # A new node is often unready, hence tainted, and pods are not asked about it before that changes. So whoever
        # waits for nodes to be added waits for their taints to change as well.
        registered.append(ClusterEventWithHint(_NODE_TAINT))
    return registered


def with_extenders(
    registrations: Mapping[str, Sequence[ClusterEventWithHint]], *, generic_workload: bool = False
) -> Mapping[str, Sequence[ClusterEventWithHint]]:
    """Return the registrations, with one for the extenders first: they cannot say what they wait for."""
    return {EXTENDER: _anything(generic_workload=generic_workload), **registrations}
