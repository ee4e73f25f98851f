"""Find the nodes where a new volume for a claim can be provisioned.

The StorageClass may allow only certain topologies. If the driver reports its free capacity in CSIStorageCapacity
objects, the capacity must suffice.

Source: kube-scheduler 1.36, `volumebinding/binder.go`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from kube_objects.claims import claim_class
from kube_objects.requirements import IN, CompiledSelector, Requirement, requirement_errors
from pyscheduler.api import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    QuantityError,
    RawQuantity,
    SelectorError,
    StorageClass,
    TopologySelectorTerm,
    compile_label_selector,
    quantity_value,
)
from pyscheduler.framework.node_matching import match_labels
from pyscheduler.plugins.volume_binding.claims import ClaimError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pyscheduler.framework import Handle, Nodes

__all__ = ["BY_HAND", "Provisioning", "volume_limit"]

#: What a class names whose volumes are made by hand.
BY_HAND: Final = "kubernetes.io/no-provisioner"
_STORAGE: Final = "storage"


class Provisioning:
    """The possible new volumes by node, from the classes, drivers and capacities that the listers of `handle` have."""

    def __init__(self, handle: Handle) -> None:
        self._classes = handle.lister(StorageClass)
        self._drivers = handle.lister(CSIDriver)
        #: By class and `namespace/name`.
        self._capacities: dict[str, dict[str, CSIStorageCapacity]] = {}
        handle.lister(CSIStorageCapacity).add_event_handler(
            on_add=self._add, on_update=self._update, on_delete=self._remove
        )

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """Return the class that volumes for `claim` are made by, None where they are made by hand.

        Raises `ClaimError` where there is no such class.
        """
        name = claim_class(claim)
        if not name:
            raise ClaimError(f'no class for claim "{claim.key}"')
        found = self._classes.get(name)
        if found is None:
            raise ClaimError(f'failed to find storage class "{name}"')
        return None if found.provisioner in {"", BY_HAND} else found

    def allowed(self, storage_class: StorageClass, nodes: Nodes) -> NDArray[np.bool_]:
        """Return bool[n]: which nodes are in a topology that the class allows; all where it says nothing."""
        if not storage_class.allowed_topologies:
            return np.ones(len(nodes), dtype=np.bool_)
        found = np.zeros(len(nodes), dtype=np.bool_)
        for selector in _topologies(storage_class.allowed_topologies):
            found |= match_labels(selector, nodes)
        return found

    def has_room(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, nodes: Nodes
    ) -> NDArray[np.bool_] | None:
        """Return bool[n]: for which nodes a driver reports enough room; None where it does not report any."""
        if not self._is_reported(claim, storage_class):
            return None
        found = np.zeros(len(nodes), dtype=np.bool_)
        for capacity in self._sufficient(claim, storage_class):
            found |= _reached_from(capacity, nodes)
        return found

    def room_at(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Nodes
    ) -> CSIStorageCapacity | None:
        """Return the capacity by which the node of a view of one has room for `claim`; None where none is reported."""
        if not self._is_reported(claim, storage_class):
            return None
        sufficient = self._sufficient(claim, storage_class)
        return next((capacity for capacity in sufficient if _reached_from(capacity, node).all()), None)

    def _is_reported(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
        if _STORAGE not in claim.spec.resources.requests:
            return False
        driver = self._drivers.get(storage_class.provisioner)
        return driver is not None and bool(driver.spec.storage_capacity)

    def _sufficient(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Iterator[CSIStorageCapacity]:
        wanted = quantity_value(claim.spec.resources.requests[_STORAGE])
        for capacity in self._capacities.get(storage_class.name, {}).values():
            limit = volume_limit(capacity)
            if limit is not None and limit >= wanted:
                yield capacity

    def _add(self, capacity: CSIStorageCapacity) -> None:
        self._capacities.setdefault(capacity.storage_class_name, {})[capacity.key] = capacity

    def _update(self, old: CSIStorageCapacity, new: CSIStorageCapacity) -> None:
        self._remove(old)
        self._add(new)

    def _remove(self, capacity: CSIStorageCapacity) -> None:
        there = self._capacities.get(capacity.storage_class_name, {})
        there.pop(capacity.key, None)
        if not there:
            self._capacities.pop(capacity.storage_class_name, None)


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return the largest volume, in bytes, that there is room for; None where that is not said, or cannot be read."""
    raw: RawQuantity | None = capacity.maximum_volume_size
    if raw is None:
        raw = capacity.capacity
    try:
        return quantity_value(raw) if raw is not None else None
    except QuantityError:
        return None


def _reached_from(capacity: CSIStorageCapacity, nodes: Nodes) -> NDArray[np.bool_]:
    try:
        # A capacity without a topology is one that no node reaches.
        selector = compile_label_selector(capacity.node_topology)
    except SelectorError:
        return np.zeros(len(nodes), dtype=np.bool_)
    return match_labels(selector, nodes)


@lru_cache(maxsize=1 << 10)
def _topologies(terms: tuple[TopologySelectorTerm, ...]) -> tuple[CompiledSelector, ...]:
    """Return the selectors of topology terms; an empty one, or one that does not parse, selects no node."""
    selectors = []
    for term in terms:
        requirements = [Requirement(each.key, IN, each.values) for each in term.match_label_expressions]
        if requirements and not any(requirement_errors(*each) for each in requirements):
            selectors.append(CompiledSelector.of(requirements))
    return tuple(selectors)
