"""Find the PersistentVolumes to which an unbound claim can be bound.

Source: kube-scheduler 1.36, `component-helpers/storage/volume/pv_helpers.go`, `FindMatchingVolume`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kube_objects.claims import claim_class, volume_class
from pyscheduler.api import (
    CompiledSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    compile_label_selector,
    parse_quantity,
)
from pyscheduler.framework.node_matching import match_node_selector
from pyscheduler.plugins.volume_binding.volume_index import Item, Traits, VolumeGroup, VolumeIndex, item_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from numpy.typing import NDArray

    from pyscheduler.framework import Nodes
    from pyscheduler.plugins.volume_binding.assume_cache import AssumeCache

__all__ = ["Candidates", "find_candidates", "is_promised", "requested_storage"]

_STORAGE: Final = "storage"


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """Return what the claim asks for, in nanos (see `api.quantity`), 0 where it does not say; raise `QuantityError`."""
    raw = claim.spec.resources.requests.get(_STORAGE)
    return parse_quantity(raw) if raw is not None else 0


def is_promised(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume names that claim; where it names a uid, it must be the claim's."""
    reference = volume.spec.claim_ref
    if reference is None or (reference.namespace, reference.name) != (claim.namespace, claim.name):
        return False
    return not reference.uid or reference.uid == claim.uid


def find_candidates(
    claim: PersistentVolumeClaim, index: VolumeIndex, volumes: AssumeCache[PersistentVolume]
) -> Candidates:
    """Return the volumes that `claim` may take; raise `SelectorError` or `QuantityError` where it does not parse."""
    selector = compile_label_selector(claim.spec.selector) if claim.spec.selector is not None else None
    demand = _Demand(claim, requested_storage(claim), selector, volumes)
    promised = [
        item._replace(volume=volumes.current(item.volume))
        for item in index.promised(claim.key)
        if demand.is_met_by_promised(item)
    ]
    promised += demand.assumed()
    found = Candidates(index.free(claim_class(claim)), demand)
    # Only where a pod has one claim twice is it asked for a second volume.
    for item in sorted({each.name: each for each in promised}.values(), key=lambda each: each.name, reverse=True):
        group = VolumeGroup()
        group.put(item)
        found = Candidates(group, otherwise=found, promised=item.name)
    return found


class _Demand:
    """The demands of a claim on a free volume."""

    def __init__(
        self,
        claim: PersistentVolumeClaim,
        size: int,
        selector: CompiledSelector | None,
        volumes: AssumeCache[PersistentVolume],
    ) -> None:
        self._claim = claim
        self._size = size
        self._selector = selector
        self._volumes = volumes
        spec = claim.spec
        self._traits = Traits.of(spec.volume_mode, spec.volume_attributes_class_name, spec.access_modes)
        self._suitable: dict[Traits, bool] = {}
        #: Volumes that pods took whose claims the API server has not heard of yet.
        self._taken = {
            name for name in volumes.assumed if (now := volumes.get(name)) and now.spec.claim_ref is not None
        }

    def is_met_by(self, item: Item) -> bool:
        """Return whether the claim may have a free volume."""
        if item.size < self._size or item.name in self._taken:
            return False
        suits = self._suitable.get(item.traits)
        if suits is None:
            suits = self._suitable[item.traits] = self._suits(item.traits) and (
                self._traits.access_modes <= item.traits.access_modes
            )
        return suits and (self._selector is None or self._selector.matches(item.volume.labels))

    def is_met_by_promised(self, item: Item) -> bool:
        """Return whether the claim may have a volume that names a claim of its name, which need not offer its modes."""
        return (
            is_promised(item.volume, self._claim)
            and volume_class(item.volume) == claim_class(self._claim)
            and item.size >= self._size
            and self._suits(item.traits)
        )

    def assumed(self) -> Iterator[Item]:
        """Yield the volumes that name the claim, as far as was decided here: for another pod that uses it, too."""
        for name in self._taken:
            volume = self._volumes.get(name)
            item = item_of(volume) if volume is not None and is_promised(volume, self._claim) else None
            if item is not None and self.is_met_by_promised(item):
                yield item

    def _suits(self, traits: Traits) -> bool:
        return (traits.mode, traits.attributes) == (self._traits.mode, self._traits.attributes)


class Candidates:
    """The volumes of a group that meet a demand; all of them without a demand.

    If the claim was `promised` a volume, the group holds only that volume; `otherwise` applies when it is taken.
    """

    def __init__(
        self,
        group: VolumeGroup,
        demand: _Demand | None = None,
        *,
        promised: str = "",
        otherwise: Candidates | None = None,
    ) -> None:
        self.group = group
        self._demand = demand
        self._promised = promised
        self._otherwise = otherwise

    @property
    def labels(self) -> Iterator[str]:
        """The labels of nodes on which it depends what the best volume is."""
        yield from self.group.labels
        if self._otherwise is not None:
            yield from self._otherwise.labels

    def reachable(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Return bool[n]: which nodes reach one of the volumes."""
        if self._any(self.group.anywhere):
            return np.ones(len(nodes), dtype=np.bool_)
        found = np.zeros(len(nodes), dtype=np.bool_)
        for label, by_value in self.group.by_label.items():
            column = nodes.labels(label)
            number_of = column.index.get
            met = [number_of(value, 0) for value, items in by_value.items() if self._any(items)]
            has = np.zeros(len(column.values), dtype=np.bool_)
            has[met] = True
            has[0] = False
            found |= has[column.ids]
        for selector, items in self.group.others.items():
            if self._any(items):
                found |= match_node_selector(selector, nodes)
        return found

    def first(self, labels: Mapping[str, str], taken: Container[str] = ()) -> PersistentVolume | None:
        """Return the best volume that a node with these labels reaches and that is not `taken` (by name)."""
        if self._otherwise is not None and self._promised in taken:
            return self._otherwise.first(labels, taken)
        best: Item | None = None
        for items in self.group.reached(labels):
            for item in items:
                if best is not None and item[:2] >= best[:2]:
                    break
                if item.name not in taken and self._meets(item):
                    best = item
                    break
        return best.volume if best is not None else None

    def _any(self, items: list[Item]) -> bool:
        meets = self._meets
        return any(meets(item) for item in items)

    def _meets(self, item: Item) -> bool:
        return self._demand is None or self._demand.is_met_by(item)
