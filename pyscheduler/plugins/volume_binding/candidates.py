"""The volumes that a waiting claim may take, best first, and from which nodes they are reached.

A volume that names the claim is taken or nothing is. Else it is the smallest that is large enough, is of the claim's
class, mode, attributes class and access modes, and bears the labels that the claim selects; among equals, by name.
Source: kube-scheduler 1.36, `component-helpers/storage/volume/pv_helpers.go`, `FindMatchingVolume`.

What depends on the node is the volume's node affinity alone. Most volumes have one that names values of one label (the
zone, or the host of a local disk); those are kept by label and value, so that a node finds its own without looking at
those of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import (
    CompiledNodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    QuantityError,
    VolumeNodeAffinity,
    compile_label_selector,
    compile_node_selector,
    parse_quantity,
)
from pyscheduler.api.claims import claim_class, volume_class
from pyscheduler.framework.node_matching import match_node_selector

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework import Nodes
    from pyscheduler.plugins.volume_binding.assume_cache import AssumeCache, VolumeIndex

__all__ = ["Candidates", "find_candidates", "is_promised", "requested_storage", "volume_selector"]

_STORAGE: Final = "storage"
_FILESYSTEM: Final = "Filesystem"


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """Return what the claim asks for, in nanos (see `api.quantity`), 0 where it does not say; raise `QuantityError`."""
    raw = claim.spec.resources.requests.get(_STORAGE)
    return parse_quantity(raw) if raw is not None else 0


@lru_cache(maxsize=1 << 14)
def volume_selector(affinity: VolumeNodeAffinity | None) -> CompiledNodeSelector | None:
    """Return which nodes reach a volume with this affinity; None for all. Names of nodes do not count, only labels."""
    if affinity is None or affinity.required is None:
        return None
    compiled = compile_node_selector(affinity.required)
    return CompiledNodeSelector(tuple(term._replace(names=()) for term in compiled.terms))


def is_promised(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a volume names that claim; where it names a uid, it must be the claim's."""
    reference = volume.spec.claim_ref
    if reference is None or (reference.namespace, reference.name) != (claim.namespace, claim.name):
        return False
    return not reference.uid or reference.uid == claim.uid


def find_candidates(
    claim: PersistentVolumeClaim, index: VolumeIndex, volumes: AssumeCache[PersistentVolume]
) -> Candidates:
    """Return the volumes that `claim` may take; raise `SelectorError` or `QuantityError` where it does not parse."""
    wanted = requested_storage(claim)
    of_class = claim_class(claim)
    selector = compile_label_selector(claim.spec.selector) if claim.spec.selector is not None else None
    modes = set(claim.spec.access_modes)
    promised = []
    sized = []
    for stored in chain(index.promised(claim.key), index.free(of_class)):
        volume = volumes.current(stored)
        size = _suits(volume, claim, wanted) if volume_class(volume) == of_class else None
        if size is None:
            continue
        if volume.spec.claim_ref is not None:
            if is_promised(volume, claim):
                promised.append(volume)
        elif modes.issubset(volume.spec.access_modes) and (selector is None or selector.matches(volume.labels)):
            sized.append((size, volume.name, volume))
    if promised:
        return Candidates([min(promised, key=lambda each: each.name)])
    sized.sort(key=lambda each: each[:2])
    return Candidates([volume for _, _, volume in sized])


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim, wanted: int) -> int | None:
    """Return the size of a volume, in nanos, None where the claim cannot have it whatever the node."""
    if volume.metadata.deletion_timestamp is not None:
        return None
    if (volume.spec.volume_mode or _FILESYSTEM) != (claim.spec.volume_mode or _FILESYSTEM):
        return None
    if (volume.spec.volume_attributes_class_name or "") != (claim.spec.volume_attributes_class_name or ""):
        return None
    try:
        size = parse_quantity(volume.spec.capacity.get(_STORAGE, 0))
    except QuantityError:
        return None  # nobody can tell how large it is
    return size if size >= wanted else None


class Candidates:
    """Volumes, best first."""

    def __init__(self, volumes: Sequence[PersistentVolume]) -> None:
        self.volumes = tuple(volumes)
        #: The numbers of the volumes that every node reaches, by label and value those that need one of these, and
        #: the others, with their selectors.
        self._anywhere: list[int] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self._others: dict[CompiledNodeSelector, list[int]] = {}
        for number, volume in enumerate(self.volumes):
            self._file(number, volume_selector(volume.spec.node_affinity))

    def reachable(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Return bool[n]: which nodes reach one of the volumes."""
        if self._anywhere:
            return np.ones(len(nodes), dtype=np.bool_)
        found = np.zeros(len(nodes), dtype=np.bool_)
        for label, by_value in self._by_label.items():
            column = nodes.labels(label)
            has = np.zeros(len(column.values), dtype=np.bool_)
            has[[number for value in by_value if (number := column.id_of(value)) >= 0]] = True
            found |= has[column.ids]
        for selector in self._others:
            found |= match_node_selector(selector, nodes)
        return found

    def first(self, labels: Mapping[str, str], taken: Container[str]) -> PersistentVolume | None:
        """Return the best volume that a node with these labels reaches and that is not `taken` (by name)."""
        best = min((number for numbers in self._reached(labels) for number in self._left(numbers, taken)), default=None)
        return self.volumes[best] if best is not None else None

    @property
    def labels(self) -> Iterator[str]:
        """The labels of nodes on which it depends which volumes a node reaches."""
        yield from self._by_label
        for selector in self._others:
            for term in selector.terms:
                for requirement in term.labels.requirements:
                    yield requirement.key

    def _reached(self, labels: Mapping[str, str]) -> Iterator[Iterable[int]]:
        yield self._anywhere
        for label, by_value in self._by_label.items():
            value = labels.get(label)
            if value is not None:
                yield by_value.get(value, ())
        for selector, numbers in self._others.items():
            if selector.matches(labels, ""):
                yield numbers

    def _left(self, numbers: Iterable[int], taken: Container[str]) -> Iterator[int]:
        """Yield the first of `numbers`, which ascend, whose volume is not taken."""
        for number in numbers:
            if self.volumes[number].name not in taken:
                yield number
                return

    def _file(self, number: int, selector: CompiledNodeSelector | None) -> None:
        if selector is None:
            self._anywhere.append(number)
            return
        if len(selector.terms) == 1 and not selector.terms[0].errors:
            requirements = selector.terms[0].labels.requirements
            if len(requirements) == 1 and requirements[0].operator == "In":
                by_value = self._by_label.setdefault(requirements[0].key, {})
                for value in requirements[0].values:
                    by_value.setdefault(value, []).append(number)
                return
        self._others.setdefault(selector, []).append(number)
