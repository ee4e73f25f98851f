"""The devices of the cluster by pool, and the devices that each node can use.

A driver publishes the devices of a pool in ResourceSlices.

Differs from kube-scheduler: selectors are evaluated only for devices that the node can use.
Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from pyscheduler.plugins.dynamic_resources.features import ALL_FEATURES, Features
from pyscheduler.plugins.dynamic_resources.slices import SliceContent, read_slice

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from pyscheduler.api import Node, ResourceSlice
    from pyscheduler.plugins.dynamic_resources.allocated import DeviceId
    from pyscheduler.plugins.dynamic_resources.selectors import DeviceSelectors
    from pyscheduler.plugins.dynamic_resources.slices import CounterKey, PoolDevice, PoolId

__all__ = ["Candidate", "Inventory", "NodeOffer", "Pool"]

_MOST_LOOKS: Final = 200_000


@attrs.define(eq=False)
class Pool:
    """The devices of a pool that a node can reach, `devices`, and the others."""

    id: PoolId
    generation: int
    incomplete: bool = False
    #: Why nothing can be allocated from the pool, or "".
    problem: str = ""
    devices: tuple[PoolDevice, ...] = ()
    others: tuple[PoolDevice, ...] = ()
    counters: Mapping[CounterKey, int] = attrs.field(factory=dict)
    is_slow: bool = False

    @property
    def is_usable(self) -> bool:
        """Return whether devices can be allocated from it."""
        return not self.incomplete and not self.problem


class Candidate(NamedTuple):
    """A device of a pool that a node can reach."""

    device: PoolDevice
    pool: Pool


@attrs.define(eq=False)
class NodeOffer:
    """The pools that a node can reach, and the devices of those that are usable, in the order of preference."""

    pools: tuple[Pool, ...]
    candidates: tuple[Candidate, ...]
    #: Of the candidates.
    ids: tuple[DeviceId, ...]
    #: The pools that have counters.
    counting: tuple[Pool, ...]
    #: By candidate, from which of `counting` it takes; -1 where it takes from none.
    takes_from: tuple[int, ...]
    #: A pool that is not usable, if there is one.
    bad_pool: Pool | None
    #: All pools of which the node reaches a slice, be it outdated.
    reached: frozenset[PoolId]
    #: The same for offers of devices that are equal but for their names, as long as each is for one claim at a time;
    #: None for other offers.
    shape: int | None = None
    #: By question, what the devices look like to it; see `Inventory.view`.
    views: dict[int, int] = attrs.Factory(dict)

    @classmethod
    def of(cls, node: Node, pools: Iterable[Pool], reached: Iterable[PoolId]) -> NodeOffer:
        """Return the offer of these pools to a node, without its shape."""
        ordered = tuple(sorted(pools, key=lambda pool: (pool.is_slow, pool.id)))
        candidates = tuple(
            Candidate(device, pool)
            for pool in ordered
            if pool.is_usable
            for device in pool.devices
            if not device.is_hidden and device.is_reached_from(node)
        )
        bad_pool = next((pool for pool in ordered if not pool.is_usable), None)
        counting = tuple(pool for pool in ordered if pool.is_usable and pool.counters)
        numbers = {pool.id: number for number, pool in enumerate(counting)}
        return cls(
            pools=ordered,
            candidates=candidates,
            ids=tuple(device.id for device, _ in candidates),
            counting=counting,
            takes_from=tuple(numbers[pool.id] if device.consumes else -1 for device, pool in candidates),
            bad_pool=bad_pool,
            reached=frozenset(reached),
        )


class Inventory:
    """All slices; `previous` lends what it worked out of those that have not changed, `read` are those read before.

    Its `contents` are the slices by name, `counters` those with counters by pool; `offers` are kept by node, each with
    the labels that it holds for; `looks` number what there is to be seen in them.
    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        selectors: DeviceSelectors,
        features: Features = ALL_FEATURES,
        *,
        previous: Inventory | None = None,
        read: Mapping[str, SliceContent] | None = None,
    ) -> None:
        known = read if read is not None else previous.contents if previous is not None else {}
        self.contents: dict[str, SliceContent] = {}
        self.offers: dict[str, tuple[Mapping[str, str], NodeOffer]] = {}
        self.looks: dict[object, int] = {}
        #: Never given twice, as allocators hold them that outlive a change of the slices.
        self.numbers = itertools.count()
        self.counters: defaultdict[PoolId, list[SliceContent]] = defaultdict(list)
        self._local: defaultdict[str, list[SliceContent]] = defaultdict(list)
        self._shared: list[SliceContent] = []
        self._generations: defaultdict[PoolId, defaultdict[int, list[SliceContent]]]
        self._generations = defaultdict(lambda: defaultdict(list))
        self._pools: dict[tuple[SliceContent, ...], Pool | None] = {}
        self._bad_counters: list[Pool] | None = None
        self._counting: dict[tuple[PoolId, int], bool] = {}
        for source in slices:
            old = known.get(source.name)
            content = old if old is not None and old.source is source else read_slice(source, selectors, features)
            self.contents[source.name] = content
            self._generations[content.pool][content.generation].append(content)
            if source.spec.shared_counters:
                self.counters[content.pool].append(content)
            else:
                (self._local[content.only_node] if content.only_node else self._shared).append(content)
        if previous is not None:
            self._keep(previous)

    def _keep(self, previous: Inventory) -> None:
        """Keep the offers to nodes that nothing has changed for."""
        self.numbers = previous.numbers
        changed = [
            content
            for here, there in ((self.contents, previous.contents), (previous.contents, self.contents))
            for name, content in here.items()
            if there.get(name) is not content
        ]
        if len(previous.looks) > _MOST_LOOKS or not all(content.only_node for content in changed):
            return
        nodes = {content.only_node for content in changed}
        pools = {content.pool for content in changed}
        if not (pools.isdisjoint(self.counters) and pools.isdisjoint(previous.counters)):
            return  # whether such a pool is whole matters to every node
        self.looks = previous.looks
        self.offers = {
            name: (labels, offer)
            for name, (labels, offer) in previous.offers.items()
            if name not in nodes and offer.reached.isdisjoint(pools)
        }

    def offer_to(self, node: Node) -> NodeOffer:
        """Return what `node` can reach; raise `AllocationError` where a slice does not say it in a readable way."""
        known = self.offers.get(node.name)
        labels = node.labels
        if known is not None and (known[0] is labels or known[0] == labels):
            return known[1]
        reached: defaultdict[PoolId, list[SliceContent]] = defaultdict(list)
        for content in (*self._local.get(node.name, ()), *self._shared):
            if content.matters_to(node):
                _add_newest(reached[content.pool], content)
        for pool_id, contents in reached.items():
            for content in self.counters.get(pool_id, ()):
                if not content.is_ignored:
                    _add_newest(contents, content)
        pools = [pool for contents in reached.values() if (pool := self._pool(contents)) is not None]
        pools += [pool for pool in self._pools_of_counters() if pool.id not in reached]
        offer = NodeOffer.of(node, pools, reached)
        offer.shape = self._shape(offer)
        self.offers[node.name] = (labels, offer)
        return offer

    def _pools_of_counters(self) -> list[Pool]:
        """Return the pools that are not usable and matter to every node, as counters do, whoever has the devices."""
        if self._bad_counters is None:
            found = []
            for contents in self.counters.values():
                newest: list[SliceContent] = []
                for content in contents:
                    if not content.is_ignored:
                        _add_newest(newest, content)
                pool = self._pool(newest) if newest else None
                if pool is not None and not pool.is_usable:
                    found.append(pool)
            self._bad_counters = found
        return self._bad_counters

    def _shape(self, offer: NodeOffer) -> int | None:
        devices = [device for device, _ in offer.candidates]
        if any(device.shareable or device.is_barred for device in devices):
            return None
        facts = tuple((device.facts, device.taints, device.consumes) for device in devices)
        return self._number((facts, offer.takes_from))

    def _number(self, look: Hashable) -> int:
        number = self.looks.get(look)
        if number is None:
            number = self.looks[look] = next(self.numbers)
        return number

    def number_of(self, question: Hashable) -> int:
        """Return what stands for a question in `view`; equal questions have the same number."""
        if len(self.looks) > _MOST_LOOKS:
            self.looks.clear()
            self.offers.clear()
        return self._number(question)

    def view(self, offer: NodeOffer, question: int, ask: Callable[[NodeOffer], Hashable]) -> int | None:
        """Return a number that offers have in common where `ask` answers the same; None where the offer has no shape.

        The answer may depend on the devices of the offer and on the question, which is asked once, and on nothing else.
        """
        if offer.shape is None:
            return None
        view = offer.views.get(question)
        if view is None:
            same = (question, offer.shape)
            view = self.looks.get(same)
            if view is None:
                view = self.looks[same] = self._number((question, ask(offer)))
            offer.views[question] = view
        return view

    def _pool(self, contents: list[SliceContent]) -> Pool | None:
        """Return the pool of which a node reaches `contents`, None where they are outdated."""
        contents.sort(key=lambda content: content.source.name)
        key = tuple(contents)
        if key not in self._pools:
            self._pools[key] = self._make_pool(contents)
        return self._pools[key]

    def _make_pool(self, contents: list[SliceContent]) -> Pool | None:
        first = contents[0]
        pool = Pool(first.pool, first.generation)
        others: list[SliceContent] = []
        count = first.source.spec.pool.resource_slice_count
        if len(contents) != count:
            generations = self._generations[first.pool]
            if max(generations) > first.generation:
                return None
            current = generations[first.generation]
            if len(current) != count:
                pool.incomplete = True
                return pool
            if self._has_counters(first, current):
                reached = set(contents)
                others = [content for content in current if content not in reached]
        pool.problem = _fill(pool, contents, others)
        return pool

    def _has_counters(self, first: SliceContent, current: Sequence[SliceContent]) -> bool:
        """Return whether a pool has counters; without, a node need not know what others reach of it."""
        key = (first.pool, first.generation)
        if key not in self._counting:
            self._counting[key] = any(content.has_counters for content in current)
        return self._counting[key]


def _add_newest(contents: list[SliceContent], content: SliceContent) -> None:
    """Keep the slices of the newest generation."""
    if contents and content.generation > contents[0].generation:
        contents.clear()
    if not contents or content.generation == contents[0].generation:
        contents.append(content)


def _fill(pool: Pool, contents: Sequence[SliceContent], others: Sequence[SliceContent]) -> str:
    """Put the devices of `contents` and `others` into a pool; return what is wrong with them, or ""."""
    for content in (*contents, *others):
        if content.problem:
            return f"slice {content.source.name}: {content.problem}"
    names: set[str] = set()
    offering = [content for content in contents if not content.source.spec.shared_counters]
    pool.devices = tuple(device for content in offering for device in content.devices)
    for device in pool.devices:
        if device.id.device in names:
            return f"duplicate device name {device.id.device}"
        names.add(device.id.device)
    sets: dict[str, Mapping[str, int]] = {}
    for content in contents:
        for name, counters in content.counters:
            if name in sets:
                return f"duplicate counter set name {name}"
            sets[name] = counters
    pool.others = tuple(device for content in others for device in content.devices)
    for device in (*pool.devices, *pool.others):
        for (counter_set, counter), _ in device.consumes:
            if counter_set not in sets:
                return f"counter set {counter_set} not found"
            if counter not in sets[counter_set]:
                return f"counter {counter} not found in counter set {counter_set}"
    pool.counters = {(name, counter): value for name, counters in sets.items() for counter, value in counters.items()}
    pool.is_slow = any(device.device.binding_conditions for device in pool.devices)
    return ""
