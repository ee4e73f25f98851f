"""KAI's plugin `proportion`: it computes fair shares, orders queues by them, and checks limits and quotas.

Source: KAI-Scheduler, `plugins/proportion`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pyscheduler_batch.contract import ACTIVE, CPU, GPU, MEMORY, Policy, Refusal
from pyscheduler_batch.gpu_sharing.mig import gpus_of_profile
from pyscheduler_batch.model.amounts import amount_text
from pyscheduler_batch.model.memory import Kept
from pyscheduler_batch.resource_claims import CLAIMED_GPUS, ClaimedGpus
from pyscheduler_kai.fair_share import ShareInputs, divide, roll_up
from pyscheduler_kai.gang import ZERO, Quantities, add, subtract
from pyscheduler_kai.kept_requests import KeptRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Job, Session, Task, TaskState
    from pyscheduler_kai.asks import Asks

__all__ = ["NON_PREEMPTIBLE_OVER_QUOTA", "OVER_LIMIT", "Proportion"]

OVER_LIMIT: Final = "OverLimit"
NON_PREEMPTIBLE_OVER_QUOTA: Final = "NonPreemptibleOverQuota"
OVER_FAIR_SHARE: Final = "OverFairShare"
NOT_FAIR: Final = "ReclaimNotFair"
_INFINITY: Final = float("inf")
#: The share of a resource that a queue uses and must not use.
_NO_SHARE_FACTOR: Final = 1000
#: Keys are forgotten when there are more.
_MOST_KEYS: Final = 20_000
_NAMES: Final = (CPU, MEMORY, GPU)
_GPUS: Final = 2


class _AllocatableOrder:
    """Compares allocatable shares; shares of which neither is smaller in all resources count as equal."""

    __slots__ = ("share",)

    def __init__(self, share: Quantities) -> None:
        self.share = share

    def _at_most(self, other: _AllocatableOrder) -> bool:
        return all(left <= right for left, right in zip(self.share, other.share, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _AllocatableOrder) and self._at_most(other) == other._at_most(self)

    __hash__ = None  # type: ignore[assignment]  # equality is not transitive, so there is no hash

    def __lt__(self, other: _AllocatableOrder) -> bool:
        return self._at_most(other) and not other._at_most(self)


QueueKey = tuple[bool, bool, float, bool, float, float, _AllocatableOrder, float]


class _KeptQueues(Kept):
    """The data that holds as long as the queues are the same: their settings, and the rank of each by age."""

    def __init__(self, session: Session, columns: Sequence[int]) -> None:
        super().__init__()
        queues = session.queues
        self.parent: list[int] = queues.parent.tolist()
        self.paths: list[list[int]] = [path.tolist() for path in queues.paths]
        self.priority: list[float] = queues.priority.tolist()
        self.created: list[float] = queues.created.tolist()
        self.quota = _rows(queues.quota[:, columns])
        self.limit = _rows(queues.limit[:, columns])
        by_age = sorted(range(len(queues)), key=lambda row: (self.created[row], queues.names[row]))
        self.rank: NDArray[np.int64] = np.empty(len(queues), dtype=np.int64)
        self.rank[by_age] = np.arange(len(queues))

    def note(self, uid: str) -> None:
        """Ignore jobs."""


class Proportion(Policy):
    """Divide the pool into fair shares; order queues by them; keep limits and quotas; choose queues to reclaim from."""

    name: ClassVar[str] = "proportion"
    steps: ClassVar[Mapping[str, str]] = {OVER_LIMIT: "limits", NON_PREEMPTIBLE_OVER_QUOTA: "gates"}

    def __init__(self, arguments: Mapping[str, str] | None = None) -> None:
        super().__init__(arguments)
        multiplier = self.arguments.get("relcaimerSaturationMultiplier", "1.0")  # the original's spelling
        self.multiplier = max(float(multiplier), 1.0)
        self.k_value = max(float(self.arguments.get("kValue", "1.0")), 0.0)

    def open_session(self, session: Session) -> None:
        """Sum up what queues request, and divide the pool."""
        queues = session.queues
        self._axis_length = len(session.axis)
        self._columns = [session.axis.index[name] for name in _NAMES if name in session.axis.index]
        #: float64[R]: how many GPUs one of each other resource counts as; None if nothing does.
        names = session.axis.names
        gpus_of = np.array([name == CLAIMED_GPUS or gpus_of_profile(name) for name in names], dtype=np.float64)
        self._gpus_of = gpus_of if gpus_of.any() else None
        kept = session.memory.get(_KeptQueues, lambda: _KeptQueues(session, self._columns))
        self._parent, self._paths, self._priority, self._created = kept.parent, kept.paths, kept.priority, kept.created
        self._quota, self._limit, self._rank = kept.quota, kept.limit, kept.rank
        self._row_of = queues.index
        #: By id of an array of requests, which many tasks share and which lives as long as the pass.
        self._quantities: dict[int, Quantities] = {}
        self.requested = self._sum_requests(session)
        nodes = session.nodes
        # Nodes that are not ready hold tasks, but are not divided.
        offered = nodes.allocatable if nodes.ready is None else nodes.allocatable[nodes.ready]
        total = offered.sum(axis=0)
        claimed = session.extras.get(ClaimedGpus)
        if CLAIMED_GPUS in session.axis.index:
            total[session.axis.index[CLAIMED_GPUS]] = 0.0 if claimed is None else claimed.offered(nodes)
        pool = self.counted(total)
        if session.foreign is not None:
            pool = pool - self.counted(session.foreign)
        self.pool: Quantities = _quantities(pool)
        self.fair_shares = divide(self._inputs(session), pool)
        self._fair = _rows(self.fair_shares)
        quota = self._three(queues.quota)
        allocatable = _allocatable(quota, self._three(queues.limit), self.fair_shares)
        #: float64[Q, 3]: a queue that is within them has nothing to give.
        self._bounds: Amounts = np.minimum(allocatable, quota)
        self._allocatable = _rows(allocatable)
        self._usable = _rows(np.where(np.isinf(allocatable), pool, allocatable))
        self.allocated = _rows(self.counted(queues.allocated))
        self.non_preemptible = _rows(self.counted(queues.non_preemptible))
        self.changes = 0
        #: By queue, what it holds, and what its next job and its victims add and take: the keys that were computed.
        self._keys: dict[tuple[int, Quantities, Quantities, Quantities], QueueKey] = {}
        #: UIDs of jobs whose tasks changed; cleared by whoever follows them.
        self.touched: set[str] = set()
        self._at_start: tuple[int, list[Quantities], list[Quantities]] = (-1, [], [])

    def queue_shares(self) -> Amounts:
        """Return float64[Q, R]: the fair share of each queue."""
        shares = np.full((len(self.fair_shares), self._axis_length), np.nan)
        shares[:, self._columns] = self.fair_shares
        return shares

    def _three(self, amounts: Amounts) -> Amounts:
        """Return the columns of CPU, memory and GPUs."""
        chosen: Amounts = amounts[..., self._columns]
        return chosen

    def counted(self, amounts: Amounts) -> Amounts:
        """Return what amounts [.., R] of nodes or tasks count as in queues: float64[.., 3] of CPU, memory and GPUs.

        MIG profiles, and the GPUs of resource claims, count as GPUs.
        """
        three = self._three(amounts)
        if self._gpus_of is not None:
            three[..., _GPUS] += amounts @ self._gpus_of
        return three

    def _sum_requests(self, session: Session) -> Amounts:
        """Return float64[Q, 3]: what the allocated and the pending tasks below each queue ask for."""
        own = session.memory.get(KeptRequests, KeptRequests).by_queue(session, self.quantities_of)
        # The sums of queues have all active tasks; those with a promise ask for nothing in the original.
        return self.counted(session.queues.allocated) + roll_up(session.queues.parent, own)

    def _inputs(self, session: Session) -> ShareInputs:
        queues = session.queues
        return ShareInputs(
            parent=queues.parent,
            quota=self._three(queues.quota),
            limit=self._three(queues.limit),
            weight=self._three(queues.over_quota_weight),
            requested=self.requested,
            priority=queues.priority,
            rank=self._rank,
            usage=None if queues.usage is None else self._three(queues.usage),
            k_value=self.k_value,
        )

    def quantities(self, task: Task) -> Quantities:
        """Return what a task requests."""
        return self._quantities.get(id(task.request)) or self.quantities_of(task.request)

    def quantities_of(self, request: Amounts) -> Quantities:
        """Return the quantities of a request."""
        found = self._quantities.get(id(request))
        if found is None:
            found = self._quantities[id(request)] = _quantities(self.counted(request).tolist())
        return found

    def total(self, tasks: Iterable[Task]) -> Quantities:
        """Return what tasks request together."""
        total = ZERO
        for task in tasks:
            total = add(total, self.quantities(task))
        return total

    # Running sums

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Keep the sums of queues."""
        self.touched.add(task.job.uid)
        if (old in ACTIVE) != (new in ACTIVE):
            self.book(task, placed=new in ACTIVE)

    def book(self, task: Task, *, placed: bool) -> None:
        """Add a task to the sums of its queues, or take it out."""
        job = task.job
        if job.queue_row < 0:
            return
        change = self.quantities(task)
        if not placed:
            change = subtract(ZERO, change)
        self.changes += 1
        for row in self._paths[job.queue_row]:
            self.allocated[row] = add(self.allocated[row], change)
            if not job.preemptible:
                self.non_preemptible[row] = add(self.non_preemptible[row], change)

    @contextmanager
    def for_now(self) -> Iterator[Callable[[Job, Quantities], None]]:
        """Yield `book(job, change)`, which changes the sums of a job's queues; at the end they are what they were."""
        before: dict[int, tuple[Quantities, Quantities]] = {}

        def book(job: Job, change: Quantities) -> None:
            for row in self._paths[job.queue_row]:
                allocated, non_preemptible = self.allocated[row], self.non_preemptible[row]
                before.setdefault(row, (allocated, non_preemptible))
                self.allocated[row] = add(allocated, change)
                if not job.preemptible:
                    self.non_preemptible[row] = add(non_preemptible, change)

        try:
            yield book
        finally:
            for row, (allocated, non_preemptible) in before.items():
                self.allocated[row], self.non_preemptible[row] = allocated, non_preemptible

    def start_solution(self) -> None:
        """Keep the present sums: the validator of reclaim compares with what queues had before the simulation."""
        if self._at_start[0] != self.changes:
            self._at_start = (self.changes, list(self.allocated), list(self.non_preemptible))

    # The order of queues

    def order_key(self, queue: int, adds: Quantities, removes: Quantities) -> QueueKey:
        """Return the key of a queue: the smallest is served first.

        `adds`: what its next job asks for. `removes`: what its first victims hold (only in the order of victims).
        """
        place = (queue, self.allocated[queue], adds, removes)
        key = self._keys.get(place)
        if key is None:
            if len(self._keys) > _MOST_KEYS:
                self._keys.clear()
            key = self._keys[place] = self._make_key(queue, adds, removes)
        return key

    def order_inputs(self) -> Amounts:
        """Return float64[Q, 6]: what the key of a queue depends on, besides its settings, its next job and the pool."""
        inputs: Amounts = np.hstack([np.array(self.allocated).reshape(-1, 3), self.fair_shares])
        return inputs

    def search_inputs(self) -> list[Amounts]:
        """Return what a search for victims depends on besides the settings of queues, as float64[.., 3] each.

        Two rules read fair shares. A queue comes later if it is above its share in all resources; none ever is where
        every queue gets all it asks for of some resource. A job must not make its queues more saturated than others
        once they are above their shares; without parents its queue is not, because then no search begins.
        """
        allocated = np.array(self.allocated).reshape(-1, 3)
        is_enough = np.all((self.fair_shares >= self.requested) & (self.requested >= allocated), axis=0)
        is_read = not is_enough.any() or max(self._parent, default=-1) >= 0
        return [
            allocated,
            np.array(self.non_preemptible).reshape(-1, 3),
            np.array(self._allocatable).reshape(-1, 3),
            self.fair_shares if is_read else np.zeros((0, 3)),
            np.array([self.pool]),
        ]

    def is_totally_ordered(self) -> bool:
        """Return whether no queue has a parent, and allocatable shares are comparable: each pair in all resources."""
        chain = sorted(self._allocatable)
        return max(self._parent, default=-1) < 0 and all(map(_at_most, chain, chain[1:]))

    def _make_key(self, queue: int, adds: Quantities, removes: Quantities) -> QueueKey:
        has = self.allocated[queue]
        later = add(has, adds)
        allocatable = self._allocatable[queue]
        return (
            all(fair < own for fair, own in zip(self._fair[queue], has, strict=True)),
            not _at_most(later, self._quota[queue]),
            -self._priority[queue],
            any(share == 0 and own > 0 for share, own in zip(allocatable, later, strict=True)),
            self._dominant_share(queue, subtract(later, removes)),
            self._dominant_share(queue, has),
            _AllocatableOrder(allocatable),
            self._created[queue],
        )

    def _dominant_share(self, queue: int, amounts: Quantities) -> float:
        """Return the largest part of its allocatable share that a queue uses."""
        largest = 0.0
        for own, share in zip(amounts, self._usable[queue], strict=True):
            largest = max(largest, own / share if share else own * _NO_SHARE_FACTOR)
        return largest

    # Gates

    def may_keep(self, job: Job, tasks: Sequence[Task]) -> Refusal | None:
        """Return why the queues of a non-preemptible job must not hold these tasks, or None."""
        return self.over_quota(job, self.total(tasks))

    def over_capacity(self, job: Job, requested: Quantities) -> Refusal | None:
        """Return why the queues of a job must not hold so much more, or None."""
        for row in self._paths[job.queue_row]:
            column = _first_over(self.allocated[row], requested, self._limit[row])
            if column is not None:
                return self._refusal(OVER_LIMIT, "limit", row, column, self._limit, self.allocated, requested)
        return self.over_quota(job, requested)

    def over_quota(self, job: Job, requested: Quantities) -> Refusal | None:
        """Return why a non-preemptible job must not hold so much more, or None."""
        if job.preemptible:
            return None
        for row in self._paths[job.queue_row]:
            column = _first_over(self.non_preemptible[row], requested, self._quota[row])
            if column is not None:
                return self._refusal(
                    NON_PREEMPTIBLE_OVER_QUOTA, "quota", row, column, self._quota, self.non_preemptible, requested
                )
        return None

    def _refusal(
        self,
        reason: str,
        bound: str,
        row: int,
        column: int,
        bounds: Sequence[Quantities],
        used: Sequence[Quantities],
        requested: Quantities,
    ) -> Refusal:
        names = {at: name for name, at in self._row_of.items()}
        resource = _NAMES[column]
        limit, own, more = (amount_text(resource, of[column]) for of in (bounds[row], used[row], requested))
        return Refusal(
            reason, f"queue {names[row]} would exceed its {resource} {bound} of {limit}: {own} used, {more} requested"
        )

    def rows_without_limit(self) -> list[bool]:
        """Return by queue whether neither it nor a queue above it has a limit."""
        found: list[bool] = []
        for limit, above in zip(self._limit, self._parent, strict=True):
            found.append(min(limit) == _INFINITY and (above < 0 or found[above]))
        return found

    # Reclaim

    def any_can_reclaim(self, asks: Asks, free_gpus: float) -> bool:
        """Return whether some ask would leave its queue within its fair share, and there may be GPUs to take.

        `free_gpus`: of the whole cluster. The bound of `most_gpus` is 0 if no queue is above its share.
        """
        allocated, rows = np.array(self.allocated).reshape(-1, 3), asks.rows
        may_try = np.all(allocated[rows] + asks.requested <= self.fair_shares[rows], axis=1)
        if not may_try.any():
            return False
        return bool((allocated > self._bounds).any() or (asks.gpus[may_try] <= free_gpus).any())

    def can_reclaim(self, job: Job, requested: Quantities) -> bool:
        """Return whether the job's queue would stay within its fair share, and within quota if not preemptible."""
        row = job.queue_row
        if not _at_most(add(self.allocated[row], requested), self._fair[row]):
            return False
        return job.preemptible or _at_most(add(self.non_preemptible[row], requested), self._quota[row])

    def why_no_reclaim(self, job: Job, requested: Quantities) -> Refusal | None:
        """Return why `can_reclaim` is false, or None."""
        row = job.queue_row
        column = _first_over(self.allocated[row], requested, self._fair[row])
        if column is not None:
            return self._refusal(OVER_FAIR_SHARE, "fair share", row, column, self._fair, self.allocated, requested)
        return self.over_quota(job, requested)

    def why_unfair(self, job: Job, units: Mapping[int, Sequence[Quantities]]) -> Refusal:
        """Return what the queues hold that lose something in a plan that `is_fair` rejects."""
        names, texts = {at: name for name, at in self._row_of.items()}, []
        for queue in units:
            own, other = self.split(job.queue_row, queue)
            has, share, columns = self._at_start[1][other], self._allocatable[other], _columns_of(units[queue])
            held = [
                f"{amount_text(name, has[column])} of {amount_text(name, share[column])} {name}"
                for column, name in enumerate(_NAMES)
                if column in columns and share[column] != _INFINITY
            ]
            texts.append(f"queue {names[own]} may not take so much: queue {names[other]} holds {', '.join(held)}")
        return Refusal(NOT_FAIR, "; ".join(dict.fromkeys(texts)))

    def split(self, claimant: int, victim: int) -> tuple[int, int]:
        """Return the two queues where the paths from the top to two queues part."""
        pair = (claimant, victim)
        for left, right in zip(reversed(self._paths[claimant]), reversed(self._paths[victim]), strict=False):
            pair = (left, right)
            if left != right:
                break
        return pair

    def may_be_victim(self, claimant: int, requested: Quantities, victim: int) -> bool:
        """Return whether a strategy of reclaim exists that could take something from the queue `victim`."""
        own, other = self.split(claimant, victim)
        if not _at_most(add(self.allocated[own], requested), self._quota[own]):
            return not _at_most(self.allocated[other], self._allocatable[other])
        is_below = False
        for has, quota, asked in zip(self.allocated[other], self._quota[other], requested, strict=True):
            if asked <= 0 or quota == _INFINITY:
                continue
            if has > quota:
                return True
            is_below = is_below or has < quota
        return not is_below

    def most_gpus(self, job: Job, requested: Quantities, units: Mapping[int, float]) -> float:
        """Return a bound: a job can reclaim fewer GPUs than this, whatever is evicted; infinity if there is no bound.

        `units`: by leaf queue with victims, the GPUs of the largest unit. A unit may be taken as long as the queue is
        above its share in any resource. So what is taken stays below the excess of GPUs and one unit, unless another
        resource is in excess.
        """
        largest: dict[tuple[int, int], float] = {}
        for queue, gpus in units.items():
            pair = self.split(job.queue_row, queue)
            largest[pair] = max(largest.get(pair, 0.0), gpus)
        bound = 0.0
        for (own, other), gpus in largest.items():
            has, share = self.allocated[other], self._allocatable[other]
            if _at_most(add(self.allocated[own], requested), self._quota[own]):
                share = _smallest(share, self._quota[other])
            if has[0] > share[0] or has[1] > share[1]:
                return _INFINITY
            if has[2] > share[2]:
                bound += has[2] - share[2] + gpus
        return bound

    def is_fair(self, job: Job, requested: Quantities, units: Mapping[int, Sequence[Quantities]]) -> bool:
        """Return whether a job may reclaim these units.

        `units`: by queue of the victims, the amounts of each unit, in the order of eviction.
        """
        _, allocated, non_preemptible = self._at_start
        left: dict[int, Quantities] = {}
        involved: dict[int, set[int]] = {}
        for queue, amounts in units.items():
            own, other = self.split(job.queue_row, queue)
            involved[queue] = _columns_of(amounts)
            left.setdefault(other, allocated[other])
            within_quota = _at_most(add(allocated[own], requested), self._quota[own])
            for amount in amounts:
                rest = left[other]
                is_over_share = not _at_most(rest, self._allocatable[other])
                if not is_over_share and not (within_quota and not _at_most(rest, self._quota[other])):
                    return False
                for row in self._paths[queue]:
                    left[row] = subtract(left.get(row, allocated[row]), amount)
                    involved[row] = involved.get(row, set()) | involved[queue]
        return self._within_boundaries(job, requested, left, involved, non_preemptible)

    def _within_boundaries(
        self,
        job: Job,
        requested: Quantities,
        left: dict[int, Quantities],
        involved: Mapping[int, set[int]],
        non_preemptible: Sequence[Quantities],
    ) -> bool:
        """Return whether the queues of the job stay less saturated than the queues that lose something."""
        own_columns = _columns_of([requested])
        for row in self._paths[job.queue_row]:
            own = add(left.get(row, self._at_start[1][row]), requested)
            if row in left:
                left[row] = own
            for sibling, rest in left.items():
                if sibling == row or self._parent[sibling] != self._parent[row]:
                    continue
                columns = involved.get(sibling, set()) | own_columns
                if not self._is_less_saturated(columns, own, row, rest, sibling):
                    return False
            if not job.preemptible and not _at_most(add(non_preemptible[row], requested), self._quota[row]):
                return False
        return True

    def _is_less_saturated(
        self, columns: Iterable[int], own: Quantities, row: int, rest: Quantities, sibling: int
    ) -> bool:
        for column in columns:
            ratio = _saturation(own[column], self._fair[row][column])
            other_fair = self._fair[sibling][column]
            other = _saturation(rest[column], other_fair)
            if ratio > 1 and other_fair > 0 and ratio * self.multiplier >= other:
                return False
        return True


def _quantities(values: Iterable[float]) -> Quantities:
    cpu, memory, gpu = values
    return (float(cpu), float(memory), float(gpu))


def _rows(amounts: Amounts) -> list[Quantities]:
    return [(cpu, memory, gpu) for cpu, memory, gpu in amounts.tolist()]


def _at_most(left: Quantities, right: Quantities) -> bool:
    return left[0] <= right[0] and left[1] <= right[1] and left[2] <= right[2]


def _allocatable(quota: Amounts, limit: Amounts, fair: Amounts) -> Amounts:
    """Return float64[Q, 3]: what queues may use, the quota or fair share, whichever is more, within the limit."""
    most: Amounts = np.where(np.isinf(quota), limit, np.fmin(limit, np.maximum(quota, fair)))
    return most


def _smallest(left: Quantities, right: Quantities) -> Quantities:
    return (min(left[0], right[0]), min(left[1], right[1]), min(left[2], right[2]))


def _first_over(used: Quantities, requested: Quantities, bound: Quantities) -> int | None:
    """Return the first requested resource whose bound would be exceeded."""
    for column in range(3):
        if requested[column] and used[column] + requested[column] > bound[column]:
            return column
    return None


def _columns_of(amounts: Iterable[Quantities]) -> set[int]:
    """Return the resources of which any amount has something."""
    return {column for amount in amounts for column in range(3) if amount[column] > 0}


def _saturation(allocated: float, fair: float) -> float:
    """Return the part of a fair share that is used."""
    if fair == 0:
        return _INFINITY if allocated > 0 else 0.0
    return allocated / fair
