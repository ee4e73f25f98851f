"""The search for devices: one claim after the other, one request after the other, one device after the other.

The alternatives of a request are tried in the order of preference. The first full solution is taken. These shortcuts do
not change the solution:

* The same devices are not tried again in another order.
* A device is skipped if the search has already failed with an equal device.
* A request fails at once if fewer devices are left than it still needs.

Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go`.
"""

from __future__ import annotations

import enum
from collections.abc import Generator
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler.plugins.dynamic_resources.capacity import fits
from pyscheduler.plugins.dynamic_resources.constraints import Constraint
from pyscheduler.plugins.dynamic_resources.errors import AllocationError, AllocationTimeoutError, SignatureError
from pyscheduler.plugins.dynamic_resources.node_signature import BLOCKED, FREE, UNFIT, UNIQUE, Kind, amounts_of
from pyscheduler.plugins.dynamic_resources.requests import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.plugins.dynamic_resources.node_signature import NodeSignature
    from pyscheduler.plugins.dynamic_resources.patience import Patience
    from pyscheduler.plugins.dynamic_resources.pools import NodeOffer
    from pyscheduler.plugins.dynamic_resources.requests import ClaimDemand, Request

__all__ = ["Search", "Solution"]


#: What a step of the search takes, in steps of `patience`.
_STEPS: Final = 60


class _Outcome(enum.Enum):
    FOUND = enum.auto()
    FAILED = enum.auto()
    TOO_MANY = enum.auto()


_Step: TypeAlias = Generator["_Step", _Outcome, _Outcome]


@attrs.frozen(eq=False)
class Solution:
    """Which devices each claim gets: requests with positions in the signature, in the order of allocation."""

    chosen: tuple[tuple[tuple[Request, int], ...], ...]


@attrs.define(eq=False)
class _Taken:
    """The changes made by taking a device, so that it can be given back."""

    request: Request
    position: int
    constraints: int
    paid: bool


class Search:
    """Searches devices for the claims on nodes of one signature; `offer` is that of one such node."""

    def __init__(
        self,
        demands: Sequence[ClaimDemand],
        offer: NodeOffer,
        signature: NodeSignature,
        patience: Patience | None = None,
    ) -> None:
        self._demands = demands
        self._offer = offer
        self._signature = signature
        self._patience = patience
        self._kinds = signature.kinds
        self._constraints = [
            [Constraint.of(each) for each in demand.claim.spec.devices.constraints] for demand in demands
        ]
        self._positions: dict[Request, list[int]] = {}
        self._has_errors: dict[Request, bool] = {}
        self._chosen: list[list[tuple[Request, int]]] = [[] for _ in demands]
        self._trail: list[_Taken] = []
        #: By position of a device for one claim at a time, the claims that use it.
        self._users: dict[int, set[int]] = {}
        #: By position of a shareable device, the amounts that each share takes.
        self._shares: dict[int, list[Mapping[str, int]]] = {}
        self._counters = [dict(counters) for counters in signature.counters]
        # Where all devices must meet a constraint, it depends on which comes first whether that fails or is an error.
        self._kinds_stand = not any(
            request.all_devices and request.constraints
            for demand in demands
            for alternatives in demand.requests
            for request in alternatives
        )

    def run(self) -> Solution | None:
        """Return the first solution, None where there is none.

        Raise `AllocationError` where something is wrong with a claim or a class, and what `patience` raises.
        """
        self._look_at_requests()
        stack: list[_Step] = [self._request(0, 0)] if self._demands else []
        outcome = _Outcome.FAILED if stack else _Outcome.FOUND
        started = False
        while stack:
            if self._patience is not None:
                if self._patience.is_over():
                    raise AllocationTimeoutError("filter operation aborted: context deadline exceeded")
                self._patience.tick(_STEPS)
            try:
                step = stack[-1].send(outcome) if started else next(stack[-1])
            except StopIteration as end:
                stack.pop()
                outcome, started = end.value, True
            else:
                stack.append(step)
                started = False
        return Solution(tuple(map(tuple, self._chosen))) if outcome is _Outcome.FOUND else None

    def _look_at_requests(self) -> None:
        """Find the devices for each request; raise `AllocationError` for claims that ask for too many."""
        for demand in self._demands:
            fewest = 0
            for alternatives in demand.requests:
                for request in alternatives:
                    self._look_at(request)
                fewest += min(map(self._wanted, alternatives), default=0)
            if fewest > MOST_DEVICES:
                raise SignatureError(
                    f"claim {demand.claim.key}: number of requested devices {fewest} exceeds the claim limit "
                    f"of {MOST_DEVICES}"
                )

    def _look_at(self, request: Request) -> None:
        least = BLOCKED if request.all_devices else FREE
        positions = self._positions[request] = []
        self._has_errors[request] = False
        for position, kind in enumerate(self._kinds):
            verdict = kind.verdicts[request.index]
            if isinstance(verdict, str):
                if request.all_devices:
                    raise SignatureError(verdict)
                self._has_errors[request] = True
            elif verdict < least:
                continue
            positions.append(position)

    def _wanted(self, request: Request) -> int:
        return len(self._positions[request]) if request.all_devices else request.count

    # Steps

    def _request(self, claim: int, number: int) -> _Step:
        """Satisfy a request of a claim, and all that come after it."""
        requests = self._demands[claim].requests
        if number == len(requests):
            if claim + 1 == len(self._demands):
                return _Outcome.FOUND
            outcome = yield self._request(claim + 1, 0)
            # Another alternative in this claim may leave devices with which the next one needs fewer.
            return _Outcome.FAILED if outcome is _Outcome.TOO_MANY else outcome
        alternatives = requests[number]
        if not alternatives[0].parent:
            return (yield self._devices(alternatives[0], number, 0, 0))
        worst = _Outcome.TOO_MANY
        for request in alternatives:
            outcome = yield self._devices(request, number, 0, 0)
            if outcome is _Outcome.FOUND:
                return outcome
            if outcome is _Outcome.FAILED:
                worst = outcome
        return worst

    def _devices(self, request: Request, number: int, had: int, start: int) -> _Step:
        """Take what a request still needs after `had` devices, from its device `start` on, and all that comes after."""
        wanted = self._wanted(request)
        claim = request.claim_index
        if request.all_devices and not wanted:
            return _Outcome.FAILED
        if had >= wanted:
            return (yield self._request(claim, number + 1))
        if len(self._chosen[claim]) + wanted - had > MOST_DEVICES:
            return _Outcome.TOO_MANY
        positions = self._positions[request]
        if not self._has_errors[request] and len(positions) - start < wanted - had:
            return _Outcome.FAILED
        failed: set[object] = set()
        for index in range(start, len(positions)):
            position = positions[index]
            state = self._state(position)
            if state in failed and self._kinds_stand:
                continue
            if self._take(request, position):
                outcome = yield self._devices(request, number, had + 1, index + 1)
                if outcome is _Outcome.FOUND:
                    return outcome
                self._give_back()
                if outcome is _Outcome.TOO_MANY:
                    return outcome
            if request.all_devices:
                break  # all are needed, in whatever order
            failed.add(state)
        return _Outcome.FAILED

    def _state(self, position: int) -> object:
        """Return what devices have in common that can stand for each other."""
        number = self._kinds[position].number
        if shares := self._shares.get(position):
            return (number, tuple(sorted(_total(shares).items())))
        if users := self._users.get(position):
            return (number, frozenset(users))
        return number

    # Devices

    def _take(self, request: Request, position: int) -> bool:
        """Take a device if it can be had; raise `AllocationError` where it has to be and a constraint forbids it."""
        kind = self._kinds[position]
        verdict = kind.verdicts[request.index]
        if isinstance(verdict, str):
            if self._is_used(request, position):
                return False
            raise SignatureError(verdict)
        if verdict in {UNFIT, BLOCKED} or self._is_used(request, position):
            return False
        is_paid = bool(kind.consumes) and not (kind.shareable and (kind.in_use or self._shares.get(position)))
        if is_paid and not self._pay(kind):
            return False
        taken = _Taken(request, position, 0, is_paid)
        if not self._meet_constraints(taken, kind):
            self._undo(taken)
            if request.all_devices:
                claim = self._demands[request.claim_index].claim
                device = "/".join(self._offer.candidates[self._signature.places[position]].device.id)
                raise AllocationError(
                    f"claim {claim.key}, request {request.name}: cannot add device {device} because a claim "
                    "constraint would not be satisfied"
                )
            return False
        if kind.shareable:
            amounts = amounts_of(request, kind)
            shares = self._shares.setdefault(position, [])
            if not fits(amounts, kind.device.capacity, _total([kind.taken, *shares])):
                self._undo(taken)
                return False
            shares.append({name: amount.nanos for name, amount in amounts.items()})
        else:
            self._users.setdefault(position, set()).add(request.claim_index)
        self._chosen[request.claim_index].append((request, position))
        self._trail.append(taken)
        return True

    def _give_back(self) -> None:
        """Give back the device that was taken last."""
        taken = self._trail.pop()
        claim = taken.request.claim_index
        self._chosen[claim].pop()
        if self._kinds[taken.position].shareable:
            self._shares[taken.position].pop()
        else:
            self._users[taken.position].remove(claim)
        self._undo(taken)

    def _undo(self, taken: _Taken) -> None:
        """Take back what counters and constraints know of a device.

        Differs from kube-scheduler: counters are given back whatever it was that kept the device from being taken;
        there, a device that was refused for its taints or by a constraint keeps them to the end of the search.
        """
        for number in taken.request.constraints[: taken.constraints]:
            self._constraints[taken.request.claim_index][number].remove()
        if taken.paid:
            kind = self._kinds[taken.position]
            for counter, value in kind.consumes:
                self._counters[kind.pool][counter] += value

    def _is_used(self, request: Request, position: int) -> bool:
        users = self._users.get(position)
        if not users:
            return False
        return not request.admin_access or request.claim_index in users

    def _pay(self, kind: Kind) -> bool:
        """Take what a device consumes from the counters of its pool, unless they have too little."""
        left = self._counters[kind.pool]
        for counter, value in kind.consumes:
            left[counter] -= value
        if min(left.values(), default=0) >= 0:
            return True
        for counter, value in kind.consumes:
            left[counter] += value
        return False

    def _meet_constraints(self, taken: _Taken, kind: Kind) -> bool:
        claim = taken.request.claim_index
        for number in taken.request.constraints:
            value = kind.values[claim][number]
            if value == UNIQUE:
                value = ("unique", taken.position)
            if not self._constraints[claim][number].add(value):
                return False
            taken.constraints += 1
        return True


def _total(shares: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for share in shares:
        for name, amount in share.items():
            total[name] = total.get(name, 0) + amount
    return total
