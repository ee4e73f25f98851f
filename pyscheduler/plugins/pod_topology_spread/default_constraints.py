"""Default topology spread constraints, for pods without constraints of their own.

The constraints come from the profile. They spread the pods of one Service, ReplicaSet, StatefulSet or
ReplicationController.
Source: kube-scheduler 1.36, `plugins/helper/spread.go` and `plugins/podtopologyspread`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import (
    EVERYTHING,
    NOTHING,
    CompiledSelector,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    SelectorError,
    Service,
    StatefulSet,
    TopologySpreadConstraint,
    compile_label_selector,
    selector_from_labels,
)
from pyscheduler.plugins.pod_topology_spread.constraints import SOFT, Constraint, compile_constraints

if TYPE_CHECKING:
    from pyscheduler.framework import Handle

__all__ = ["SYSTEM_CONSTRAINTS", "DefaultConstraints"]

SYSTEM_CONSTRAINTS: Final = (
    TopologySpreadConstraint(topology_key="kubernetes.io/hostname", when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SOFT, max_skew=5),
)
"""The constraints by which pods are spread where the profile says nothing else."""


class DefaultConstraints:
    """The default constraints of a profile, made out for a pod."""

    __slots__ = ("_by_action", "_constraints", "_handle", "_services")

    def __init__(self, constraints: Sequence[TopologySpreadConstraint], handle: Handle) -> None:
        self._constraints = tuple(constraints)
        self._handle = handle
        self._by_action: dict[str, tuple[Constraint, ...]] = {}
        self._services = _Services()
        services = handle.lister(Service)
        services.add_event_handler(
            on_add=self._services.add, on_update=self._services.update, on_delete=self._services.remove
        )

    def of(self, pod: Pod, action: str) -> tuple[Constraint, ...]:
        """Return the constraints that say `action`, none where nothing tells which pods belong together."""
        constraints = self._by_action.get(action)
        if constraints is None:
            constraints = self._by_action[action] = compile_constraints(self._constraints, action, {})
        if not constraints:
            return ()
        selector = self._selector(pod)
        if selector.is_empty:
            return ()
        return tuple(attrs.evolve(each, selector=selector) for each in constraints)

    def _selector(self, pod: Pod) -> CompiledSelector:
        labels: dict[str, str] = {}
        for selected in self._services.selecting(pod):
            labels.update(selected)
        owners = pod.metadata.owner_references
        if not labels and not owners:
            return EVERYTHING
        owner = next((each for each in owners if each.controller), None)
        if owner is None:
            return selector_from_labels(labels)
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            controller = self._handle.lister(ReplicationController).get(owner.name, pod.namespace)
            if controller is not None:
                labels.update(controller.spec.selector)
            return selector_from_labels(labels)
        selector, owned = selector_from_labels(labels), self._owner_selector(owner, pod.namespace)
        if owned is None:
            return selector
        return CompiledSelector.of(dict.fromkeys((*selector.requirements, *owned.requirements)))

    def _owner_selector(self, owner: OwnerReference, namespace: str) -> CompiledSelector | None:
        """Return the selector of a replica set or stateful set; None where there is none, or none to be read."""
        found: ReplicaSet | StatefulSet | None = None
        if owner.api_version == "apps/v1":
            if owner.kind == "ReplicaSet":
                found = self._handle.lister(ReplicaSet).get(owner.name, namespace)
            elif owner.kind == "StatefulSet":
                found = self._handle.lister(StatefulSet).get(owner.name, namespace)
        if found is None:
            return None
        try:
            selector = compile_label_selector(found.spec.selector)
        except SelectorError:
            return None
        return None if selector == NOTHING else selector


class _Services:
    """Services by namespace and by one of the labels they ask for, so that a pod looks at few of them."""

    __slots__ = ("_by_label",)

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str, str], dict[str, Mapping[str, str]]] = {}

    def add(self, service: Service) -> None:
        selector = service.spec.selector
        if selector:  # an empty one adds nothing to what pods are selected by
            self._by_label.setdefault(_anchor(service), {})[service.name] = selector

    def update(self, old: Service, new: Service) -> None:
        self.remove(old)
        self.add(new)

    def remove(self, service: Service) -> None:
        if service.spec.selector:
            anchor = _anchor(service)
            services = self._by_label.get(anchor, {})
            services.pop(service.name, None)
            if not services:
                self._by_label.pop(anchor, None)

    def selecting(self, pod: Pod) -> Iterator[Mapping[str, str]]:
        """Yield the selectors of the services that select `pod`."""
        if not self._by_label:
            return
        namespace, labels = pod.namespace, pod.labels
        for key, value in labels.items():
            for selector in self._by_label.get((namespace, key, value), {}).values():
                if selector.items() <= labels.items():
                    yield selector


def _anchor(service: Service) -> tuple[str, str, str]:
    return (service.namespace, *min(service.spec.selector.items()))
