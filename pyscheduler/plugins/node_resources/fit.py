"""NodeResourcesFit: reject nodes without room for the pod; score the others by `scoringStrategy`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import DeviceClass, Node, Pod, is_extended_resource, is_scalar_resource, pod_requests
from pyscheduler.framework import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ConfigError,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    GroupAssignments,
    GroupInfo,
    Handle,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PlacementScorePlugin,
    PlacementTable,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueingHint,
    Resource,
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.framework.extended_resources import ExtendedResources, implicit_resource
from pyscheduler.framework.in_tree_args import NodeResourcesFitArgs, ScoringStrategy
from pyscheduler.plugins.node_resources.groups import split
from pyscheduler.plugins.node_resources.nearest_miss import shortages as nearest_shortages
from pyscheduler.plugins.node_resources.resource_allocation import (
    Scorer,
    allocations,
    least_allocated,
    most_allocated,
    placement_allocations,
    requested_to_capacity_ratio,
    requests_of,
    sign_resources,
)

__all__ = ["NodeResourcesFit"]

_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class NodeResourcesFit(
    PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, PlacementScorePlugin, EnqueueExtensions, SignPlugin
):
    """Refuse nodes without room for the pod; score the others by `scoringStrategy`.

    A placement of a group scores by the used share of its nodes together: the fuller, the better.

    `ignoredResources` and `ignoredResourceGroups` (the part before the slash) name extended resources that are not
    filtered by.
    """

    reuse = Reuse.WHILE_AMOUNTS_STAY
    args_type = NodeResourcesFitArgs

    def __init__(self, args: NodeResourcesFitArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        args = args or NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy
        self._scorer = _scorer(strategy)
        self._resources = tuple((each.name, each.weight) for each in strategy.resources)
        self._names = tuple(name for name, _ in self._resources)
        self._has_classes = handle is not None and handle.feature_gates.get("DRAExtendedResource", False)
        self._extended = ExtendedResources.of(handle)
        #: What the last nodes seen by a queueing hint offer: one event is asked about for every waiting pod.
        self._seen: tuple[tuple[Node, Resource], ...] = ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        # Filter computes the requests: it does not run for a pod whose equals were filtered before.
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        shortages = _Shortages(len(nodes))
        shortages.note("Too many pods", nodes.pod_counts() + 1 > nodes.allowed_pods())
        for name, request in self._requests(pod):
            allocatable = nodes.allocatable(name)
            short = request > allocatable - nodes.requested(name)
            if self._extended.class_of(name) is not None:
                short &= allocatable > 0
            shortages.note(f"Insufficient {name}", short, request > allocatable)
        return shortages.statuses()

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        return nearest_shortages(self._requests(pod), nodes, self.handle.snapshot.nodes)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        requests = requests_of(pod, self._names, use_requested=False)
        found = allocations(nodes, self._resources, requests, self._extended, use_requested=False)
        return self._scorer(found, len(nodes))

    def score_placement(self, state: CycleState, group: GroupInfo, assignments: GroupAssignments) -> int | Status:
        nodes = assignments.placement.nodes
        found = placement_allocations(
            assignments.pods, self._resources, lambda name, kind: getattr(nodes, kind)(name).sum(keepdims=True)
        )
        return int(most_allocated(found, 1)[0])

    def bound_placement_scores(
        self, state: CycleState, group: GroupInfo, table: PlacementTable, counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return int64[k]: the scores if each placement takes all members."""
        found = placement_allocations(
            group.pods, self._resources, lambda name, kind: table.sums(getattr(table.nodes, kind)(name))
        )
        return most_allocated(found, len(table))

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        return sign_resources(pod, self._extended)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        events = (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN),
                self.after_pod_change,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
                self.after_node_change,
            ),
        )
        if not self._has_classes:
            return events
        changes = ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE)
        return (*events, ClusterEventWithHint(changes, self.after_class_change))

    def after_pod_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a pod with a node went, asks for less of what this pod needs, or is this pod and asks for less."""
        assert isinstance(old, Pod)
        if not isinstance(new, Pod):
            helps = bool(old.node_name or old.status.nominated_node_name)
        elif new.uid == pod.uid:
            helps = True
        else:
            helps = bool(new.node_name) and _asks_for_less(old, new, pod)
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue on a node that, empty, could take the pod, and that is new or offers more than it did."""
        assert isinstance(new, Node)
        offered = self._offered(new)
        requests = [each for each in _counted(pod_requests(pod, use_status=False)) if each[1] > 0]
        left = {name for name, _ in requests if self._is_left(name, offered)}
        if offered.allowed_pods < 1 or any(
            request > offered.get(name) for name, request in requests if name not in left
        ):
            return QueueingHint.SKIP
        if isinstance(old, Node):
            before = self._offered(old)
            grew = offered.allowed_pods > before.allowed_pods or any(
                name in left or offered.get(name) > before.get(name) for name, _ in requests
            )
            return QueueingHint.QUEUE if grew else QueueingHint.SKIP
        return QueueingHint.QUEUE

    def after_class_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue on a class that now stands for a resource that the pod asks for."""
        assert isinstance(new, DeviceClass)
        resource = new.spec.extended_resource_name or ""
        names = {resource}
        if isinstance(old, DeviceClass):
            if (old.spec.extended_resource_name or "") == resource:
                return QueueingHint.SKIP
        else:
            names.add(implicit_resource(new))
        helps = not names.isdisjoint(pod_requests(pod, use_status=False))
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _is_left(self, name: str, offered: Resource) -> bool:
        """Return True if a resource is left to DynamicResources on a node that offers `offered`."""
        return offered.get(name) <= 0 and self._extended.class_of(name) is not None

    def _requests(self, pod: Pod) -> Sequence[tuple[str, int]]:
        """Return the amounts that Filter compares, by resource."""
        return [
            (name, amount)
            for name, amount in _counted(pod_requests(pod, use_status=False))
            if amount > 0 and not (is_extended_resource(name) and self._is_ignored(name))
        ]

    def _is_ignored(self, name: str) -> bool:
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def _offered(self, node: Node) -> Resource:
        for seen, offered in self._seen:
            if seen is node:
                return offered
        offered = NodeInfo.of(node).allocatable
        self._seen = ((node, offered), *self._seen[:1])
        return offered


class _Shortages:
    """Collects what nodes fall short of, and makes one status per combination that occurs."""

    __slots__ = ("_groups", "_ids")

    def __init__(self, size: int) -> None:
        self._ids: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        #: By id: the reasons, and whether preemption is hopeless.
        self._groups: list[tuple[tuple[str, ...], bool]] = [((), False)]

    def note(self, reason: str, short: NDArray[np.bool_], beyond: NDArray[np.bool_] | None = None) -> None:
        """Note the nodes that are `short` of something, and those among them where it is `beyond` the empty node."""
        if not short.any():
            return
        self._split(short, reason)
        if beyond is not None:
            beyond = beyond & short
            if beyond.any():
                self._split(beyond, None)

    def statuses(self) -> NodeStatuses | None:
        """Return a status per node; None when nothing fell short."""
        if self._groups == [((), False)]:
            return None
        statuses = NodeStatuses(len(self._ids))
        codes = np.zeros(len(self._groups), dtype=np.int8)
        reason_ids = np.zeros(len(self._groups), dtype=np.int32)
        for group, (reasons, hopeless) in enumerate(self._groups):
            if reasons:
                status = Status.unresolvable(*reasons) if hopeless else Status.unschedulable(*reasons)
                codes[group] = status.code
                reason_ids[group] = statuses.add_reason(status)
        statuses.codes[:] = codes[self._ids]
        statuses.reason_ids[:] = reason_ids[self._ids]
        return statuses

    def _split(self, apart: NDArray[np.bool_], reason: str | None) -> None:
        """Give the nodes where `apart` is true a further reason, or mark them hopeless where there is none."""
        self._ids, keys = split(self._ids, apart, len(self._groups))
        groups = []
        for key in keys:
            reasons, hopeless = self._groups[key >> 1]
            if key & 1:
                reasons, hopeless = (reasons, True) if reason is None else ((*reasons, reason), hopeless)
            groups.append((reasons, hopeless))
        self._groups = groups


def _scorer(strategy: ScoringStrategy) -> Scorer:
    """Return the scorer a profile chose; raise `ConfigError` for one that is not known."""
    if strategy.type == "LeastAllocated":
        return least_allocated
    if strategy.type == "MostAllocated":
        return most_allocated
    if strategy.type == "RequestedToCapacityRatio" and strategy.requested_to_capacity_ratio is not None:
        shape = strategy.requested_to_capacity_ratio.shape
        return requested_to_capacity_ratio([(point.utilization, point.score) for point in shape])
    raise ConfigError(f"scoring strategy {strategy.type} is not supported @ scoringStrategy of plugin NodeResourcesFit")


def _counted(amounts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the resources that nodes are filtered by, in the order of the reasons."""
    for name in _NATIVE:
        if name in amounts:
            yield name, amounts[name]
    for name in sorted(amounts.keys() - set(_NATIVE)):
        if is_scalar_resource(name):
            yield name, amounts[name]


def _asks_for_less(old: Pod, new: Pod, waiting: Pod) -> bool:
    """Return whether a pod gave back some of a resource that `waiting` asks for."""
    before, after = pod_requests(old), pod_requests(new)
    return any(amount and before.get(name, 0) > after.get(name, 0) for name, amount in _counted(pod_requests(waiting)))
