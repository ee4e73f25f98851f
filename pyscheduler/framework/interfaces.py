"""One class for each extension point; a plugin inherits the classes of the extension points that it implements.

The scheduler makes a plugin once per profile, with the plugin's args and a `Handle`, which gives access to the
scheduler. The methods run on the event loop and must not block it. `post_filter`, `pre_bind`, `bind` and `post_bind`
may be `async def`.

An exception in a plugin method usually becomes an ERROR status. The pod is then retried after a backoff.

Source: kube-scheduler 1.36, `k8s.io/kube-scheduler/framework`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import attrs

from pyscheduler.framework.reuse import Reuse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.api import Pod, ResourceKind, Wire
    from pyscheduler.framework.cycle_state import AfterFailure, CycleState
    from pyscheduler.framework.events import ClusterEventWithHint
    from pyscheduler.framework.group_cycle import GroupVerdict, MemberTree
    from pyscheduler.framework.group_placements import GroupAssignments, GroupInfo, GroupPlacement, PlacementLevels
    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.status import Status
    from pyscheduler.framework.watches import PolicyRule

__all__ = [
    "BindPlugin",
    "EnqueueExtensions",
    "FilterPlugin",
    "GroupCyclePlugin",
    "NodeScore",
    "NominatingInfo",
    "PermitPlugin",
    "PlacementGeneratePlugin",
    "PlacementScorePlugin",
    "Plugin",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreBindPreFlightResult",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "QueueSortPlugin",
    "ReservePlugin",
    "ScorePlugin",
    "SignFragment",
    "SignPlugin",
]


@attrs.define
class NodeScore:
    """The score of one node, as `normalize_scores` of a one-node plugin sees it; `score` may be set."""

    name: str
    score: int


@attrs.frozen
class PreFilterResult:
    """Narrow the nodes that filters look at: only those named. None means all nodes.

    Several plugins' results are intersected.
    """

    node_names: frozenset[str] | None = None

    @property
    def all_nodes(self) -> bool:
        """Return whether filters look at all nodes."""
        return self.node_names is None

    def merge(self, other: PreFilterResult) -> PreFilterResult:
        """Return what both allow."""
        if self.node_names is None:
            return other
        if other.node_names is None:
            return self
        return PreFilterResult(self.node_names & other.node_names)


@attrs.frozen
class NominatingInfo:
    """The change of the pod's nominated node: set it (`""` clears it), or leave it alone when `override` is False."""

    node_name: str = ""
    override: bool = True


@attrs.frozen
class PostFilterResult:
    """The result of PostFilter for the pod; `nominating_info` None leaves the nomination alone."""

    nominating_info: NominatingInfo | None = None

    @classmethod
    def nominated(cls, node_name: str) -> PostFilterResult:
        """Nominate the pod to a node: room was, or is being, made there."""
        return cls(NominatingInfo(node_name))


@attrs.frozen
class PreBindPreFlightResult:
    """PreBind has work to do for this pod; `allow_parallel` lets other plugins' PreBind run beside it."""

    allow_parallel: bool = False


@attrs.frozen
class SignFragment:
    """One part of a pod's scheduling signature: a key and a hashable value."""

    key: str
    value: object


class Plugin:
    """The base of all plugins.

    `name` is what a profile enables; it defaults to the class's own name. The other class attributes say what the
    plugin needs, before it is made:

    - `args_type`: attrs class of its `pluginConfig` args; without one, the plugin gets the mapping that the file says;
    - `arg_names`: keys of that mapping, which `pyscheduler plugins` lists;
    - `watches`: further kinds it reads or reacts to; a kind whose CRD is absent is picked up when it appears;
    - `pod_fields`, `node_fields`: types with fields that `Pod` and `Node` do not have; `handle.fields` returns them;
    - `crds`: files with the CustomResourceDefinitions that it needs, as `package:file.yaml`;
    - `gated_watches`: kinds that it watches, too, if the feature gate of that name is on;
    - `rbac`: rules it needs beyond reading its watches; a plugin may set it on itself when it is made, from its args;
    - `reuse`: how long its answers about nodes hold; what a base class says does not count. Where that is not so for
      some pods, the plugin defines `may_reuse(pod) -> bool`: of a pod for which it returns False, nothing is kept;
    - `reuse_annotations`: the names of the pod's annotations on which these answers depend;
    - `max_permit_wait_seconds`: the longest it may make a pod wait at Permit, where more than 900 is needed; longer
      waits are cut to it. A plugin may set it on itself when it is made, from its args.

    A plugin that works on its own initiative defines `async def run(self) -> None`: started after the caches have
    synced and leadership is won, cancelled at stop, and started again after a pause if it raises. What it needs for the
    first pod it fetches in `async def prepare(self) -> None`: called at the same moment, and no pod is scheduled and no
    `run()` started before it ends; after ten seconds it is cancelled. `close()`, where defined, is called at the end.
    """

    name: ClassVar[str] = "Plugin"
    args_type: ClassVar[type | None] = None
    arg_names: ClassVar[Sequence[str]] = ()
    watches: ClassVar[Sequence[ResourceKind]] = ()
    pod_fields: ClassVar[Sequence[type[Wire]]] = ()
    node_fields: ClassVar[Sequence[type[Wire]]] = ()
    crds: ClassVar[Sequence[str]] = ()
    gated_watches: ClassVar[Mapping[str, Sequence[ResourceKind]]] = MappingProxyType({})
    rbac: ClassVar[Sequence[PolicyRule]] = ()
    reuse: ClassVar[Reuse] = Reuse.NEVER
    reuse_annotations: ClassVar[Sequence[str]] = ()
    #: Whether its filter answers about one node by what is on other nodes, as a limit on a sum does. Preemption then
    #: tries one node at a time. A plugin with `add_pod` or `remove_pod` does so in any case.
    counts_across_nodes: ClassVar[bool] = False
    max_permit_wait_seconds: float = 900.0

    @classmethod
    def watched_kinds(cls, args: object) -> Sequence[ResourceKind]:  # noqa: ARG003 - for those whose args matter
        """Return the kinds to watch with these args, where they are not always `watches`; before the plugin is made."""
        return cls.watches

    @classmethod
    def extension_kinds(cls, extensions: object) -> Sequence[ResourceKind]:  # noqa: ARG003 - for those that take any
        """Return the kinds to watch for what distributions add to this plugin, an `Extensions`."""
        return ()

    @classmethod
    def extension_kinds_for(cls, extensions: object, args: object) -> Sequence[ResourceKind]:  # noqa: ARG003 - same
        """Return the kinds of `extension_kinds` that are needed with these args."""
        return cls.extension_kinds(extensions)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        self.args = args
        if handle is not None:
            self.handle = handle

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> object:
            if name in {"args", "handle"}:
                cls = type(self).__name__
                remedy = f"call super().__init__(args, handle) in {cls}.__init__"
                raise AttributeError(f"'{cls}' object has no attribute '{name}'; {remedy}", name=name, obj=self)
            return object.__getattribute__(self, name)  # raises the usual error, or that of a property

    args: object
    handle: Handle


class PreEnqueuePlugin(Plugin):
    """Decide whether a pod may enter activeQ."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return a rejection to keep `pod` gated; called each time it would enter activeQ or backoffQ.

        A gated pod is looked at again when an event comes that this plugin registered, or the pod itself changes.
        """
        raise NotImplementedError


class QueueSortPlugin(Plugin):
    """Order activeQ; exactly one per profile, the same in all profiles.

    Define `sort_key`, or `less` where an order has no key; the runtime adapts `less`.
    """

    def sort_key(self, info: QueuedPodInfo) -> tuple[object, ...]:
        """Return a key; the smallest pops first. Where it changes while the pod queues, call `handle.resort`.

        At each place all keys have parts that can be compared: one with None where others have a text is an error,
        and its pod comes last.
        """
        raise NotImplementedError

    def adjacency_key(self, info: QueuedPodInfo) -> Hashable | None:
        """Return the group with which the pod leaves activeQ back to back; None for a pod that goes alone.

        Once a pod was popped, those of its group that are in activeQ follow, each at most once, in the order of their
        sort keys, before anybody else has a turn. A plugin that does not define this pops by sort keys alone.
        """
        return None


class EnqueueExtensions(Plugin):
    """Name the events that may make a pod schedulable that this plugin rejected.

    A plugin that rejects pods and lacks this is asked at every event.
    """

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the registrations; called once, when the profile is built."""
        raise NotImplementedError


class PreFilterPlugin(Plugin):
    """Look at the pod once before nodes are filtered, and keep what the filter needs in the cycle state.

    A plugin whose state depends on the pods of nodes also defines
    `add_pod(state, pod, to_add: PodInfo, node: NodeInfo) -> Status | None` and `remove_pod(...)`, which bring its state
    up to date in a what-if, after the pod was put on or taken off `node`.

    Either method also tells the scheduler that pods on one node count for another node. Preemption then searches each
    node alone, and so it does for nominated pods. A filter that sums over `handle.snapshot.nodes` defines both, even if
    they do nothing.
    """

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Return a rejection of the pod, a narrowed set of nodes, SKIP (no filter of this plugin this cycle), or None.

        Every plugin's PreFilter runs, unless one rejects with UNSCHEDULABLE_AND_UNRESOLVABLE or ERROR.
        """
        raise NotImplementedError

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        """Return one text about a pod that this plugin rejected; `nodes` are all nodes.

        Optional; only `pyscheduler explain` calls it. A plugin that is a `FilterPlugin`, too, has one method for both.
        """
        return ""


class FilterPlugin(Plugin):
    """Say which nodes can take the pod.

    Define one of the two. `filter_nodes` is the quick form: one call for all nodes. One-node filters run after all
    columnar ones and only on nodes still alive; the message names the first failing plugin in profile order all the
    same.
    """

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Return why `node` cannot take `pod`, or None."""
        raise NotImplementedError

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        """Return a status per row of `nodes`, or None when all pass.

        `nodes` may be some of the nodes, in any order, and may contain nodes that another plugin rejects. The scheduler
        ignores what is said of these, an ERROR too. So each row needs its own answer, which depends neither on the
        other rows nor on those before it: do not stop at a node that fails. An ERROR for a node that no plugin rejects
        fails the attempt.
        """
        raise NotImplementedError

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        """Return one text about `nodes`, all that this plugin rejected: what was asked, and the best that a node has.

        Optional; only `pyscheduler explain` calls it. After a rejection at PreFilter, `nodes` are all nodes.
        """
        return ""

    def why(self, pod: Pod, node: NodeInfo) -> str:
        """Return why this plugin rejected `node`, with amounts or names; asked where `why_nodes` returns "".

        Optional; only `pyscheduler explain` calls it, for the first three rejected nodes.
        """
        return ""


class PostFilterPlugin(Plugin):
    """Try to make room after no node was found."""

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status] | Awaitable[tuple[PostFilterResult | None, Status]]:
        """Return what was done, and SUCCESS when the pod was nominated, UNSCHEDULABLE when nothing could be done.

        The first SUCCESS ends the phase. A result may come with UNSCHEDULABLE too, to clear a nomination.
        May be `async def`, to let the loop turn where it takes long; the snapshot stays as it is meanwhile.
        """
        raise NotImplementedError


class PreScorePlugin(Plugin):
    """Look at the feasible nodes once before they are scored."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Return SKIP to leave this plugin out of scoring, an error to fail the attempt, or None."""
        raise NotImplementedError


class ScorePlugin(Plugin):
    """Rank the feasible nodes; called only when there are at least two.

    Define `score` (one node) or `score_nodes` (all at once). Scores must lie in 0..100 after `normalize_scores`, which
    may be defined by either kind; the runtime multiplies by the profile's weight.
    """

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return the raw score of `node`."""
        raise NotImplementedError

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        """Return int64[n] of raw scores, one per row of `nodes`; a fresh array, which `normalize_scores` may change."""
        raise NotImplementedError


class ReservePlugin(Plugin):
    """Keep books of what is promised to a pod before it is bound.

    A plugin may also define `release_in_trial(pod, node_name) -> Callable[[], None] | None`. The scheduler calls it
    when it evicts a pod in a trial, to find victims for example. The plugin counts what the pod holds on the node as
    free, and returns a function that counts it as held again, or None if the pod holds nothing. The scheduler calls
    that function before the trial ends. The cluster may have changed by then: the function books what is true at that
    time.

    A plugin that creates pods which hold resources for other pods may define `is_needed_by_others(pod) -> bool | None`.
    It returns None for a pod of any other kind, and False once no other pod needs the pod, so that the plugin deletes
    it. Preemption never chooses a pod as a victim for which the answer is not None. A preemptor waits while its node
    has a pod for which the answer is False.
    """

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Claim what the pod needs on the node; a rejection undoes all reservations of this pod.

        With `state.trial` set, nothing of it is real: the plugin claims in its books, and starts, announces and writes
        nothing. `unreserve` follows before the trial ends. If the pod is scheduled after all, `reserve` is called again
        with `state.trial` None.
        """
        raise NotImplementedError

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo `reserve`. Must be idempotent, must not fail, and may be called though `reserve` never was.

        With `state.trial` set, it takes the claim out of the books and tells nobody: the pod never held its node.
        """
        raise NotImplementedError


class PermitPlugin(Plugin):
    """Approve, deny or delay the binding."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return None to approve, a rejection to deny, `Status.wait(timeout=seconds)` to hold the pod.

        A held pod is in the waiting-pod map until every plugin that held it allowed it, one rejected it, or the first
        timeout passed.

        With `state.trial` set, the pod does not wait, and no other pod may be allowed, rejected or activated: WAIT
        means that too few pods have a node so far, and `state.trial.placed(group)` says which have one. If the pods are
        scheduled after all, `permit` is called again with `state.trial` None.
        """
        raise NotImplementedError


class PreBindPlugin(Plugin):
    """Prepare what the pod needs on the node, before it is bound."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Return SKIP when `pre_bind` has nothing to do for this pod; then it is not called. Must be quick.

        Anything else makes the scheduler write `status.nominatedNodeName` before the work begins.
        """
        raise NotImplementedError

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Do the work; a rejection or an error undoes the reservation and retries the pod. May be `async def`."""
        raise NotImplementedError


class BindPlugin(Plugin):
    """Bind the pod."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Bind, and return None; or return SKIP to leave the pod to the next bind plugin. May be `async def`."""
        raise NotImplementedError

    def bindings_under_way(self) -> Iterable[tuple[Pod, str]]:
        """Return pods without a node that an earlier scheduler gave to somebody else to bind, with their nodes.

        Called once, before the first pod is scheduled. The pods hold these nodes from then on, and `bind` is called for
        them without the extension points before it, to wait for the outcome.
        """
        return ()


class PostBindPlugin(Plugin):
    """Be told that a pod was bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> Awaitable[None] | None:
        """Clean up; informational. May be `async def`."""
        raise NotImplementedError


class GroupCyclePlugin(Plugin):
    """Have groups of pods scheduled in one cycle, all members against one snapshot, instead of pod by pod.

    Its Permit decides: in a trial it says whether the members that have a node so far (`state.trial.placed(group)`) are
    enough (None) or not yet (WAIT). If they are enough, the members are reserved for real, and Permit is called again
    with `state.trial` None; if it then holds all of them, they are taken back.

    With `retries_after_backoff`, members that found a node in vain are tried again when their backoff is over; without,
    when an event comes that this plugin or one that rejected another member registered. Members are tried by priority,
    then by age; with `tries_again`, where that fails and they are not alike, once more with those first that did not
    fit.
    """

    retries_after_backoff: bool = False
    tries_again: bool = True

    def groups_to_schedule(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        """Return the groups that are decided about together with a pod that was popped, each with its unbound members.

        `pod` is among them. None for a pod that is scheduled by itself. Members that do not wait in the queue are left
        out by the scheduler, those that PreEnqueue refuses, too.
        """
        raise NotImplementedError

    def groups_to_preempt(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        """Return the groups of a pod that is scheduled by itself, and may preempt only if all of them can start then.

        Each has its unbound members, and `pod` is among them; Permit decides in a trial whether they are enough. None
        for a pod that may preempt for itself alone.
        """
        return None

    def places_missing(self, group: Hashable) -> int:
        """Return how many members without a place must find one before the group can start; 1 where that is unknown."""
        return 1

    def shared_failure(self, pod: Pod) -> Callable[[AfterFailure], None] | None:
        """Return a function that does what this plugin does if a member of a group is tried and no node has room.

        The scheduler may call it instead of an attempt, if a pod like this one has just found no room. It has the
        effects of PreFilter and PostFilter in such an attempt. Return None if the plugin does not serve the group of
        the pod, if PreFilter would reject the pod, or if PostFilter would concern other pods, such as members that wait
        at Permit.
        """
        return None

    def member_tree(self, group: Hashable) -> MemberTree | None:
        """Return the parts of a group that have minimums of their own; None for a group without such parts."""
        return None

    def placement_levels(self, groups: Collection[Hashable], nodes: Nodes) -> PlacementLevels | Status | None:
        """Return the sets of nodes of which groups that are scheduled together may use one; None for all nodes.

        `nodes` are all nodes of the snapshot. A status rejects the groups. The members do not preempt.
        """
        return None

    def group_cycle_ended(self, groups: Collection[Hashable], verdict: GroupVerdict) -> None:
        """Be told what came of a cycle, after its members were dealt with."""


class PlacementGeneratePlugin(Plugin):
    """Say in which sets of nodes a group may be placed; at most one per profile.

    Called in group cycles with the gate TopologyAwareWorkloadScheduling.
    """

    def generate_placements(
        self, state: CycleState, group: GroupInfo, parent: GroupPlacement
    ) -> Sequence[GroupPlacement] | Status:
        """Return parts of `parent`, which has all nodes; or an error. Without any the group is unschedulable."""
        raise NotImplementedError


class PlacementScorePlugin(Plugin):
    """Rank the feasible placements of a group; called only if there are at least two.

    Scores must lie in 0..100 after `normalize_placement_scores`; the runtime multiplies by the profile's weight. A
    plugin may define two more methods:

    - `normalize_placement_scores(state, group, scores: NDArray[int64]) -> Status | None` changes the scores in place;
    - `bound_placement_scores(state, group, table: PlacementTable, counts: NDArray[int64]) -> NDArray[int64]` returns
      for each placement the highest normalised score that it can get if it takes at most `counts` members and some
      placement takes all of `group.pods`. If all plugins define it, the scheduler does not try placements that cannot
      win.
    """

    def score_placement(self, state: CycleState, group: GroupInfo, assignments: GroupAssignments) -> int | Status:
        """Return the raw score of a placement, or an error."""
        raise NotImplementedError


class SignPlugin(Plugin):
    """Say which facts of a pod this plugin's results depend on (opportunistic batching, KEP-5598).

    Pods for which all plugins give equal fragments get equal results. A filter or score plugin that lacks this makes
    its profile's pods unsignable, which only costs speed.
    """

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        """Return the fragments, or a rejection when `pod` cannot be signed."""
        raise NotImplementedError
