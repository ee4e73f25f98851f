"""An index of PersistentVolumes: free volumes by storage class, other volumes by the claim that they name."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import attrs

from kube_objects.claims import volume_class
from kube_objects.requirements import IN
from pyscheduler.api import (
    CompiledNodeSelector,
    PersistentVolume,
    QuantityError,
    VolumeNodeAffinity,
    compile_node_selector,
    parse_quantity,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.framework import Lister

__all__ = ["Item", "Traits", "VolumeGroup", "VolumeIndex", "item_of", "volume_selector"]

K = TypeVar("K")

_FILESYSTEM: Final = "Filesystem"


class Traits(NamedTuple):
    """Traits that must suit a claim besides the size: mode, attributes class, access modes; equal for most volumes."""

    mode: str
    attributes: str
    access_modes: frozenset[str]

    @classmethod
    def of(cls, mode: str | None, attributes: str | None, access_modes: Iterable[str]) -> Traits:
        """Return the traits of a volume, or those that a claim asks for."""
        return cls(mode or _FILESYSTEM, attributes or "", frozenset(access_modes))


class Item(NamedTuple):
    """A volume with its size in nanos (see `api.quantity`). Items are in order of size, then of name."""

    size: int
    name: str
    volume: PersistentVolume
    traits: Traits


@lru_cache(maxsize=1 << 14)
def volume_selector(affinity: VolumeNodeAffinity | None) -> CompiledNodeSelector | None:
    """Return which nodes reach a volume with this affinity; None for all. Names of nodes do not count, only labels."""
    if affinity is None or affinity.required is None:
        return None
    compiled = compile_node_selector(affinity.required)
    return CompiledNodeSelector(tuple(term._replace(names=()) for term in compiled.terms))


@attrs.define
class VolumeGroup:
    """Volumes in order of size, separated by the nodes that reach them."""

    #: Those that every node reaches.
    anywhere: list[Item] = attrs.Factory(list)
    #: Those that need one of some values of a label: by label, then by value.
    by_label: dict[str, dict[str, list[Item]]] = attrs.Factory(dict)
    #: The others, by what they need.
    others: dict[CompiledNodeSelector, list[Item]] = attrs.Factory(dict)

    def put(self, item: Item) -> None:
        """Add a volume."""
        selector = volume_selector(item.volume.spec.node_affinity)
        values = _values_of_one_label(selector)
        if selector is None:
            insort(self.anywhere, item)
        elif values is not None:
            by_value = self.by_label.setdefault(values[0], {})
            for value in values[1]:
                insort(by_value.setdefault(value, []), item)
        else:
            insort(self.others.setdefault(selector, []), item)

    def take(self, item: Item) -> None:
        """Remove a volume that is in the group."""
        selector = volume_selector(item.volume.spec.node_affinity)
        values = _values_of_one_label(selector)
        if selector is None:
            _remove(self.anywhere, item)
        elif values is not None:
            by_value = self.by_label[values[0]]
            for value in values[1]:
                _remove_below(by_value, value, item)
            if not by_value:
                del self.by_label[values[0]]
        else:
            _remove_below(self.others, selector, item)

    @property
    def is_empty(self) -> bool:
        """Return True if the group has no volume."""
        return not (self.anywhere or self.by_label or self.others)

    @property
    def labels(self) -> Iterator[str]:
        """The node labels that decide which volumes a node reaches."""
        yield from self.by_label
        for selector in self.others:
            for term in selector.terms:
                for requirement in term.labels.requirements:
                    yield requirement.key

    def reached(self, labels: Mapping[str, str]) -> Iterator[list[Item]]:
        """Yield lists, each in order, that together hold what a node with these labels reaches."""
        yield self.anywhere
        for label, by_value in self.by_label.items():
            value = labels.get(label)
            if value in by_value:
                yield by_value[value]
        for selector, items in self.others.items():
            if selector.matches(labels, ""):
                yield items


class VolumeIndex:
    """The groups of all classes, and volumes by the claim they name; follows the lister."""

    def __init__(self, lister: Lister[PersistentVolume]) -> None:
        self._groups: dict[str, VolumeGroup] = {}
        self._promised: dict[str, dict[str, Item]] = {}
        #: How often volumes came or went, or changed.
        self.changes = 0
        lister.add_event_handler(on_add=self._add, on_update=self._update, on_delete=self._remove)

    def free(self, class_name: str) -> VolumeGroup:
        """Return the group of a class: volumes that are available and that name no claim. Not to be changed."""
        return self._groups.get(class_name, _EMPTY)

    def promised(self, claim_key: str) -> Iterator[Item]:
        """Yield the volumes that name the claim `namespace/name`."""
        return iter(self._promised.get(claim_key, {}).values())

    def _add(self, volume: PersistentVolume) -> None:
        self.changes += 1
        item = item_of(volume)
        if item is None:
            return
        claim = volume.spec.claim_ref
        if claim is not None:
            self._promised.setdefault(f"{claim.namespace}/{claim.name}", {})[volume.name] = item
        elif volume.status.phase == "Available":
            self._groups.setdefault(volume_class(volume), VolumeGroup()).put(item)

    def _update(self, old: PersistentVolume, new: PersistentVolume) -> None:
        self._remove(old)
        self._add(new)

    def _remove(self, volume: PersistentVolume) -> None:
        self.changes += 1
        item = item_of(volume)
        if item is None:
            return
        claim = volume.spec.claim_ref
        if claim is not None:
            key = f"{claim.namespace}/{claim.name}"
            del self._promised[key][volume.name]
            if not self._promised[key]:
                del self._promised[key]
        elif volume.status.phase == "Available":
            name = volume_class(volume)
            self._groups[name].take(item)
            if self._groups[name].is_empty:
                del self._groups[name]


_EMPTY: Final = VolumeGroup()


def item_of(volume: PersistentVolume) -> Item | None:
    """Return the item of a volume; None if the volume is being deleted or its size does not parse."""
    if volume.metadata.deletion_timestamp is not None:
        return None
    spec = volume.spec
    try:
        size = parse_quantity(spec.capacity.get("storage", 0))
    except QuantityError:
        return None
    traits = Traits.of(spec.volume_mode, spec.volume_attributes_class_name, spec.access_modes)
    return Item(size, volume.name, volume, traits)


@lru_cache(maxsize=1 << 14)
def _values_of_one_label(selector: CompiledNodeSelector | None) -> tuple[str, tuple[str, ...]] | None:
    """Return the label and the values of a selector that asks for nothing else, None for any other."""
    if selector is None or len(selector.terms) != 1 or selector.terms[0].errors:
        return None
    requirements = selector.terms[0].labels.requirements
    if len(requirements) != 1 or requirements[0].operator != IN:
        return None
    return requirements[0].key, tuple(dict.fromkeys(requirements[0].values))


def _remove(items: list[Item], item: Item) -> None:
    del items[bisect_left(items, item[:2], key=lambda each: each[:2])]


def _remove_below(lists: dict[K, list[Item]], key: K, item: Item) -> None:
    _remove(lists[key], item)
    if not lists[key]:
        del lists[key]
