"""The plugin DynamicResources, with all its extension points. Source: kube-scheduler 1.36, `dynamicresources`.

Differs from kube-scheduler: Reserve chooses devices again if devices were allocated or freed after the node was chosen.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np

from pyscheduler.api import (
    DeviceClass,
    DeviceTaintRule,
    Pod,
    ResourceClaim,
    ResourceSlice,
    SelectorError,
    compile_node_selector,
    kind_of,
)
from pyscheduler.framework import (
    AFTER_FAILURE,
    APIError,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PolicyRule,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PySchedulerError,
    ReservePlugin,
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
    TransportError,
)
from pyscheduler.framework.extended_resources import ExtendedResources
from pyscheduler.framework.in_tree_args import DynamicResourcesArgs
from pyscheduler.framework.recorder import scheduler_recorder
from pyscheduler.framework.scoring import default_normalize
from pyscheduler.plugins.dynamic_resources.allocator import Allocator
from pyscheduler.plugins.dynamic_resources.binding import ClaimWriter
from pyscheduler.plugins.dynamic_resources.choice import Choice, PodClaim
from pyscheduler.plugins.dynamic_resources.claims import MOST_CONSUMERS, ClaimError, find_claims, is_reserved_for
from pyscheduler.plugins.dynamic_resources.conditions import (
    DeviceBindingError,
    DeviceTimeoutError,
    has_conditions,
    has_timed_out,
    is_ready,
    unready_devices,
)
from pyscheduler.plugins.dynamic_resources.device_counts import DeviceCounts
from pyscheduler.plugins.dynamic_resources.extended_claims import ExtendedClaim
from pyscheduler.plugins.dynamic_resources.extended_writes import ExtendedClaimWriter
from pyscheduler.plugins.dynamic_resources.features import Features
from pyscheduler.plugins.dynamic_resources.hints import DEVICE_TAINT_RULES, Hints
from pyscheduler.plugins.dynamic_resources.inventory_cache import InventoryCache
from pyscheduler.plugins.dynamic_resources.ledger import ClaimLedger
from pyscheduler.plugins.dynamic_resources.long_work import Basis, Job, LongWork
from pyscheduler.plugins.dynamic_resources.patience import StillWorkingError
from pyscheduler.plugins.dynamic_resources.selectors import DeviceSelectors
from pyscheduler.plugins.dynamic_resources.why import Why

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import ResourceKind
    from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState
    from pyscheduler.plugins.dynamic_resources.patience import Patience

__all__ = ["DynamicResources"]

_log = logging.getLogger(__name__)

_STATE: Final[StateKey[Choice]] = StateKey("DynamicResources")
#: Of pods without claims, which are most; nobody changes it.
_NO_CLAIMS: Final = Choice(())

_NOTHING_TO_GIVE_BACK: Final = Status.unschedulable("no new claims to deallocate")
_DELETED: Final = Status.unschedulable("deletion of ResourceClaim completed")
_GIVEN_BACK: Final = Status.unschedulable("deallocation of ResourceClaim completed")
_NOT_YET: Final = Status.unschedulable("still not schedulable")
_NOT_SIGNABLE: Final = Status.unschedulable("pods with dra resource claims are not signable")
_NOT_FOUND: Final = Status.from_error(LookupError("not found"))
_STILL_WORKING: Final = Status.unresolvable("devices for the pod are still being looked for")
_LOST: Final = Status.from_error(LookupError("claim allocation not found for node"))
_WORK: Final = PreBindPreFlightResult(allow_parallel=True)

#: How long devices may take to get ready, where the args do not say.
_BINDING_TIMEOUT_SECONDS: Final = 600.0
#: So often it is looked whether devices are ready.
_POLL_SECONDS: Final = 5.0


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
    SignPlugin,
):
    """Refuse nodes that do not have the devices that the pod's claims ask for; then allocate them."""

    # Of pods without claims; for others nothing is kept.
    reuse = Reuse.WHILE_NODE_STAYS
    args_type = DynamicResourcesArgs
    watches: ClassVar[Sequence[ResourceKind]] = (
        kind_of(ResourceClaim, "resourceclaims"),
        kind_of(ResourceSlice, "resourceslices", namespaced=False),
        kind_of(DeviceClass, "deviceclasses", namespaced=False),
    )
    gated_watches: ClassVar[Mapping[str, Sequence[ResourceKind]]] = {"DRADeviceTaintRules": (DEVICE_TAINT_RULES,)}
    rbac: ClassVar[Sequence[PolicyRule]] = (
        PolicyRule(
            api_groups=("resource.k8s.io",),
            resources=("resourceclaims", "resourceclaims/status", "resourceclaims/binding"),
            verbs=("patch",),
        ),
        PolicyRule(api_groups=("resource.k8s.io",), resources=("resourceclaims",), verbs=("get", "create", "delete")),
    )

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        given = args if args is not None else DynamicResourcesArgs()
        has_timeout = handle.feature_gates["DRASchedulerFilterTimeout"]
        self._long_work = LongWork(handle, (given.filter_timeout_seconds or 0.0) if has_timeout else 0.0)
        binding = given.binding_timeout_seconds
        self._binding_timeout_seconds = _BINDING_TIMEOUT_SECONDS if binding is None else binding
        self._classes = handle.lister(DeviceClass)
        claims = handle.lister(ResourceClaim)
        self._ledger = handle.shared("pyscheduler/resource-claims", lambda: ClaimLedger(claims))
        slices = handle.lister(ResourceSlice)
        features = Features.of(handle.feature_gates)
        rules = handle.lister(DeviceTaintRule) if handle.feature_gates["DRADeviceTaintRules"] else None
        self._inventory_cache = handle.shared(
            "pyscheduler/devices", lambda: InventoryCache(slices, DeviceSelectors(), features, rules)
        )
        self._why = Why(self._classes, claims, slices, self._inventory_cache, self._ledger)
        self._writer = ClaimWriter(handle, self._ledger)
        self._extended_writer = ExtendedClaimWriter(handle, self._ledger, self._writer)
        self._extended = ExtendedResources.of(handle)
        if handle.feature_gates["DRAExtendedResource"]:
            self._extended.follow(self._classes, DeviceCounts(self._inventory_cache, self._ledger).count)
        self._hints = Hints(self._ledger.get, self._ledger.take_refused, has_rules=rules is not None)

    def _of(self, state: CycleState, pod: Pod) -> Choice | None:
        """Return what PreFilter wrote; None where it did not run though the pod needs devices."""
        found = state.get(_STATE)
        if found is None and not pod.spec.resource_claims and not self._extended.concern(pod):
            return _NO_CLAIMS
        return found

    # Queueing

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not pod.spec.resource_claims:
            return None
        try:
            find_claims(pod, self._ledger.get)
        except ClaimError as error:
            return Status.unresolvable(str(error))
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._hints.events()

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        return _NOT_SIGNABLE if pod.spec.resource_claims else ()

    def may_reuse(self, pod: Pod) -> bool:
        """Return False for a pod that may need devices for its extended resources."""
        return not self._extended.concern(pod)

    # Filtering

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        state.write(_STATE, _NO_CLAIMS)
        if not pod.spec.resource_claims and not self._extended.concern(pod):
            return Status.skip()
        try:
            claims = [PodClaim(claim) for claim in find_claims(pod, self._ledger.get)]
        except ClaimError as error:
            return Status.unresolvable(str(error))
        extended = ExtendedClaim.of(pod, self._extended, self._ledger.made_for(pod))
        if not claims and extended is None:
            return Status.skip()
        for each in claims:
            refused = self._look_at(each, state) if self._ledger.has_room(each.claim, pod) else _in_use(each.claim)
            if refused is not None:
                self._ledger.note_refused(pod)
                return refused
        choice = Choice(claims, extended)
        self._prepare(choice)
        if choice.make_allocator is not None:
            self._long_work.look_up(pod, choice, self._basis(choice))
            for allocator in choice.allocators.values():
                allocator.go_by(self._ledger.allocated)
        state.write(_STATE, choice)
        return None

    def _look_at(self, each: PodClaim, state: CycleState) -> Status | None:
        """Find out what there is to do about a claim; return why the pod cannot be scheduled because of it."""
        claim = each.claim
        allocation = claim.status.allocation
        if allocation is None:
            allocation = self._ledger.promised(claim.uid)
            if allocation is None:
                return self._check_classes(claim)
            if state.joint is None or not self._ledger.is_shared_in(state.joint, claim.uid):
                return _in_progress(claim)
            each.shared = allocation
        if self._ledger.is_given_away(claim):
            return Status.unschedulable(f"the devices of resource claim {claim.key} were given to another claim")
        if allocation.node_selector is not None:
            try:
                each.nodes = compile_node_selector(allocation.node_selector)
                each.nodes.check()
            except SelectorError as error:
                return Status.from_error(error)
        return None

    def _check_classes(self, claim: ResourceClaim) -> Status | None:
        """Return what is wrong with the requests of a claim, before any node is looked at."""
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                named = [(request.name, request.exactly.device_class_name)]
            elif not request.first_available:
                return _wrong_request(claim, request.name, "unknown request type")
            elif not self.handle.feature_gates["DRAPrioritizedList"]:
                return _wrong_request(
                    claim, request.name, "has subrequests, but the DRAPrioritizedList feature is disabled"
                )
            else:
                named = [(f"{request.name}/{way.name}", way.device_class_name) for way in request.first_available]
            for name, class_name in named:
                if not class_name:
                    return Status.from_error(ClaimError(f"request {name}: unsupported request type"))
                if self._classes.get(class_name) is None:
                    return Status.unresolvable(f"request {name}: device class {class_name} does not exist")
        return None

    def _prepare(self, choice: Choice) -> None:
        """Have devices chosen for the claims that have none, as things are now."""
        choice.changes = self._ledger.allocated.changes
        choice.allocators.clear()
        pending = choice.pending
        if not pending and choice.extended is None:
            return
        self._choose_by(choice, self._ledger.allocated)

    def _choose_by(self, choice: Choice, allocated: AllocatedState) -> None:
        """Have devices chosen by a state of what is allocated."""
        claims = [each.claim for each in choice.pending if each.shared is None]
        cache, inventory = self._inventory_cache, self._inventory_cache.inventory()
        choice.make_allocator = lambda extra: Allocator(
            [*claims, *extra], allocated, self._classes.get, inventory, cache.selectors, cache.features
        )
        for allocator in choice.allocators.values():
            allocator.go_by(allocated)

    def _basis(self, choice: Choice) -> Basis:
        """Return what the devices for a pod depend on, but for what is allocated."""
        claims = [each.claim for each in choice.pending if each.shared is None]
        return Basis.of(claims, self._classes.get, self._inventory_cache.inventory(), self._ledger.allocated)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        choice = self._of(state, pod)
        if choice is None:
            return _all_refused(nodes, _NOT_FOUND)
        if choice.is_empty:
            return None
        is_question = state.trial is not None and state.trial.is_question
        self._keep_up(choice)
        if self._long_work.is_busy_with(pod):
            return self._unfinished(state, nodes)
        try:
            statuses = self._judge(choice, nodes, self._long_work.patience(pod))
        except StillWorkingError:
            if is_question or self._go_on_beside(pod, choice, nodes):
                return self._unfinished(state, nodes)
            # No event loop runs, so nobody waits for anything.
            statuses = self._judge(choice, nodes, self._long_work.patience(pod, endless=True))
        if choice.found is not None and not is_question:
            self._long_work.note_used(pod)
        if statuses is not None:
            self._ledger.note_refused(pod)
        return statuses

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        return self._why.text(pod, nodes)

    def _unfinished(self, state: CycleState, nodes: Nodes) -> NodeStatuses | None:
        after_failure = state.get(AFTER_FAILURE)
        if after_failure is not None:
            after_failure.is_unfinished = True
        return _all_refused(nodes, _STILL_WORKING)

    def _judge(self, choice: Choice, nodes: Nodes, patience: Patience) -> NodeStatuses | None:
        return choice.judge(nodes, self._overdue, patience)

    def _overdue(self, claim: ResourceClaim) -> bool:
        """Return True if the devices of a claim failed, or took too long to get ready."""
        if claim.status.allocation is None or not self._waits_for_devices:
            return False
        timing = {"now": self.handle.clock.wall(), "timeout_seconds": self._binding_timeout_seconds}
        try:
            return not is_ready(claim) and has_timed_out(claim, **timing)
        except DeviceBindingError:
            return True

    def _go_on_beside(self, pod: Pod, choice: Choice, nodes: Nodes) -> bool:
        """Go on beside the scheduler; return False where that is not possible."""
        names = None if len(nodes) == len(self.handle.snapshot.nodes) else frozenset(info.name for info in nodes)
        # What was found out about selectors is known to those; the rest is little.
        choice.allocators.clear()

        def prepare(own: Choice) -> tuple[Basis, Iterable[NodeInfo]]:
            self._choose_by(own, self._ledger.allocated.copy())
            all_nodes = self.handle.snapshot.nodes
            return self._basis(own), [info for info in all_nodes if names is None or info.name in names]

        own = attrs.evolve(choice, allocators={}, found=None, make_allocator=None)
        return self._long_work.begin(Job(pod, own, prepare, self._basis(choice)))

    def _keep_up(self, choice: Choice) -> None:
        """Choose by what is allocated now; the loop may have turned since, as it does where room is made."""
        if choice.changes != self._ledger.allocated.changes:
            self._prepare(choice)
            if choice.found is not None:
                choice.found = attrs.evolve(choice.found, is_outdated=True)

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status] | Awaitable[tuple[PostFilterResult | None, Status]]:
        choice = state.get(_STATE)
        # Where another plugin rejected the pod before this one's PreFilter, there is no state to look into, which
        # kube-scheduler takes for an error; it keeps preemption from being tried.
        if choice is None:
            return None, _NOT_FOUND
        if choice.is_empty:
            return None, _NOTHING_TO_GIVE_BACK
        # Claims of a group's members are given back during the trial: the attempt fails in either case.
        only_asks = state.trial is not None and not state.trial.is_attempt
        for claim in choice.out_of_reach(self.handle.snapshot.nodes, statuses, self._overdue):
            if claim.status.allocation is None or any(each.uid != pod.uid for each in claim.status.reserved_for):
                continue
            return (None, _GIVEN_BACK) if only_asks else self._deallocate(claim)
        left_over = choice.extended.left_over if choice.extended is not None else None
        if left_over is not None:
            return (None, _DELETED) if only_asks else self._delete(left_over, pod)
        return None, _NOT_YET

    async def _deallocate(self, claim: ResourceClaim) -> tuple[PostFilterResult | None, Status]:
        try:
            await self._writer.deallocate(claim)
        except (APIError, TransportError) as error:
            return None, Status.from_error(error)
        return None, _GIVEN_BACK

    async def _delete(self, claim: ResourceClaim, pod: Pod) -> tuple[PostFilterResult | None, Status]:
        """Delete the claim that an earlier attempt has made for extended resources; then try the pod again."""
        try:
            await self._extended_writer.discard(claim)
        except (APIError, TransportError) as error:
            return None, Status.from_error(error)
        self.handle.activate([pod])
        return None, _DELETED

    # Scoring

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        scores = np.zeros(len(nodes), dtype=np.int64)
        choice = self._of(state, pod)
        if choice is None or choice.make_allocator is None or not choice.has_ways:
            return scores
        self._keep_up(choice)
        patience = self._long_work.patience(pod, short=True)
        for row, info in enumerate(nodes):
            scores[row] = choice.score(info, patience)
        # Here, and not for each pod without claims, whose scores are all the same.
        default_normalize(scores)
        return scores

    # Reserving

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        choice = self._of(state, pod)
        if choice is None:
            return _NOT_FOUND
        if choice.make_allocator is None:
            return None
        pending = choice.pending
        for each in pending:
            promised = self._ledger.promised(each.claim.uid)
            if promised is not None and each.shared is None:
                return _in_progress(each.claim)
            each.shared = promised
        found = self.handle.snapshot.get(node_name)
        if found is None or found.node is None:
            return _LOST
        self._keep_up(choice)
        allotment = choice.allocate_on(found, self._long_work.patience(pod, short=True))
        if isinstance(allotment, Status):
            return allotment
        if state.trial is None:
            self._long_work.forget(pod)
        for each, allocation in zip(pending, allotment.of_claims, strict=True):
            each.promise = self._ledger.promise(each.claim, allocation, state.joint)
        extended = choice.extended
        if extended is not None:
            extended.chosen = allotment.variant
            if allotment.variant is not None and allotment.of_variant is not None:
                extended.promise = self._ledger.promise(allotment.variant.claim, allotment.of_variant)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        choice = self._of(state, pod)
        if choice is None or choice.is_empty:
            return
        is_real = state.trial is None
        for each in choice.claims:
            if each.promise is not None:
                self._ledger.release(each.promise)
                each.promise = None
            if is_real and each.is_allocated and is_reserved_for(each.claim, pod):
                self._writer.take_back(pod, each.claim)
        extended = choice.extended
        if extended is not None:
            if extended.promise is not None:
                self._ledger.release(extended.promise)
                extended.promise = None
            if extended.written is not None:
                self._extended_writer.take_back(extended.written.claim)

    def release_in_trial(self, pod: Pod, node_name: str) -> Callable[[], None] | None:
        return self._ledger.free(pod)

    # Binding

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        choice = self._of(state, pod)
        if choice is None:
            return _NOT_FOUND
        return Status.skip() if choice.is_empty else _WORK

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        choice = self._of(state, pod)
        if choice is None:
            return _NOT_FOUND
        try:
            for each in choice.claims:
                if await self._writer.wait_until_taken_back(pod, each.claim):
                    each.claim = self._ledger.get(each.claim.name, each.claim.namespace) or each.claim
                if not is_reserved_for(each.claim, pod):
                    promise, each.promise = each.promise, None
                    each.claim = await self._writer.bind(pod, each.claim, promise)
            if choice.extended is not None:
                await self._extended_writer.bind(pod, choice.extended)
            if self._waits_for_devices and any(has_conditions(each.claim) for each in choice.in_use):
                await self._wait_for_devices(choice, pod, node_name)
        except PySchedulerError as error:
            return Status.from_error(error)
        return None

    @property
    def _waits_for_devices(self) -> bool:
        gates = self.handle.feature_gates
        return gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]

    async def _wait_for_devices(self, choice: Choice, pod: Pod, node_name: str) -> None:
        """Wait until all devices are ready; raise `PySchedulerError` where they will not be."""
        self.handle.event_recorder.event(
            pod,
            type="Normal",
            reason="BindingConditionsPending",
            action="Scheduling",
            note=f"waiting for binding conditions for device on node {node_name}",
        )
        clock, status = self.handle.clock, "error"
        began = clock.now()
        deadline = began + self._binding_timeout_seconds
        try:
            while not self._are_ready(choice):
                left = deadline - clock.now()
                if left <= 0:
                    raise DeviceTimeoutError("device binding timeout: context deadline exceeded")
                await clock.sleep(min(_POLL_SECONDS, left))
            status = "success"
        except PySchedulerError as error:
            status = error.status if isinstance(error, DeviceBindingError) else status
            devices = unready_devices(each.claim for each in choice.in_use)
            _log.info("Devices are not ready pod=%s node=%s devices=%s err=%s", pod.key, node_name, devices, error)
            raise
        finally:
            self._tell(choice, status, clock.now() - began)

    def _tell(self, choice: Choice, status: str, seconds: float) -> None:
        """Record how a wait for devices ended."""
        recorder, profile = scheduler_recorder(self.handle), self.handle.profile_name
        for each in choice.in_use:
            allocation = each.claim.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                labels = (profile, result.driver, status)
                recorder.observe("scheduler_dra_bindingconditions_wait_duration_seconds", seconds, *labels)
                if result.binding_conditions:
                    recorder.count("scheduler_dra_bindingconditions_allocations_total", *labels)

    def _are_ready(self, choice: Choice) -> bool:
        """Return whether the devices are ready by now; raise `PySchedulerError` where they will not be."""
        for each in choice.in_use:
            claim = self._ledger.get(each.claim.name, each.claim.namespace)
            if claim is None:
                raise ClaimError(f'could not find ResourceClaim "{each.claim.key}"')
            each.claim = claim
            if is_ready(claim):
                continue
            if has_timed_out(claim, now=self.handle.clock.wall(), timeout_seconds=self._binding_timeout_seconds):
                raise DeviceTimeoutError(f"device binding timeout: claim={claim.name}")
            return False
        return True


def _all_refused(nodes: Nodes, status: Status) -> NodeStatuses | None:
    return NodeStatuses.failing(np.ones(len(nodes), dtype=np.bool_), status)


def _in_use(claim: ResourceClaim) -> Status:
    return Status.unschedulable(
        f"resource claim {claim.key} has reached its maximum number of consumers ({MOST_CONSUMERS})"
    )


def _in_progress(claim: ResourceClaim) -> Status:
    return Status.unresolvable(f"resource claim {claim.key} is in the process of being allocated")


def _wrong_request(claim: ResourceClaim, name: str, what: str) -> Status:
    return Status.unresolvable(f"resource claim {claim.key}, request {name}: {what}")
