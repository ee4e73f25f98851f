"""The plugin VolumeBinding, with all its extension points.

Differs from kube-scheduler: if two pods choose the same volume, the second pod fails at Reserve, not at a later write.
Source: kube-scheduler 1.36, `volumebinding`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np

from kube_objects.claims import claim_class, claims_of, volume_class
from pyscheduler.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    kind_of,
)
from pyscheduler.framework import (
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    Nodes,
    NodeStatuses,
    PolicyRule,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    PySchedulerError,
    ReservePlugin,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.in_tree_args import VolumeBindingArgs
from pyscheduler.framework.node_matching import match_node_selector, node_selector_text
from pyscheduler.framework.recorder import scheduler_recorder
from pyscheduler.framework.signatures import sign_volumes
from pyscheduler.plugins.volume_binding.assume_cache import AssumeCache, OutOfSyncError
from pyscheduler.plugins.volume_binding.binding import Binder, Reservation
from pyscheduler.plugins.volume_binding.claims import claim_problem, is_bound, sort_claims
from pyscheduler.plugins.volume_binding.hints import EVENTS
from pyscheduler.plugins.volume_binding.placement import Placement, World
from pyscheduler.plugins.volume_binding.provisioning import BY_HAND, Provisioning
from pyscheduler.plugins.volume_binding.scoring import score_use, shape_of, storage_use
from pyscheduler.plugins.volume_binding.volume_index import VolumeIndex, volume_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import ResourceKind

__all__ = ["VolumeBinding"]

_STAGE_ERRORS: Final = "scheduler_volume_scheduling_stage_error_total"
_UNBOUND: Final = Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")


@attrs.define(eq=False)
class _State:
    """One pod in one cycle; shared with what-ifs, which do not change what claims come to."""

    #: None for a pod without claims.
    placement: Placement | None = None
    #: Whether Filter has looked at nodes: only then there is something to reserve.
    is_filtered: bool = False
    reserved: Reservation | None = None


_STATE: Final[StateKey[_State]] = StateKey("VolumeBinding")


class VolumeBinding(
    PreFilterPlugin,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
    SignPlugin,
):
    """Refuse nodes from which the pod's volumes cannot be reached, taken or made; then take them, or have them made."""

    args_type = VolumeBindingArgs
    watches: ClassVar[Sequence[ResourceKind]] = (
        kind_of(PersistentVolumeClaim, "persistentvolumeclaims"),
        kind_of(PersistentVolume, "persistentvolumes", namespaced=False),
        kind_of(StorageClass, "storageclasses", namespaced=False),
        kind_of(CSINode, "csinodes", namespaced=False),
        kind_of(CSIDriver, "csidrivers", namespaced=False),
        kind_of(CSIStorageCapacity, "csistoragecapacities"),
    )
    rbac: ClassVar[Sequence[PolicyRule]] = (
        PolicyRule(api_groups=("",), resources=("persistentvolumes", "persistentvolumeclaims"), verbs=("patch",)),
    )

    def __init__(self, args: VolumeBindingArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        given = args if args is not None else VolumeBindingArgs()
        self._lister = handle.lister(PersistentVolumeClaim)
        self._classes = handle.lister(StorageClass)
        self._claims = AssumeCache(self._lister)
        self._volumes = handle.lister(PersistentVolume)
        volumes = AssumeCache(self._volumes)
        index = VolumeIndex(self._volumes)
        self._world = World(volumes, index, handle.lister(CSINode), Provisioning(handle))
        self._binder = Binder(handle, volumes, self._claims, timeout_seconds=given.bind_timeout_seconds)
        #: By uid of a pod, what is assumed for it.
        self._reserved: dict[str, Reservation] = {}
        scores = handle.feature_gates.get("StorageCapacityScoring", False)
        self._shape = shape_of(given.shape or ()) if scores else ()

    # Filtering

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        problem = claim_problem(pod, self._lister)
        if problem is not None:
            return Status.unresolvable(problem)
        if next(claims_of(pod), None) is None:
            state.write(_STATE, _State())
            return Status.skip()
        try:
            claims = sort_claims(pod, self._claims, self._classes)
        except PySchedulerError as error:
            return Status.from_error(error)
        if claims.immediate:
            return _UNBOUND
        state.write(_STATE, _State(Placement(claims, self._world)))
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        current = _of(state, pod)
        if current.placement is None:
            return None
        current.is_filtered = True
        try:
            statuses = current.placement.judge(nodes)
        except PySchedulerError as error:
            scheduler_recorder(self.handle).count(_STAGE_ERRORS, "predicate")
            return NodeStatuses.failing(np.ones(len(nodes), dtype=np.bool_), Status.from_error(error))
        if current.placement.has_failed:
            scheduler_recorder(self.handle).count(_STAGE_ERRORS, "predicate")
        return statuses

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        texts = []
        for named in claims_of(pod):
            claim = self._lister.get(named.name, pod.namespace)
            if claim is None:
                texts.append(f"claim {pod.namespace}/{named.name} does not exist")
            elif not is_bound(claim):
                texts.append(f"claim {claim.key} is not bound; {self._source(claim)}")
            else:
                volume = self._world.volumes.get(claim.spec.volume_name)
                texts.append(_where(claim, volume, self.handle.snapshot.nodes))
        return "; ".join(filter(None, texts))

    def _source(self, claim: PersistentVolumeClaim) -> str:
        """Return the class of a claim that is not bound, and which nodes it allows or how many volumes it has."""
        name = claim_class(claim)
        if not name:
            return "no class"
        found = self._classes.get(name)
        if found is None:
            return f"class {name}, which does not exist"
        if found.provisioner in {"", BY_HAND}:
            free = sum(volume_class(each) == name and not each.spec.claim_ref for each in self._volumes)
            return f"class {name} makes no volumes; free volumes of it: {free or 'none'}"
        if not found.allowed_topologies:
            return f"class {name}"
        nodes = self.handle.snapshot.nodes
        number = int(self._world.provisioning.allowed(found, nodes).sum())
        terms = [
            " and ".join(f"{each.key} In {','.join(each.values)}" for each in term.match_label_expressions)
            for term in found.allowed_topologies
        ]
        return f"class {name} makes volumes only for nodes with {' or '.join(terms)}: {number} of {len(nodes)}"

    # Scoring

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        if not self._shape:
            return Status.skip()
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        scores = np.zeros(len(nodes), dtype=np.int64)
        placement = _of(state, pod).placement
        if placement is None or not self._shape:
            return scores
        for row in range(len(nodes)):  # an alpha feature, off by default
            node = nodes.take(np.array([row], dtype=np.int64))
            scores[row] = score_use(storage_use(placement, node), self._shape)
        return scores

    # Binding

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        current = _of(state, pod)
        # Members of a group are reserved twice, in thought and in earnest.
        current.reserved = None
        if current.placement is None or not current.is_filtered or self._are_bound(pod):
            return None
        found = self.handle.snapshot.get(node_name)
        labels = found.node.labels if found is not None and found.node is not None else {}
        try:
            if not current.placement.is_current:
                current.placement = self._place_again(pod, node_name)
            current.reserved = self._binder.assume(current.placement.choose(labels), node_name)
            self._reserved[pod.uid] = current.reserved
        except PySchedulerError as error:
            scheduler_recorder(self.handle).count(_STAGE_ERRORS, "assume")
            return Status.from_error(error)
        return None

    def _place_again(self, pod: Pod, node_name: str) -> Placement:
        """Work out anew what the claims come to on the node chosen; raise `OutOfSyncError` where it is of no use now.

        The loop may turn between Filter and Reserve, and the volume that a claim was to take may go. To have one made
        instead, by a class that makes none, would nail the claim to the node for good.
        """
        placement = Placement(sort_claims(pod, self._claims, self._classes), self._world)
        nodes = self.handle.snapshot.nodes
        row = nodes.index(node_name)
        if row is not None and not placement.claims.immediate:
            statuses = placement.judge(nodes.take(np.array([row], dtype=np.int64)))
            if statuses is None or statuses.passed().all():
                return placement
        raise OutOfSyncError(f'volumes have changed since node "{node_name}" was chosen')

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        current = state.get(_STATE)
        if current is not None and current.reserved is not None:
            self._reserved.pop(pod.uid, None)
            self._binder.revert(current.reserved)

    def release_in_trial(self, pod: Pod, node_name: str) -> Callable[[], None] | None:
        """Give back what is assumed for the pod and not written yet; bound volumes stay with their claims."""
        reserved = self._reserved.get(pod.uid)
        if reserved is None:
            return None
        self._binder.revert(reserved)
        return partial(self._assume_again, pod, reserved)

    def _assume_again(self, pod: Pod, reserved: Reservation) -> None:
        if self._reserved.get(pod.uid) is reserved:
            self._binder.assume_again(reserved)

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        if _of(state, pod).reserved is None:
            return Status.skip()
        return PreBindPreFlightResult(allow_parallel=True)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        reserved = _of(state, pod).reserved
        if reserved is None:
            return None
        try:
            await self._binder.bind(pod, node_name, reserved)
            self._reserved.pop(pod.uid, None)
        except PySchedulerError as error:
            scheduler_recorder(self.handle).count(_STAGE_ERRORS, "bind")
            return Status.from_error(error)
        return None

    def _are_bound(self, pod: Pod) -> bool:
        """Return whether all claims of the pod are bound by now."""
        claims = (self._claims.get(named.name, pod.namespace) for named in claims_of(pod))
        return all(claim is not None and is_bound(claim) for claim in claims)

    # The rest

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (sign_volumes(pod),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return EVENTS


def _of(state: CycleState, pod: Pod) -> _State:
    """Return what PreFilter wrote; raise `StateNotFoundError` where it did not run though the pod has claims."""
    current = state.get(_STATE)
    if current is None and next(claims_of(pod), None) is None:
        return _State()
    return state.read(_STATE)


def _where(claim: PersistentVolumeClaim, volume: PersistentVolume | None, everywhere: Nodes) -> str:
    """Return how many nodes reach the volume of a claim; "" if all do."""
    name = claim.spec.volume_name
    if volume is None:
        return f"claim {claim.key} is bound to volume {name}, which does not exist"
    selector = volume_selector(volume.spec.node_affinity)
    if selector is None:
        return ""
    number = int(match_node_selector(selector, everywhere).sum())
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    where = node_selector_text(required.node_selector_terms) if required is not None else ""
    return (
        f"claim {claim.key} is bound to volume {name}, which {number} of {len(everywhere)} nodes reach, those with "
        f"{where}" + ("" if number else ": never fits")
    )
