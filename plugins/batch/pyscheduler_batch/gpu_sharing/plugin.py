"""`GpuSharing`: fractions of GPUs by KAI's annotations `gpu-fraction`, `gpu-memory` and `gpu-fraction-num-devices`.

A pod with a fraction requests no GPU from the device plugin. Instead, a *reservation pod* requests the whole GPU. The
label `runai-gpu-group` has the same value on the reservation pod and on the pods that share this GPU. Filter finds
nodes with room for the fraction, and Reserve chooses the GPUs. PreBind writes the label, and creates missing
reservation pods. Nothing isolates the pods on a GPU from each other.

Source: KAI-Scheduler, `pkg/scheduler/gpu_sharing`, `pkg/scheduler/api/node_info`,
`pkg/binder/binding/resourcereservation`.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np

from pyscheduler.api import Node, Pod, pod_requests
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ConfigError,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    NodeStatuses,
    PreBindPlugin,
    PreFilterPlugin,
    PySchedulerError,
    ReservePlugin,
    Reuse,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler_batch.gpu_sharing.books import GROUP_LABEL, GpuBooks, Share, groups_of
from pyscheduler_batch.gpu_sharing.device_columns import DeviceColumns
from pyscheduler_batch.gpu_sharing.device_shares import (
    MEMORY_LABEL,
    SHARE_ANNOTATIONS,
    ShareRequest,
    gpu_memory,
    share_request,
    smallest_gpu_memory,
    usable_share,
)
from pyscheduler_batch.gpu_sharing.mig import sharing_refusal
from pyscheduler_batch.gpu_sharing.reservations import GpuSharingArgs, Reservations, rules
from pyscheduler_batch.gpu_sharing.shared import POLICY_KEY, SHARED_KEY, SPREAD_KEY, DevicePolicy, Room
from pyscheduler_batch.model.axis import GPU

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyscheduler.framework import CycleState, Handle, Nodes, PodInfo, PreBindPreFlightResult, PreFilterResult

__all__ = ["GpuSharing"]

#: As KAI says it of a node.
_NO_ROOM: Final = Status.unschedulable("node(s) didn't have enough resources: GPUs")
_NAMES: Final = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


@attrs.frozen
class _Wanted:
    """The request of a pod: a share, or whole GPUs."""

    share: ShareRequest | None
    whole: int


@attrs.define
class _Shared:
    """The state that the profiles of a scheduler share: a device that one of them has allocated is taken for all."""

    args: GpuSharingArgs
    reservations: Reservations
    books: GpuBooks
    columns: DeviceColumns
    #: UIDs of pods without a node whose share is known from their label only, which an earlier scheduler wrote.
    by_label: set[str] = attrs.Factory(set)
    #: By name of a node with MIG, why no pod may share its GPUs.
    mig: dict[str, Status] = attrs.Factory(dict)
    #: Whether some profile has registered handlers of pods.
    is_followed: bool = False


_WANTED: Final[StateKey[_Wanted]] = StateKey("PreFilterGpuSharing")


def _wanted(pod: Pod) -> _Wanted:
    """Return what a pod requests; raise `ValueError` for annotations that cannot be used."""
    whole = pod_requests(pod).get(GPU, 0)
    return _Wanted(share_request(pod.annotations, has_whole_gpus=whole > 0), whole)


def _usable_share(pod: Pod) -> ShareRequest | None:
    if not pod.annotations:
        return None
    return usable_share(pod.annotations, has_whole_gpus=pod_requests(pod).get(GPU, 0) > 0)


class GpuSharing(PreFilterPlugin, FilterPlugin, ReservePlugin, PreBindPlugin, EnqueueExtensions, SignPlugin):
    """Place pods on parts of GPUs."""

    name: ClassVar[str] = "GpuSharing"
    args_type: ClassVar[type | None] = GpuSharingArgs
    #: `GpuBooks` makes the scheduler forget what it keeps about a node.
    reuse = Reuse.UNTIL_FORGOTTEN
    reuse_annotations = SHARE_ANNOTATIONS

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is None or not isinstance(args, GpuSharingArgs):
            raise ConfigError("GpuSharing needs its args and a handle, which the scheduler gives it")
        self._args: GpuSharingArgs = args
        self.rbac = rules(args)  # type: ignore[misc]  # of a class, as a rule
        self._pods = handle.lister(Pod)
        self._nodes = handle.lister(Node)
        shared = handle.shared("pyscheduler-batch/gpus", self._make_shared)
        if attrs.evolve(shared.args, spread=args.spread) != args:
            raise ConfigError("GpuSharing has other args in another profile; only spread may differ")
        self.books, self.reservations, self._by_label = shared.books, shared.reservations, shared.by_label
        self.columns, self._mig = shared.columns, shared.mig
        by_profile: dict[str, GpuSharing] = handle.shared(SHARED_KEY, dict)
        by_profile[handle.profile_name] = self
        self._spreading: set[str] = handle.shared(SPREAD_KEY, set)
        self._policies: dict[str, DevicePolicy] = handle.shared(POLICY_KEY, dict)
        if not shared.is_followed:
            shared.is_followed = True
            self._pods.add_event_handler(
                on_add=self._pod_seen, on_update=lambda _, new: self._pod_seen(new), on_delete=self._pod_gone
            )
            self._nodes.add_event_handler(
                on_add=self._node_seen,
                on_update=lambda _, new: self._node_seen(new),
                on_delete=self._node_gone,
            )

    def _make_shared(self) -> _Shared:
        books = GpuBooks(forget=self.handle.forget_answers)
        return _Shared(self._args, Reservations(self.handle, self._args), books, DeviceColumns(self.handle, books))

    async def run(self) -> None:
        """Delete reservation pods whose device nobody shares, until cancelled."""
        await self.reservations.run()

    # --- requests

    def amounts_beside(self, pod: Pod) -> Mapping[str, float] | None:
        """Return what a pod holds or requests besides its containers' requests; None for most pods.

        A share counts as its part of a GPU, and a reservation pod as nothing: its device is what the pods share that
        it stands for. The part that a request for memory is depends on the node. Before the pod has one, the smallest
        GPU of the cluster counts.
        """
        if self._is_reservation(pod):
            return {GPU: -1.0}
        share = _usable_share(pod)
        return None if share is None else {GPU: share.gpus(self._capacity_for(pod, share))}

    def _capacity_for(self, pod: Pod, share: ShareRequest) -> int:
        if pod.node_name or not share.memory:
            return self._capacity(pod.node_name)
        return smallest_gpu_memory(self._nodes)

    def _capacity(self, node_name: str) -> int:
        node = self._nodes.get(node_name) if node_name else None
        return gpu_memory({} if node is None else node.labels)

    def _is_reservation(self, pod: Pod) -> bool:
        return pod.namespace == self._args.namespace and GROUP_LABEL in pod.labels

    def nodes_with_room(self, pod: Pod) -> list[str]:
        """Return the names of the nodes with a GPU that is shared already and has room for the pod."""
        share = _usable_share(pod)
        if share is None:
            return []
        return [name for name, shared in self.books.nodes.items() if shared.with_room(share.amount(shared.capacity))]

    def devices_of(self, uid: str) -> Sequence[str]:
        """Return the names of the GPUs that a pod shares; none if it has no node."""
        share = self.books.shares.get(uid)
        return () if share is None else share.groups

    def has_room_now(self, pod: Pod, node_name: str, idle: float) -> bool:
        """Return whether the GPUs that a pod would get have room for it while evicted pods still have their shares.

        `idle`: how many GPUs of the node are idle, parts included.
        """
        share = _wanted(pod).share
        if share is None:
            return True
        capacity = self._capacity(node_name)
        amount, used = share.amount(capacity), self.books.now(node_name)
        groups = self._choose(pod, share, node_name, capacity) or ()
        whole = round(idle - sum(1 - each / capacity for each in used.values()))
        new = [group for group in groups if group not in self.books.on(node_name, capacity).used]
        return len(new) <= whole and all(used.get(each, 0) + amount <= capacity for each in groups)

    def keeps_devices(self, pod: Pod) -> bool:
        """Return whether a pod that is evicted in a trial would get the GPUs again that it shared.

        If it would fill another GPU, it moves there, as in KAI: its own may become free. Differs from KAI: a pod that
        would get a GPU of its own again stays.
        """
        held = self.books.evicted.get(pod.uid)
        share = None if held is None else _wanted(pod).share
        if held is None or share is None:
            return True
        capacity = self._capacity(held.node)
        chosen = self._choose(pod, share, held.node, capacity)
        used = self.books.on(held.node, capacity).used
        return chosen is not None and all(group in held.groups for group in chosen if group in used)

    def all_shares(self) -> object:
        """Return all that decides which GPUs pods get, besides pod and node objects, for comparisons with `==`.

        If another plugin chooses the GPUs, what it reads is not known: the result equals no other.
        """
        if self.handle.profile_name in self._policies:
            return object()
        devices = self.columns.of(self.handle.snapshot.nodes)
        return devices.whole.tobytes(), devices.capacity.tobytes(), self.books.copy()

    def _whole_on(self, node_name: str) -> int:
        """Return how many GPUs of a node no pod has, not even a part."""
        node = self.handle.snapshot.get(node_name)
        if node is None:
            return 0
        free = node.allocatable.scalars.get(GPU, 0) - node.requested.scalars.get(GPU, 0)
        return free - self.books.without_reservation(node_name)

    def _choose(self, pod: Pod, share: ShareRequest, node_name: str, capacity: int) -> Sequence[str] | None:
        """Return the GPUs of a node that a pod gets; None if too few have room."""
        shared, whole = self.books.on(node_name, capacity), self._whole_on(node_name)
        amount = share.amount(capacity)
        policy = self._policies.get(self.handle.profile_name)

        def new(index: int) -> str:
            return str(uuid.uuid5(_NAMES, f"{pod.uid}/{node_name}/{index}"))

        if policy is not None:
            chosen = policy.choose_devices(pod, Room(node_name, amount, share.devices, shared, whole, new))
            if chosen is not None:
                return chosen
        spread = self._args.spread or self.handle.profile_name in self._spreading
        return shared.choose(amount, share.devices, whole, new, spread=spread)

    # --- the scheduling cycle

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        try:
            wanted = _wanted(pod)
        except ValueError as error:
            return Status.unresolvable(str(error))
        if wanted.share is None and not wanted.whole:
            return Status.skip()
        if pod.uid in self._by_label:
            self._drop(pod.uid)  # it is decided anew
        self.reservations.decide_anew(pod)
        state.write(_WANTED, wanted)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        wanted = state.read(_WANTED)
        devices = self.columns.of(nodes)
        if wanted.share is None:
            return NodeStatuses.failing(devices.whole < wanted.whole, _NO_ROOM)
        share = wanted.share
        failed = devices.whole + share.fits(devices.used, devices.capacity).sum(axis=0) < share.devices
        if share.memory:
            memory = nodes.labels(MEMORY_LABEL)
            possible = np.array(
                [share.is_possible(gpu_memory({MEMORY_LABEL: value or ""})) for value in memory.values], dtype=np.bool_
            )
            failed |= ~possible[memory.ids]
        rows = [(row, why) for name, why in self._mig.items() if (row := nodes.index(name)) is not None]
        if not rows:
            return NodeStatuses.failing(failed, _NO_ROOM)
        statuses = NodeStatuses(len(nodes))
        for row, why in rows:
            statuses.fail_row(row, why)
        statuses.fail(failed, _NO_ROOM)
        return statuses

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        wanted = state.get(_WANTED)
        if wanted is None or not len(nodes):
            return ""
        whole = self.columns.of(nodes).whole
        best = int(np.argmax(whole))
        largest = int(self.handle.snapshot.nodes.allocatable(GPU).max())
        count = wanted.whole if wanted.share is None else wanted.share.devices
        never = ": never fits" if count > largest else ""
        free = f"most whole GPUs free {max(int(whole[best]), 0)} on {nodes.name(best)}, largest node {largest}{never}"
        if wanted.share is None:
            return f"{wanted.whole} GPUs; {free}"
        share = wanted.share
        part = f"{share.memory} MiB" if share.memory else f"{share.portion:g}"
        text = f"{part} of {share.devices} GPU{'' if share.devices == 1 else 's'}"
        rooms = [
            (1 - min(shared.used.values()) / shared.capacity, name)
            for name, shared in self.books.nodes.items()
            if nodes.index(name) is not None
        ]
        if rooms:
            most, name = max(rooms)
            text += f"; most free of a shared GPU {most:.2f} on {name}"
        return f"{text}; {free}"

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        try:
            share = _wanted(pod).share
        except ValueError as error:
            return Status.unresolvable(str(error))
        if share is None:
            return None
        capacity = self._capacity(node_name)
        groups = self._choose(pod, share, node_name, capacity)
        if groups is None:
            return _NO_ROOM
        self._hold(pod.uid, Share(node_name, tuple(groups), share.amount(capacity)), capacity)
        if state.trial is None:
            self.reservations.claim(pod.uid, groups)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        share = self.books.shares.get(pod.uid)
        if share is not None and share.node == node_name:
            self._drop(pod.uid)
        if state.trial is None:
            self.reservations.unclaim(pod.uid)

    def release_in_trial(self, pod: Pod, node_name: str) -> Callable[[], None] | None:
        """Give back a pod's share; a device that nobody shares any more is free, although it is reserved."""
        held = self.books.shares.get(pod.uid)
        if held is None or held.node != node_name:
            return None
        capacity = self.books.nodes[node_name].capacity
        dropped = self.books.drop(pod.uid)
        assert dropped is not None, "the pod has a share"
        share, freed = dropped
        self.books.evicted[pod.uid] = share
        reserving = []
        for group in freed:
            info = self._reserving(node_name, group)
            if info is not None:
                self.handle.snapshot.evict(info, node_name)
                self.books.free(node_name, group)
                reserving.append(info)
        return partial(self._book_again, pod, share, capacity, reserving)

    def is_needed_by_others(self, pod: Pod) -> bool | None:
        """Return whether pods share the device of a reservation pod; None for other pods."""
        if not self._is_reservation(pod):
            return None
        shared = self.books.nodes.get(pod.node_name)
        return shared is not None and pod.labels[GROUP_LABEL] in shared.used

    def _reserving(self, node_name: str, group: str) -> PodInfo | None:
        """Return the pod in the snapshot that reserves a shared device."""
        uid, node = self.books.reservations(node_name).get(group), self.handle.snapshot.get(node_name)
        if uid is None or node is None:
            return None
        return next((info for info in node.pods if info.pod.uid == uid), None)

    def _book_again(self, pod: Pod, share: Share, capacity: int, reserving: Sequence[PodInfo]) -> None:
        """Undo `release_in_trial`; what was deleted meanwhile holds nothing."""
        self.books.evicted.pop(pod.uid, None)
        for info in reserving:
            self.handle.snapshot.place(info, share.node)
            seen = self._pods.get(info.pod.name, info.pod.namespace)
            if seen is not None and seen.uid == info.pod.uid:
                self._reservation_seen(seen)
        seen = self._pods.get(pod.name, pod.namespace)
        if seen is not None and seen.uid == pod.uid:
            self._hold(pod.uid, share, capacity)

    def _hold(self, uid: str, share: Share, capacity: int) -> None:
        self._by_label.discard(uid)
        self.books.hold(uid, share, capacity)

    def _drop(self, uid: str) -> None:
        self._by_label.discard(uid)
        self.books.drop(uid)

    # --- the binding cycle

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        return Status.skip() if pod.uid not in self.books.shares else None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve the devices, and write their names to the pod."""
        share = self.books.shares.get(pod.uid)
        if share is None:
            return None
        portion = share.amount / self._capacity(node_name)
        try:
            await self.reservations.prepare(pod, share, portion)
        except PySchedulerError as error:
            return Status.from_error(error)
        return None

    def _node_gone(self, node: Node) -> None:
        self._mig.pop(node.name, None)

    def _node_seen(self, node: Node) -> None:
        refusal = sharing_refusal(node)
        if refusal is None:
            self._mig.pop(node.name, None)
        else:
            self._mig[node.name] = refusal

    # --- pods and their labels

    def _pod_seen(self, pod: Pod) -> None:
        self.reservations.pod_seen(pod)
        if GROUP_LABEL not in pod.labels and not groups_of(pod):
            return
        if self._is_reservation(pod):
            self._reservation_seen(pod)
            # Pods that were seen before and have no node yet.
            for each in self.reservations.sharing(pod.labels[GROUP_LABEL]):
                self._share_seen(each)
        else:
            self._share_seen(pod)

    def _reservation_seen(self, pod: Pod) -> None:
        if pod.node_name:
            self.books.reserve(pod.node_name, pod.labels[GROUP_LABEL], pod.uid)

    def _share_seen(self, pod: Pod) -> None:
        groups = groups_of(pod)
        node_name = pod.node_name or self.books.node_of(groups)
        held = self.books.shares.get(pod.uid)
        if not node_name or (held is not None and (not pod.node_name or set(held.groups) == set(groups))):
            return
        try:
            share = _wanted(pod).share
        except ValueError:
            return
        if share is not None:
            capacity = self._capacity(node_name)
            self._hold(pod.uid, Share(node_name, groups, share.amount(capacity)), capacity)
            if not pod.node_name:
                self._by_label.add(pod.uid)

    def _pod_gone(self, pod: Pod) -> None:
        self.reservations.pod_gone(pod)
        if self._is_reservation(pod):
            group = pod.labels[GROUP_LABEL]
            if self.books.reservations(pod.node_name).get(group) == pod.uid:
                self.books.free(pod.node_name, group)
        else:
            self._drop(pod.uid)

    # --- when to try again

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        annotations = sorted(item for item in pod.annotations.items() if item[0].startswith("gpu-"))
        return (SignFragment(self.name, (tuple(annotations), pod_requests(pod).get(GPU, 0))),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE)),
            ClusterEventWithHint(
                ClusterEvent(
                    EventResource.NODE,
                    ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL,
                )
            ),
        )
