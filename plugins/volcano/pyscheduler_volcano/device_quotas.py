"""Limit the devices that a queue's pods get through resource claims, as Volcano's plugin `capacity` does.

In a queue's `capability`, `deviceclass/NAME` limits the number of devices of a class.
`memory.deviceclass/NAME` limits the total memory that claims request from this class.

Source: Volcano `plugins/capacity` (checkDRAAllocatable, addTaskDRAAllocated) and `cache/cache.go` (buildTaskDRAInfo).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from pyscheduler_batch.contract import ACTIVE
from pyscheduler_batch.model.values import amounts_of
from pyscheduler_batch.resource_claims import named_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Self

    from pyscheduler.api import Pod, ResourceClaim
    from pyscheduler_batch.contract import Job, Task, TaskState
    from pyscheduler_volcano.session import VolcanoSession

    #: By claim, `namespace/name`: what it requests, by the name that a queue gives it.
    Claims = Mapping[str, Mapping[str, float]]

__all__ = ["DeviceQuotas", "claims_of"]

_COUNT: Final = "deviceclass/"
_DIMENSION: Final = ".deviceclass/"


def claims_of(pod: Pod, find: Callable[[str, str], ResourceClaim | None]) -> Claims:
    """Return what the claims of a pod request, without claims that are still to be made.

    `find` returns a claim by name and namespace.
    """
    return {claim.key: amounts for _, claim in named_claims(pod, find) if (amounts := _requested(claim))}


def _requested(claim: ResourceClaim) -> Mapping[str, float]:
    total = _nothing()
    for request in claim.spec.devices.requests:
        exact = request.exactly
        if exact is None or exact.allocation_mode == "All" or not exact.device_class_name:
            continue
        count, name = exact.count or 1, exact.device_class_name
        total[_COUNT + name] += count
        said = exact.capacity.requests if exact.capacity is not None else {}
        for dimension, amount in amounts_of(said, "capacity.requests", []).items():
            total[f"{dimension}{_DIMENSION}{name}"] += count * amount
    return total


class DeviceQuotas:
    """The devices that queues hold in a session, beside their limits."""

    def __init__(
        self, session: VolcanoSession, columns: Sequence[int], path: Callable[[int], list[int]], *, has_dimensions: bool
    ) -> None:
        self._session = session
        self._path = path
        self._has_dimensions = has_dimensions
        names = session.axis.names
        limits = session.queues.limit
        #: By queue: the limits that are set, by name.
        self._limits = [
            {names[column]: float(row[column]) for column in columns if row[column] == row[column]} for row in limits
        ]
        self._held = [_nothing() for _ in self._limits]
        #: What jobs need that were enqueued in this session.
        self._reserved = [_nothing() for _ in self._limits]
        #: By queue and claim, how many active tasks use the claim.
        self._users: list[Counter[str]] = [Counter() for _ in self._limits]
        self._claims: dict[str, Claims] = {}
        for job in session.jobs.values():
            for pod in job.pods(ACTIVE) if job.queue_row >= 0 else ():
                if pod.spec.resource_claims:
                    self._use(job.queue_row, pod, 1)

    @classmethod
    def of(cls, session: VolcanoSession, path: Callable[[int], list[int]], *, has_dimensions: bool) -> Self | None:
        """Return the quotas of a session; None if no queue limits devices.

        `path` returns the queues in which a task of a queue counts. `has_dimensions`: parts of devices count, too.
        """
        columns = [at for at, name in enumerate(session.axis.names) if name.startswith(_COUNT) or _DIMENSION in name]
        return cls(session, columns, path, has_dimensions=has_dimensions) if columns else None

    def _of(self, pod: Pod) -> Claims:
        found = self._claims.get(pod.uid)
        if found is None:
            found = self._claims[pod.uid] = self._session.claims_of(pod)
        return found

    def _use(self, queue: int, pod: Pod, change: int) -> None:
        for claim, amounts in self._of(pod).items():
            for row in self._path(queue):
                users = self._users[row]
                before = users[claim]
                users[claim] += change
                if before == 0 or users[claim] == 0:
                    _add(self._held[row], amounts, change)

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Count a task that came or left."""
        was, is_active = old in ACTIVE, new in ACTIVE
        pod, queue = task.pod, task.job.queue_row
        if was != is_active and queue >= 0 and pod is not None and pod.spec.resource_claims:
            self._use(queue, pod, 1 if is_active else -1)

    def exceeded(self, task: Task) -> tuple[int, str] | None:
        """Return the queue, a row, that a task would take beyond its limit, and by what; None if there is none."""
        pod = task.pod
        if pod is None or not pod.spec.resource_claims:
            return None
        for row in self._path(task.job.queue_row):
            users = self._users[row]
            wanted = _nothing()
            for claim, amounts in self._of(pod).items():
                if not users[claim]:
                    _add(wanted, amounts)
            over = self._over(row, wanted, self._held[row])
            if over:
                return row, over
        return None

    def enqueue_exceeded(self, job: Job) -> tuple[int, str] | None:
        """Return the same for the minimum of a job, beside what was enqueued in this session."""
        wanted = self._minimum(job)
        for row in self._path(job.queue_row) if wanted else ():
            used = _nothing()
            _add(used, self._held[row])
            _add(used, self._reserved[row])
            over = self._over(row, wanted, used)
            if over:
                return row, over
        return None

    def reserve(self, job: Job) -> None:
        """Count the minimum of a job that was enqueued."""
        wanted = self._minimum(job)
        for row in self._path(job.queue_row):
            _add(self._reserved[row], wanted)

    def _minimum(self, job: Job) -> Mapping[str, float]:
        """Return what the first tasks by name request, as many as the job needs of each role."""
        total = _nothing()
        members = sorted(
            (task for task in job.tasks.values() if task.pod is not None and self._of_claims(task)),
            key=lambda task: (task.key, task.uid),
        )
        if not job.min_task_member:
            for task in members[: max(job.min_member, 0)]:
                for amounts in self._of_claims(task):
                    _add(total, amounts)
            return total
        roles: dict[str, Task] = {}
        for task in members:
            roles.setdefault(task.role, task)
        for role, task in roles.items():
            for amounts in self._of_claims(task):
                _add(total, amounts, max(job.min_task_member.get(role, 0), 0))
        return total

    def _of_claims(self, task: Task) -> Collection[Mapping[str, float]]:
        pod = task.pod
        return () if pod is None or not pod.spec.resource_claims else self._of(pod).values()

    def _over(self, row: int, wanted: Mapping[str, float], held: Mapping[str, float]) -> str:
        """Return what would exceed the limits of a queue, such as `deviceclass/gpu 9 of 8`; "" for nothing."""
        limits = self._limits[row]
        limited = {name.partition(_COUNT)[2] for name in limits}
        found = []
        for name, amount in wanted.items():
            if name.partition(_COUNT)[2] not in limited:
                continue
            is_count, limit = name.startswith(_COUNT), limits.get(name, 0.0)
            used = held.get(name, 0) + amount
            if used > limit and (limit > 0 if is_count else self._has_dimensions):
                found.append(f"{name} {used:g} of {limit:g}")
        return ", ".join(found)


def _nothing() -> defaultdict[str, float]:
    return defaultdict(float)


def _add(total: defaultdict[str, float], amounts: Mapping[str, float], times: int = 1) -> None:
    for name, amount in amounts.items():
        total[name] += times * amount
