"""Reserve quota of a namespace for its pod groups, and count how much of each reservation is still unused.

For example, a group declares `minResources` of 10 CPUs, and has 3 pods with 1 CPU each. These pods use quota from their
creation on. The other 7 CPUs are the group's *demand*. The demand is granted when each ResourceQuota for these pods
has 7 CPUs that are neither used nor reserved. From then on, the group has a *reservation* of 10 CPUs.

Demands are granted in the order in which the groups were created. A demand that does not fit does not block others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from pyscheduler.podgroup.directory import ChangeKind
from pyscheduler_quota.claims import Claim, Shortfall, phase_of, reserved_by
from pyscheduler_quota.quotas import Amounts, PodTraits, Quota, declared_amounts, exceeded, pod_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pyscheduler.api import Pod, ResourceQuota
    from pyscheduler.podgroup.directory import GroupChange, GroupDirectory
    from pyscheduler.podgroup.identity import GroupId
    from pyscheduler.podgroup.membership import GroupState

__all__ = ["Reservations"]

_Sums: TypeAlias = Sequence[tuple[Quota, dict[str, int]]]
"""Quotas, with what is reserved of each."""

#: Phases of groups whose work is done.
_DONE: Final = frozenset({"Completed", "Finished"})


def _shortfalls(claim: Claim, counting: _Sums) -> tuple[Shortfall, ...]:
    """Return where quotas have no room for what a group needs beside the reservations of others."""
    own = claim.outstanding()
    short: list[Shortfall] = []
    for quota, reserved in counting:
        limited = claim.demand(quota.hard)
        others = {name: reserved.get(name, 0) - own.get(name, 0) for name in limited}
        short += (
            Shortfall(
                quota=quota.name,
                resource=name,
                needed=limited[name],
                hard=quota.hard[name],
                used=quota.used.get(name, 0),
                reserved=others.get(name, 0),
            )
            for name in exceeded(limited, quota.hard, quota.used, others)
        )
    return tuple(short)


def _counts(quota: Quota, claim: Claim) -> bool:
    """Return whether a quota counts the members of a claim; most quotas count all pods."""
    return quota.counts_all or quota.counts(claim.traits())


class Reservations:
    """The claims of the groups of a directory that `serves` accepts.

    While `trusts` is True, the annotations decide what is granted: the scheduler decides elsewhere, or has not begun.
    """

    def __init__(self, directory: GroupDirectory, serves: Callable[[GroupState], bool]) -> None:
        self._directory = directory
        self._serves = serves
        self.trusts = True
        #: By namespace; then by name of the quota, and by group.
        self._quotas: dict[str, dict[str, Quota]] = {}
        self._claims: dict[str, dict[GroupId, Claim]] = {}
        #: Called with the namespace when a decision there may change, and with a claim when its annotation may.
        self.on_news: Callable[[str], object] = lambda _: None
        self.on_claim: Callable[[Claim], object] = lambda _: None
        for state in directory:
            self.refresh(state)
        directory.subscribe(self._changed)

    # --- queries

    def of(self, group: GroupId) -> Claim | None:
        """Return the claim of a group; None if it declares nothing or is not served."""
        return self._claims.get(group.namespace, {}).get(group)

    def claims(self, namespace: str) -> Collection[Claim]:
        """Return the claims of a namespace."""
        return self._claims.get(namespace, {}).values()

    def quotas(self, namespace: str) -> Iterable[Quota]:
        """Return the quotas of a namespace."""
        return self._quotas.get(namespace, {}).values()

    def __iter__(self) -> Iterator[Claim]:
        """Yield all claims."""
        for claims in self._claims.values():
            yield from claims.values()

    # --- decisions

    def begin(self) -> None:
        """Decide from now on; what annotations say so far counts."""
        if self.trusts:
            self.trusts = False
            for claim in self:
                self._end_or_begin(claim)
                self._news(claim.id.namespace)

    def decide(self, namespace: str) -> list[Claim]:
        """Grant what fits; return the claims whose members wait now and did not before, or the other way round."""
        claims = self._claims.get(namespace, {}).values()
        if namespace not in self._quotas:
            held = [claim for claim in claims if claim.is_held]
            for claim in held:
                claim.shortfalls = ()
            return held
        open_ones = [claim for claim in claims if not claim.has_ended and claim.reserved is not claim.total]
        if not open_ones:
            return []
        sums = [(quota, self._reserved(quota, claims)) for quota in self.quotas(namespace)]
        changed = []
        for claim in sorted(open_ones, key=lambda each: (each.state.group.created, each.id)):
            was_held = claim.is_held
            self._decide_one(claim, sums)
            if claim.is_held is not was_held:
                changed.append(claim)
        return changed

    def _decide_one(self, claim: Claim, sums: _Sums) -> None:
        """Grant a claim if it fits; a claim that no quota counts is neither granted nor short."""
        claim.is_decided = True
        own = claim.outstanding()
        counting = [(quota, reserved) for quota, reserved in sums if _counts(quota, claim)]
        claim.shortfalls = _shortfalls(claim, counting)
        if claim.shortfalls or not any(name in claim.total for quota, _ in counting for name in quota.hard):
            return
        claim.grant()
        for quota, reserved in counting:
            for name, nanos in claim.demand(quota.hard).items():
                reserved[name] = reserved.get(name, 0) + nanos - own.get(name, 0)
        self.on_claim(claim)

    def shortfalls(self, claim: Claim) -> tuple[Shortfall, ...]:
        """Return where quotas have no room for a claim now, without a decision."""
        claims = self.claims(claim.id.namespace)
        counting = [
            (quota, self._reserved(quota, claims)) for quota in self.quotas(claim.id.namespace) if _counts(quota, claim)
        ]
        return _shortfalls(claim, counting)

    @staticmethod
    def _reserved(quota: Quota, claims: Iterable[Claim], but: GroupId | None = None) -> dict[str, int]:
        """Return what groups reserve of a quota for members that do not exist yet."""
        total: dict[str, int] = {}
        for claim in claims:
            left = claim.outstanding() if claim.reserved and claim.id != but else {}
            if left and _counts(quota, claim):
                for name in quota.hard:
                    if name in left:
                        total[name] = total.get(name, 0) + left[name]
        return total

    def refusal_of(self, pod: Pod, more: Callable[[Quota], Amounts] = lambda _: {}) -> list[Shortfall]:
        """Return where a new pod would take what groups have reserved; a member may draw on its own reservation.

        `more` returns what is used of a quota beyond what its status says.
        """
        group = self._directory.group_id(pod)
        own_claim = None if group is None else self.of(group)
        own = {} if own_claim is None else own_claim.outstanding()
        usage, traits = pod_usage(pod), PodTraits.of(pod)
        beyond = {name: nanos - own.get(name, 0) for name, nanos in usage.items() if nanos > own.get(name, 0)}
        found = []
        for quota in self.quotas(pod.namespace) if beyond else ():
            if not quota.counts(traits):
                continue
            others = self._reserved(quota, self.claims(pod.namespace), but=group)
            extra = more(quota)
            # The quota refuses such a pod itself. Not so one that does not fit beside what is used, which may be less
            # by now.
            too_much = set(exceeded(usage, quota.hard))
            found += [
                Shortfall(
                    quota=quota.name,
                    resource=name,
                    needed=usage[name],
                    hard=quota.hard[name],
                    used=quota.used.get(name, 0) + extra.get(name, 0),
                    reserved=others[name],
                )
                for name in exceeded(beyond, quota.hard, quota.used, extra, own, others)
                if others.get(name, 0) > 0 and name not in too_much
            ]
        return found

    def never_fits(self, pod: Pod) -> bool:
        """Return True if a pod alone exceeds a quota, so that the API server refuses it in any case."""
        usage, traits = pod_usage(pod), PodTraits.of(pod)
        counting = (quota for quota in self.quotas(pod.namespace) if quota.counts(traits))
        return any(exceeded(usage, quota.hard) for quota in counting)

    def expect(self, pod: Pod) -> None:
        """Let a member draw on the reservation of its group before its creation is seen."""
        group = self._directory.group_id(pod)
        claim = None if group is None else self.of(group)
        if claim is not None:
            usage = pod_usage(pod)
            claim.draw(pod.uid, {name: usage[name] for name in claim.total if name in usage})

    def withdraw(self, pod: Pod) -> None:
        """Take that back for a member whose creation was not seen."""
        group = self._directory.group_id(pod)
        claim = None if group is None else self.of(group)
        if claim is not None and self._directory.place_of(pod.uid) is None:
            claim.draw(pod.uid, {})

    # --- changes

    def put_quota(self, quota: ResourceQuota) -> None:
        """Add or update a quota."""
        namespace = quota.namespace
        if namespace not in self._quotas:
            for claim in self.claims(namespace):
                self._count(claim)
        self._quotas.setdefault(namespace, {})[quota.name] = Quota.of(quota)
        self._news(namespace)

    def remove_quota(self, quota: ResourceQuota) -> None:
        """Remove a quota."""
        found = self._quotas.get(quota.namespace, {})
        found.pop(quota.name, None)
        if not found:
            self._quotas.pop(quota.namespace, None)
        self.on_news(quota.namespace)

    def _news(self, namespace: str) -> None:
        if namespace in self._quotas and namespace in self._claims:
            self.on_news(namespace)

    def refresh(self, state: GroupState) -> None:
        """Read a group again: its object, its phase or its annotation changed."""
        group, claim = state.group, self.of(state.id)
        if state.object is None or not group.min_resources or not self._serves(state):
            self._drop(state.id)
            return
        said = {**group.min_resources}
        if group.min and not {"pods", "count/pods"} & said.keys():
            said["pods"] = str(group.min)
        if claim is None or claim.state is not state or claim.said != said:
            total = declared_amounts(said)
            before, claim = claim, Claim(state=state, said=said, total=total)
            if before is not None and before.state is state:
                claim.reserve(before.granted, before.reserved)
                if claim.granted and all(nanos <= before.reserved.get(name, 0) for name, nanos in total.items()):
                    claim.grant()
            self._claims.setdefault(state.id.namespace, {})[state.id] = claim
        if state.id.namespace in self._quotas:
            self._count(claim)
        self._adopt(claim)
        self._end_or_begin(claim)
        self.on_claim(claim)
        self._news(state.id.namespace)

    def _count(self, claim: Claim) -> None:
        """Count the members from now on: nothing is counted in a namespace without quotas."""
        if not claim.is_counted:
            claim.is_counted = True
            for pod in (*claim.state.children(), *claim.state.succeeded.values()):
                self._draw(claim, pod)

    def _adopt(self, claim: Claim) -> None:
        """Take over what the annotation says, if annotations decide."""
        if not self.trusts or claim.state.object is None:
            return
        said = reserved_by(claim.state.object)
        if said is not None and said == claim.said:
            claim.grant()
            return
        # Others may write annotations, too. So they reserve no more than the group declares.
        amounts = {} if said is None else declared_amounts(said)
        most = claim.total
        claim.reserve(said, {name: min(nanos, most[name]) for name, nanos in amounts.items() if name in most})

    def _end_or_begin(self, claim: Claim) -> None:
        """End the reservation of a group that is done; begin again if it has members once more."""
        state = claim.state
        ended = len(state.succeeded) + len(state.failed)
        is_done = not state.child_count and (phase_of(state.object) in _DONE or ended >= max(state.group.min, 1))
        if is_done and not claim.has_ended:
            is_news = bool(claim.reserved)
            claim.end()
            if is_news:
                self.on_claim(claim)
        elif claim.has_ended and state.child_count and not self.trusts:
            claim.reserve(None, {})

    def _changed(self, change: GroupChange) -> None:
        state, pod = change.state, change.pod
        if change.kind is ChangeKind.FORGOTTEN:
            if self._directory.get(state.id) is None:
                self._drop(state.id)
            return
        if change.kind is ChangeKind.DECLARED:
            self.refresh(state)
            return
        claim = self.of(state.id)
        if claim is None or pod is None:
            return
        is_news = claim.is_counted and self._draw(claim, pod)
        if not state.child_count or claim.has_ended:
            self._end_or_begin(claim)
            is_news = True
        if is_news:
            self._news(state.id.namespace)

    @staticmethod
    def _draw(claim: Claim, pod: Pod) -> bool:
        """Count what a member draws: it exists, or it succeeded and comes no more. Return whether that changed."""
        state, uid = claim.state, pod.uid
        known = claim.drawn_by.get(uid)
        if uid in state.succeeded:
            # Of an ended pod little is read, so an average member counts if this one was not known before.
            share = max(state.group.min, 1)
            draws = known or {name: nanos // share for name, nanos in claim.total.items()}
        elif uid in state.pending or uid in state.waiting or uid in state.bound:
            usage = {} if known else pod_usage(pod)
            draws = known or {name: usage[name] for name in claim.total if name in usage}
        else:
            draws = {}
        return claim.draw(uid, draws)

    def _drop(self, group: GroupId) -> None:
        claims = self._claims.get(group.namespace, {})
        claim = claims.pop(group, None)
        if claim is not None:
            self.on_claim(claim)
            self._news(group.namespace)
            if not claims:
                del self._claims[group.namespace]

    def check_invariants(self) -> None:
        """Raise AssertionError if sums disagree with their parts."""
        for claim in self:
            members = {pod.uid for pod in (*claim.state.children(), *claim.state.succeeded.values())}
            assert claim.drawn_by.keys() <= members, f"{claim.id} counts pods that are not its members"
            for name in claim.total:
                parts = sum(each.get(name, 0) for each in claim.drawn_by.values())
                assert claim.drawn.get(name, 0) == parts, f"{claim.id} counts {name} wrongly"
            left = {name: nanos - claim.drawn.get(name, 0) for name, nanos in claim.reserved.items()}
            assert claim.outstanding() == {name: nanos for name, nanos in left.items() if nanos > 0}
