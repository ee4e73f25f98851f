"""The events that may make a rejected pod schedulable, as the plugins of a profile registered them.

Source: kube-scheduler 1.36, `fillEnqueueExtensions`, `buildQueueingHintMap`, `UnrollWildCardResource`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import reduce
from operator import or_
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
    from collections.abc import Callable, Sequence

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

#: The actions of events of pods and of nodes, by resource.
_ACTIONS: Final[Mapping[str, ActionType]] = {
    resource: ActionType.ADD
    | ActionType.DELETE
    | reduce(or_, (each for name, each in ActionType.__members__.items() if name.startswith(prefix)))
    for resource, prefix in ((EventResource.POD, "UPDATE_POD_"), (EventResource.NODE, "UPDATE_NODE_"))
}
_RESOURCES: Final = frozenset(map(str, EventResource))

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
    registered = _registered(register)
    nodes = [each.event.action for each in registered if each.event.resource == EventResource.NODE]
    actions = reduce(int.__or__, nodes, 0)
    if actions & ActionType.ADD.value and not actions & ActionType.UPDATE_NODE_TAINT.value:
        # A new node is often unready, hence tainted, and pods are not asked about it before that changes. So whoever
        # waits for nodes to be added waits for their taints to change as well.
        registered.append(ClusterEventWithHint(_NODE_TAINT))
    return registered


def _registered(register: Callable[[], object]) -> list[ClusterEventWithHint]:
    """Return what a plugin registers; say which member was meant if it names one that does not exist."""
    found: list[ClusterEventWithHint] = []
    try:
        answer = register()
    except AttributeError as error:
        if error.obj not in {EventResource, ActionType}:
            raise
        close = get_close_matches(error.name or "", error.obj.__members__, n=1)
        meant = f", did you mean {error.obj.__name__}.{close[0]}?" if close else ""
        text = f"{error.obj.__name__} has no member {error.name}{meant}"
        raise AttributeError(text).with_traceback(error.__traceback__) from None
    if not isinstance(answer, Iterable):
        what = type(answer).__name__
        raise TypeError(f"EventsToRegister returned {what}; expected a list of ClusterEventWithHint, [] for no event")
    for each in answer:
        if not isinstance(each, ClusterEventWithHint):
            raise TypeError(f"EventsToRegister returned a {type(each).__name__}; expected ClusterEventWithHint")
        _check(each)
        found.append(each)
    return found


def _check(registration: ClusterEventWithHint) -> None:
    """Raise `TypeError` or `ValueError` for a registration that would never match.

    kube-scheduler accepts these; the pods then wait until they are retried without an event. Types prove nothing of
    others' code.
    """
    event: object = registration.event
    if not isinstance(event, ClusterEvent):
        raise TypeError(f"ClusterEventWithHint takes a ClusterEvent, not {event!r}")
    resource: object = event.resource
    if not (isinstance(resource, str) and (resource in _RESOURCES or ("." in resource and "/" not in resource))):
        close = get_close_matches(str(resource).title(), _RESOURCES, n=1)
        meant = f', did you mean "{close[0]}"?' if close else ""
        raise ValueError(
            f"no events have the resource {resource!r}{meant}; custom kinds are plural.version.group, "
            "as event_resource(KIND) returns"
        )
    if int.__and__(event.action, _ACTIONS.get(resource, ActionType.ALL)) == 0:
        raise ValueError(f"no event of {resource} has the action {event.action!r}")
    hint: object = registration.queueing_hint
    if hint is not None and not callable(hint):
        raise TypeError(f"the queueing hint of {event.label} is {hint!r}; expected a function or None")


def with_extenders(
    registrations: Mapping[str, Sequence[ClusterEventWithHint]], *, generic_workload: bool = False
) -> Mapping[str, Sequence[ClusterEventWithHint]]:
    """Return the registrations, with one for the extenders first: they cannot say what they wait for."""
    return {EXTENDER: _anything(generic_workload=generic_workload), **registrations}
