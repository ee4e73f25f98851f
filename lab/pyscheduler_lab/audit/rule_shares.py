"""Rule 5 of the audit of a batch scheduler: fair shares justify each reclaim.

A reclaim evicts pods of one queue for a job of another.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_lab.audit.amounts import Amounts, add, plus
from pyscheduler_lab.audit.evictions import RECLAIMING, announced_in, promised_in
from pyscheduler_lab.audit.facts import Bound, Evicted, Fact
from pyscheduler_lab.audit.gangs import leaf_minima, leaf_of, next_tasks
from pyscheduler_lab.audit.reclaims import Claim, ShareState, kai_objection, volcano_objection
from pyscheduler_lab.audit.rule import Rule
from pyscheduler_lab.audit.shares import kai_shares
from pyscheduler_lab.audit.volcano_shares import capacity_deserved, kube_batch_deserved, proportion_deserved
from pyscheduler_lab.audit.world import ALLOCATED, NON_PREEMPTIBLE, PENDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyscheduler_lab.audit.batch_objects import Queue
    from pyscheduler_lab.audit.core_objects import Pod
    from pyscheduler_lab.audit.history import Change
    from pyscheduler_lab.audit.options import Options
    from pyscheduler_lab.audit.verdict import Verdict
    from pyscheduler_lab.audit.world import World

__all__ = ["ShareRule"]

#: Earlier states are kept at regular distances, and as many from before and after what may change shares at once: so
#: many amounts of queues, but not fewer states than that.
_AMOUNTS: Final = 4096
_STATES: Final = 16
#: In so many steps the pods that a pass may have placed are added.
_STEPS: Final = 8
#: So many pods that were evicted before they were bound are remembered, and so many promises.
_UNBOUND: Final = 1024


@attrs.define
class _Promise:
    """A node that the scheduler promised to a pod. `until`: when it withdrew the promise."""

    at: float
    uid: str
    until: float = math.inf


@attrs.frozen
class _Placed:
    """A pod that a pass has placed in its memory: its job, its queue with the ancestors, and its requests."""

    job: str
    path: tuple[str, ...]
    requests: Amounts
    #: When the log shows it: the pod was bound, evicted or promised a node.
    at: float


@attrs.frozen(kw_only=True)
class _Moment:
    """The state of the world at one moment, as far as the judges need it."""

    at: float
    queues: Mapping[str, Queue]
    allocated: Mapping[str, Amounts]
    non_preemptible: Mapping[str, Amounts]
    pending: Mapping[str, Amounts]
    pool: Amounts
    #: By uid, the pending pods with a nominated node.
    nominated: Mapping[str, _Placed]
    #: Queues with at least one pod group.
    used: frozenset[str]
    claims: Mapping[str, Claim]

    @classmethod
    def of(cls, world: World, at: float, makers: Iterable[str], nominated: Mapping[str, _Placed]) -> _Moment:
        """Copy what is needed from the world."""
        sums = {
            kind: {name: dict(world.sum_of(kind, name)) for name in world.queues}
            for kind in (ALLOCATED, NON_PREEMPTIBLE, PENDING)
        }
        return cls(
            at=at,
            queues=dict(world.queues),
            allocated=sums[ALLOCATED],
            non_preemptible=sums[NON_PREEMPTIBLE],
            pending=sums[PENDING],
            pool=world.pool(),
            nominated=dict(nominated),
            used=frozenset(group.queue for group in world.groups.values()),
            claims={by: claim for by in makers if (claim := _claim(world, by)) is not None},
        )

    def states(self, options: Options, decision: _Decision) -> Iterator[ShareState]:
        """Yield the state with the pods that hold a node, and then the states that a pass may have had in memory.

        Each has the pods with a nominated node or not, those that were placed around the decision or only the nearest
        of them, and those that other jobs were said to evict or not.
        """
        fair = _fair_shares(self, options)
        state = ShareState(
            queues=self.queues, allocated=self.allocated, non_preemptible=self.non_preemptible, fair=fair
        )
        yield state
        nominated = {uid: pod for uid, pod in self.nominated.items() if pod.job != decision.by}
        for known in ({}, nominated) if nominated else ({},):
            for placed in decision.placements():
                coming = _sums((known | placed).values())
                for going in ({}, decision.leaving) if decision.leaving else ({},):
                    if coming or going:
                        yield attrs.evolve(state, allocated=_joined(self.allocated, coming, going))


@attrs.define
class _Decision:
    """The evictions of one reclaim."""

    by: str
    moments: list[_Moment]
    last: float
    #: When an event announced it; else the time of its first eviction.
    decided: float
    evicted: list[Evicted] = attrs.Factory(list)
    #: By uid of an evicted pod, its queue and its leaf; by job, the minimum of each leaf: the group may be gone later.
    queues: dict[str, str] = attrs.Factory(dict)
    leaves: dict[str, str] = attrs.Factory(dict)
    minima: dict[str, Mapping[str, int]] = attrs.Factory(dict)
    #: By uid, the pods that a pass placed around the first eviction although no binding is written before it.
    placed: dict[str, _Placed] = attrs.Factory(dict)
    #: By queue, less than nothing: what the scheduler had announced to evict and had not written.
    leaving: dict[str, Amounts] = attrs.Factory(dict)

    def placements(self) -> Iterator[dict[str, _Placed]]:
        """Yield the pods that the pass may have placed: none, and then more and more, those nearest in time first.

        What a later pass placed is among them, so one of these sets is right.
        """
        placed = sorted(self.placed.items(), key=lambda one: abs(one[1].at - self.decided))
        cuts = sorted({len(placed) * step // _STEPS for step in range(_STEPS + 1)})
        yield from (dict(placed[:cut]) for cut in cuts)


def _sums(pods: Iterable[_Placed]) -> dict[str, Amounts]:
    """Return what the pods request, by queue."""
    found: dict[str, Amounts] = {}
    for pod in pods:
        for queue in pod.path:
            add(found.setdefault(queue, {}), pod.requests)
    return found


def _joined(first: Mapping[str, Amounts], *others: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Return the amounts of the queues of `first`, each with those of the others."""
    return {name: plus(amounts, *(each.get(name, {}) for each in others)) for name, amounts in first.items()}


def _fair_shares(moment: _Moment, options: Options) -> dict[str, Amounts]:
    """Return the fair shares (deserved amounts) of all queues, by the formula of the options."""
    queues, pool = moment.queues, moment.pool
    requested = {name: plus(amounts, moment.pending[name]) for name, amounts in moment.allocated.items()}
    if options.formula == "capacity":
        return capacity_deserved(queues, pool)
    if options.formula == "proportion":
        return proportion_deserved(queues, requested, pool, moment.used)
    if options.formula == "kube-batch":
        return kube_batch_deserved(queues, requested, pool)
    return kai_shares(queues, requested, pool, k_value=options.k_value, usage=options.usage)


def _leaves(change: Change) -> bool:
    return change.type == "DELETED" or bool(change.obj["metadata"].get("deletionTimestamp"))


def _claim(world: World, job: str) -> Claim | None:
    """Return what a job asks for next: for Volcano and kube-batch one task."""
    tasks = next_tasks(world.group_of(job), world.members.get(job, {}).values())
    if world.options.formula != "kai":
        tasks = tasks[:1]
    if not tasks:
        return None
    return Claim(
        queue=world.queue_of(tasks[0]),
        preemptible=world.preemptible(tasks[0]),
        request=plus(*(pod.requests for pod in tasks)),
    )


class ShareRule(Rule):
    """Fair shares justify each reclaim."""

    number = 5

    def __init__(self, world: World, verdict: Verdict) -> None:
        super().__init__(world, verdict)
        self._moments: deque[_Moment] = deque()
        self._decisions: dict[str, _Decision] = {}
        #: Decisions whose jobs have bound pods. The bindings of other jobs that the pass had placed may follow.
        self._ended: list[_Decision] = []
        #: By name of a queue, its newest spec; and whether the last change was one of quotas or nodes.
        self._specs: dict[str, object] = {}
        self._has_turned = False
        #: Pods that were evicted before they were bound: time and pod.
        self._unbound: deque[tuple[float, Pod]] = deque(maxlen=_UNBOUND)
        #: Pods that an event says are evicted: time, the job that reclaims them or "", and key of the pod.
        self._announced: deque[tuple[float, str, str]] = deque(maxlen=_UNBOUND)
        self._promises: deque[_Promise] = deque(maxlen=_UNBOUND)
        self._nominated: dict[str, _Placed] = {}
        self._makers: Final = {one.by for one in world.records.values() if one.action in RECLAIMING and one.by}

    def before(self, change: Change) -> None:
        """Keep the state before a change, if a reclaim may rest on it."""
        if not self._makers or self.options.formula == "none":
            return
        if change.kind == "Pod":
            self._note_unbound(change)
            self._note_nomination(change)
        if change.kind == "Event":
            self._note_announced(change)
            self._note_promised(change)
        counts = change.kind in {"Pod", "PodGroup", "Queue", "Node"} and self._is_new(change.at)
        has_turned, self._has_turned = self._has_turned, self._is_turn(change)
        if counts or has_turned or self._has_turned or (change.kind == "Pod" and self._is_reclaim(change)):
            self._keep(_Moment.of(self.world, change.at, self._makers, self._nominated))

    def after(self, change: Change) -> None:
        """Keep track of the pending pods with a nominated node."""
        if change.kind != "Pod" or not self._makers:
            return
        pod = self.world.pods.get(change.obj["metadata"]["uid"])
        if pod is not None and pod.nominated and pod.pending and not pod.gated and self.world.is_ours(pod):
            self._nominated[pod.uid] = self._placed(pod, change.at)
        else:
            self._nominated.pop(change.obj["metadata"]["uid"], None)

    def _keep(self, moment: _Moment) -> None:
        while self._moments and (
            len(self._moments) >= 2 * self._most or self._moments[0].at < moment.at - self.options.in_flight_seconds
        ):
            self._moments.popleft()
        self._moments.append(moment)

    @property
    def _most(self) -> int:
        """Return how many states are kept at regular distances."""
        return max(_STATES, _AMOUNTS // max(1, len(self.world.queues)))

    def _note_announced(self, change: Change) -> None:
        """Take in an event about evictions: they are decided, and perhaps not written yet."""
        found = announced_in(change.obj)
        if found is not None:
            record, keys = found
            by = record.by if record.action in RECLAIMING else ""
            self._announced.extend((change.at, by, key) for key in keys)

    def _note_nomination(self, change: Change) -> None:
        """Take in that a pod gets a nominated node or loses it."""
        uid = change.obj["metadata"]["uid"]
        pod = self.world.pods.get(uid)
        before = "" if pod is None else pod.nominated
        now = str((change.obj.get("status") or {}).get("nominatedNodeName") or "")
        if now and now != before:
            self._promise(change.at, uid)
        elif before and not now:
            self._withdraw(change.at, uid)

    def _note_promised(self, change: Change) -> None:
        """Take in an event that promises a pod a node, or says that the pod waits without a promise."""
        uid, is_promised = promised_in(change.obj)
        if is_promised:
            self._promise(change.at, uid)
        elif uid:
            self._withdraw(change.at, uid)

    def _promise(self, at: float, uid: str) -> None:
        self._promises.append(_Promise(at, uid))
        pod = self.world.pods.get(uid)
        for decision in (*self._decisions.values(), *self._ended):
            if pod is not None and pod.pending and at - decision.decided <= self.options.in_flight_seconds:
                self._place(decision, pod, at)

    def _withdraw(self, at: float, uid: str) -> None:
        for promise in self._promises:
            if promise.uid == uid and promise.until > at:
                promise.until = at

    def _note_unbound(self, change: Change) -> None:
        """Count a pod that is evicted before its binding: the scheduler had placed it in its memory."""
        metadata = change.obj["metadata"]
        pod = self.world.pods.get(metadata["uid"])
        if pod is not None and _leaves(change) and not pod.node and not pod.deleting and pod.uid in self.world.records:
            self._unbound.append((change.at, pod))
            self._count_placed(change.at, pod)

    def _is_reclaim(self, change: Change) -> bool:
        uid = change.obj["metadata"]["uid"]
        record, pod = self.world.records.get(uid), self.world.pods.get(uid)
        if record is None or record.action not in RECLAIMING or pod is None or pod.deleting:
            return False
        return _leaves(change) and record.by not in self._decisions

    def _is_turn(self, change: Change) -> bool:
        """Return True if shares may change at once.

        A queue or a node comes, goes or has another spec; or a pod leaves its node although nobody evicts it.
        """
        if change.kind == "Node":
            return change.type in {"ADDED", "DELETED"}
        if change.kind == "Pod":
            pod = self.world.pods.get(change.obj["metadata"]["uid"])
            return pod is not None and bool(pod.node) and pod.uid not in self.world.records and _leaves(change)
        if change.kind != "Queue":
            return False
        name, spec = change.obj["metadata"]["name"], None if change.type == "DELETED" else change.obj.get("spec")
        is_other = self._specs.get(name) != spec
        self._specs[name] = spec
        return is_other

    def _is_new(self, at: float) -> bool:
        """Return True if the newest state is old enough for another one."""
        gap = self.options.in_flight_seconds / self._most
        return not self._moments or at - self._moments[-1].at >= gap

    def advance(self, at: float) -> None:
        """Judge the decisions that are complete."""
        for by in list(self._decisions):
            if at - self._decisions[by].last > self.options.burst_seconds:
                self._judge(self._decisions.pop(by))
        if self._ended:
            over = [each for each in self._ended if not self._is_in_flight(each, at)]
            self._ended = [each for each in self._ended if self._is_in_flight(each, at)]
            for decision in over:
                self._judge(decision)

    def _is_in_flight(self, decision: _Decision, at: float) -> bool:
        return at - decision.evicted[0].at <= self.options.in_flight_seconds

    def take(self, fact: Fact) -> None:
        """Collect the evictions of each decision."""
        if isinstance(fact, Bound):
            if fact.pod.job in self._decisions:
                self._ended.append(self._decisions.pop(fact.pod.job))
            self._count_placed(fact.at, fact.pod)
        if not isinstance(fact, Evicted) or fact.record.action not in RECLAIMING or self.options.formula == "none":
            return
        decision = self._decisions.get(fact.record.by)
        if decision is None:
            since = fact.at - self.options.in_flight_seconds
            moments = [one for one in self._moments if one.at >= since]
            announced = [at for at, by, _ in self._announced if by == fact.record.by and at >= since]
            decided = min(announced, default=fact.at)
            decision = self._decisions[fact.record.by] = _Decision(fact.record.by, moments, fact.at, decided)
            for at, pod in self._unbound:
                if at >= since:
                    self._place(decision, pod, at)
            self._place_promised(decision)
            self._announce(decision, since)
        decision.last = fact.at
        decision.evicted.append(fact)
        decision.queues[fact.pod.uid] = self.world.queue_of(fact.pod)
        group = self.world.group_of(fact.pod.job)
        decision.leaves[fact.pod.uid] = leaf_of(group, fact.pod)
        decision.minima.setdefault(fact.pod.job, leaf_minima(group))

    def _place_promised(self, decision: _Decision) -> None:
        """Count the pods that the pass had promised a node."""
        for promise in self._promises:
            pod = self.world.pods.get(promise.uid)
            is_near = abs(promise.at - decision.decided) <= self.options.in_flight_seconds
            if is_near and promise.until >= decision.decided and pod is not None and pod.pending:
                self._place(decision, pod, promise.at)

    def _announce(self, decision: _Decision, since: float) -> None:
        """Take away what was said to be evicted, by other jobs or actions, and still holds its node."""
        keys = {key for at, by, key in self._announced if at >= since and by != decision.by}
        for pod in self.world.pods.values() if keys else ():
            if pod.key in keys and pod.node and not pod.deleting:
                for queue in self.world.path(self.world.queue_of(pod)):
                    add(decision.leaving.setdefault(queue, {}), pod.requests, -1.0)

    def _count_placed(self, at: float, pod: Pod) -> None:
        """Count a pod for the decisions that were made a moment ago: a pass may have placed it before."""
        for decision in (*self._decisions.values(), *self._ended):
            if self._is_in_flight(decision, at):
                self._place(decision, pod, at)

    def _place(self, decision: _Decision, pod: Pod, at: float) -> None:
        """Count a pod once, unless it is one of the job itself: for what that binds, it reclaimed."""
        if pod.job != decision.by:
            decision.placed.setdefault(pod.uid, self._placed(pod, at))

    def _placed(self, pod: Pod, at: float) -> _Placed:
        return _Placed(pod.job, self.world.path(self.world.queue_of(pod)), pod.requests, at)

    def finish(self, end: float) -> None:
        """Judge the remaining decisions."""
        del end
        for decision in (*self._decisions.values(), *self._ended):
            self._judge(decision)

    def _judge(self, decision: _Decision) -> None:
        first = decision.evicted[0]
        known = [moment for moment in reversed(decision.moments) if decision.by in moment.claims]
        victims = self._units(decision)
        if not known or not victims:
            self.skip()
            return
        self.judge()
        objection = ""
        for moment in known:
            for state in moment.states(self.options, decision):
                if any(queue not in state.queues for queue in (*victims, moment.claims[decision.by].queue)):
                    continue
                found = self._objection(state, moment.claims[decision.by], victims)
                if not found:
                    return
                objection = objection or found
        # Nodes have a watch of their own: a pass may know new queues and not yet that a node is gone.
        if not objection or any(moment.pool != known[0].pool for moment in known):
            self.skip()
            return
        pods = ", ".join(one.pod.key for one in decision.evicted)
        text = f"the reclaim of {pods} for {decision.by} is not justified: {objection}"
        self.report(first.at, first.revision, (decision.by, *(one.pod.key for one in decision.evicted)), text)

    def _objection(self, state: ShareState, claim: Claim, victims: Mapping[str, list[Amounts]]) -> str:
        if self.options.formula == "kai":
            return kai_objection(state, claim, victims, multiplier=self.options.saturation_multiplier)
        return volcano_objection(state, claim, victims, formula=self.options.formula)

    def _units(self, decision: _Decision) -> dict[str, list[Amounts]]:
        """Return the evicted units by queue: each pod alone, or for KAI the core of a job as one unit."""
        units: dict[str, list[Amounts]] = {}
        jobs: dict[str, list[Pod]] = {}
        for one in decision.evicted:
            if not one.record.moved:
                jobs.setdefault(one.pod.job, []).append(one.pod)
        for job, pods in jobs.items():
            own = units.setdefault(decision.queues[pods[0].uid], [])
            if self.options.formula != "kai":
                own += [pod.requests for pod in pods]
                continue
            core: list[Pod] = []
            for leaf, minimum in decision.minima[job].items():
                members = [pod for pod in pods if decision.leaves[pod.uid] == leaf]
                cut = min(minimum, len(members))
                core += members[:cut]
                own += [pod.requests for pod in members[cut:]]
            if core:
                own.append(plus(*(pod.requests for pod in core)))
        return units
