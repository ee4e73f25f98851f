"""A small disruption controller: it updates the numbers in the status of PodDisruptionBudgets.

The API server uses these numbers to allow or refuse an eviction.

Differs from kube-controller-manager: no events are recorded.
Source: Kubernetes, `pkg/controller/disruption/disruption.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from kube_objects.errors import DecodeError
from kube_objects.times import format_time, parse_time
from kube_testserver.conditions import has_condition, set_condition
from kube_testserver.controllers.follower import Follower
from kube_testserver.controllers.garbage_collection import OwnerReference, controller_of
from kube_testserver.resources.builtin import DISRUPTION_BUDGETS, PODS
from kube_testserver.store import StaleRecordError
from kube_testserver.subresources.eviction import budget_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_objects.clock import Clock, Timer
    from kube_objects.requirements import CompiledSelector
    from kube_testserver.registry import Registry
    from kube_testserver.store import Change, Object, Record

__all__ = ["CONTROLLERS", "DisruptionBudgets"]

CONTROLLERS: Final = frozenset(
    {
        ("v1", "ReplicationController"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
    }
)
"""Kinds with a desired number of pods in `spec.replicas`."""

_GONE_WITHIN_SECONDS: Final = 120.0


class _SyncError(Exception):
    """The numbers of a budget cannot be worked out; the text says why."""


class _Pod(NamedTuple):
    """The facts of a pod that count for a budget."""

    name: str
    healthy: bool
    leaving: bool
    owner: OwnerReference | None


@attrs.define
class _Budget:
    """A budget under its key, what it selects, and the facts of the pods that it does."""

    key: str
    selector: CompiledSelector | None
    pods: dict[str, _Pod] = attrs.Factory(dict)


class DisruptionBudgets:
    """Keeps the status of every PodDisruptionBudget."""

    def __init__(self, registry: Registry, *, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._pods = registry.collection(PODS)
        self._stored = registry.collection(DISRUPTION_BUDGETS)
        #: By namespace, then by key.
        self._budgets: dict[str, dict[str, _Budget]] = {}
        self._dirty: dict[str, _Budget] = {}
        self._syncing: Timer | None = None
        self._rechecks: dict[str, Timer] = {}
        self._followers = [
            Follower(self._stored, clock=clock, listed=self._list_budgets, changed=self._budget_changed),
            Follower(self._pods, clock=clock, listed=self._list_pods, changed=self._pod_changed),
        ]
        for api_version, kind in sorted(CONTROLLERS):
            resource = registry.table.find_kind(api_version, kind)
            if resource is not None:
                owners = registry.collection(resource)
                self._followers.append(
                    Follower(owners, clock=clock, listed=self._list_owners, changed=self._owner_changed)
                )

    def start(self) -> None:
        """Work out every status, then follow every change."""
        for follower in self._followers:
            follower.start()

    def stop(self) -> None:
        """Leave every status as it is; idempotent."""
        for follower in self._followers:
            follower.stop()
        for timer in (*self._rechecks.values(), *((self._syncing,) if self._syncing is not None else ())):
            timer.cancel()
        self._rechecks.clear()
        self._syncing = None

    # --- following -------------------------------------------------------------------------------

    def _list_budgets(self, records: Sequence[Record]) -> None:
        self._budgets.clear()
        for record in records:
            self._take_up(record)

    def _budget_changed(self, change: Change) -> None:
        record = change.record
        if change.type == "DELETED":
            self._budgets.get(record.namespace, {}).pop(record.key, None)
        elif record is self._stored.get(record.key):
            self._take_up(record)

    def _take_up(self, record: Record) -> None:
        selector = budget_selector(record.decode())
        known = self._budgets.setdefault(record.namespace, {})
        budget = known.get(record.key)
        if budget is None or budget.selector != selector:
            budget = known[record.key] = _Budget(record.key, selector)
            for pod in self._pods.page(prefix=f"{record.namespace}/").records:
                if selector is not None and selector.matches(pod.labels):
                    budget.pods[pod.uid] = _facts(pod)
        self._mark(budget)

    def _list_pods(self, _records: Sequence[Record]) -> None:
        for budgets in self._budgets.values():
            for budget in budgets.values():
                budget.selector = None  # unlike any: its pods are looked for again
        self._list_budgets(self._stored.page().records)

    def _pod_changed(self, change: Change) -> None:
        record = change.record
        for budget in self._budgets.get(record.namespace, {}).values():
            selects = change.type != "DELETED" and budget.selector is not None
            if selects and budget.selector is not None and budget.selector.matches(record.labels):
                facts = _facts(record)
                if budget.pods.get(record.uid) != facts:
                    budget.pods[record.uid] = facts
                    self._mark(budget)
            elif budget.pods.pop(record.uid, None) is not None:
                self._mark(budget)

    def _list_owners(self, _records: Sequence[Record]) -> None:
        for budgets in self._budgets.values():
            for budget in budgets.values():
                self._mark(budget)

    def _owner_changed(self, change: Change) -> None:
        for budget in self._budgets.get(change.record.namespace, {}).values():
            self._mark(budget)

    # --- working out -----------------------------------------------------------------------------

    def _mark(self, budget: _Budget) -> None:
        self._dirty[budget.key] = budget
        if self._syncing is None:
            self._syncing = self._clock.call_later(0.0, self._sync_all)

    def _sync_all(self) -> None:
        self._syncing = None
        marked, self._dirty = self._dirty, {}
        for budget in marked.values():
            record = self._stored.get(budget.key)
            if record is not None:
                self._sync(budget, record)

    def _sync(self, budget: _Budget, record: Record) -> None:
        obj = record.decode()
        now = self._registry.wall()
        status = obj.get("status") or {}
        generation = obj["metadata"].get("generation", 0)
        try:
            expected, desired = self._expectation(obj.get("spec") or {}, budget, record.namespace)
        except _SyncError as error:
            status = {**status, "disruptionsAllowed": 0}
            _set_condition(status, "SyncFailed", str(error), status.get("observedGeneration", 0), now)
        else:
            disrupted = self._disrupted(status.get("disruptedPods") or {}, budget, now)
            healthy = sum(one.healthy and one.name not in disrupted for one in budget.pods.values())
            allowed = max(healthy - desired, 0) if expected > 0 else 0
            status = {
                "observedGeneration": generation,
                **({"disruptedPods": disrupted} if disrupted else {}),
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "conditions": list(status.get("conditions") or ()),
            }
            _set_condition(status, "SufficientPods" if allowed else "InsufficientPods", "", generation, now)
        try:
            self._registry.put(DISRUPTION_BUDGETS, record, {**obj, "status": status})
        except StaleRecordError:
            self._mark(budget)

    def _expectation(self, spec: Object, budget: _Budget, namespace: str) -> tuple[int, int]:
        """Return how many pods there should be, and how many of them healthy."""
        unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if unavailable is not None:
            expected = self._scale(budget, namespace)
            return expected, max(expected - _share(unavailable, expected), 0)
        if isinstance(available, int):
            return len(budget.pods), available
        if available is not None:
            expected = self._scale(budget, namespace)
            return expected, _share(available, expected)
        return 0, 0

    def _scale(self, budget: _Budget, namespace: str) -> int:
        """Return how many pods the controllers of the selected pods want; pods without one do not count."""
        scales: dict[str, int] = {}
        for pod in budget.pods.values():
            if pod.owner is None or pod.owner.uid in scales:
                continue
            found = self._controller(pod.owner, namespace)
            if found is None:
                raise _SyncError(f'found no controllers for pod "{pod.name}"')
            scales[found[0]] = found[1]
        return sum(scales.values())

    def _controller(self, owner: OwnerReference, namespace: str) -> tuple[str, int] | None:
        """Return uid and scale of the controller behind a pod; a Deployment speaks for its ReplicaSets."""
        resource = self._registry.table.find_kind(owner.api_version, owner.kind)
        if resource is None:
            return None
        scaled = any(one.name == "scale" for one in resource.subresources)
        if (owner.api_version, owner.kind) not in CONTROLLERS and not (resource.custom and scaled):
            return None
        record = self._registry.collection(resource).get(resource.key(namespace, owner.name))
        if record is None or record.uid != owner.uid:
            return None
        above = controller_of(record) if owner.kind == "ReplicaSet" else None
        if above is not None and above.kind == "Deployment":
            return self._controller(above, namespace)
        replicas = (record.decode().get("spec") or {}).get("replicas")
        return record.uid, 1 if replicas is None else int(replicas)

    def _disrupted(self, noted: Object, budget: _Budget, now: float) -> Object:
        """Return the noted pods that are still to go; look again when the first of them is overdue."""
        kept: Object = {}
        due: list[float] = []
        for pod in budget.pods.values():
            if pod.leaving or pod.name not in noted:
                continue
            try:
                since = parse_time(noted[pod.name])
            except DecodeError:
                continue
            if since + _GONE_WITHIN_SECONDS >= now:
                kept[pod.name] = noted[pod.name]
                due.append(since + _GONE_WITHIN_SECONDS - now)
        timer = self._rechecks.pop(budget.key, None)
        if timer is not None:
            timer.cancel()
        if due:
            self._rechecks[budget.key] = self._clock.call_later(min(due) + 1.0, lambda: self._mark(budget))
        return kept


def _facts(record: Record) -> _Pod:
    pod = record.decode()
    leaving = "deletionTimestamp" in pod["metadata"]
    ready = has_condition(pod.get("status") or {}, "Ready")
    return _Pod(record.name, ready and not leaving, leaving, controller_of(record))


def _share(value: str | int, total: int) -> int:
    """Return a number, or a percentage of `total` rounded up; raise `_SyncError` for what is neither."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    if digits == value or not digits.isascii() or not digits.isdigit():
        raise _SyncError(f'invalid value for IntOrString: invalid type: string is not a percentage: "{value}"')
    return -(-int(digits) * total // 100)


def _set_condition(status: Object, reason: str, message: str, generation: int, now: float) -> None:
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if reason == "SufficientPods" else "False",
        "observedGeneration": generation,
        "lastTransitionTime": format_time(now),
        "reason": reason,
        "message": message,
    }
    set_condition(status, condition)
