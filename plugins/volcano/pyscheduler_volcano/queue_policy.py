"""The base class of Volcano's plugins `proportion` and `capacity`, which give each queue a share of the resources."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from pyscheduler_batch.contract import Refusal
from pyscheduler_batch.model.amounts import amount_text
from pyscheduler_volcano.policy import VolcanoPolicy
from pyscheduler_volcano.reservations import QueueSums, Reservers, minimum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Job, Task, TaskState

__all__ = ["QueuePolicy", "own_capability", "share_limit"]

_T = TypeVar("_T")


def own_capability(total: Amounts, guarantee: Amounts, limit: Amounts, native: NDArray[np.bool_]) -> Amounts:
    """Return float64[Q, R]: what each queue could hold at most.

    That is what the guarantees of all queues leave of the total, with the own guarantee, and no more than the queue's
    capability. `guarantee` and `limit` are float64[Q, R] with NaN where nothing is set; cpu and memory of 0 are no
    limit.
    """
    own = np.nan_to_num(guarantee)
    rest = np.maximum(total - own.sum(axis=0), 0.0)
    cut = np.where(native & (limit <= 0), np.inf, limit)
    most: Amounts = np.fmin(rest + own, cut)
    return most


def share_limit(total: Amounts, guarantee: Amounts, capability: Amounts, native: NDArray[np.bool_]) -> Amounts:
    """Return float64[Q, R]: what caps the share that each queue deserves.

    That is its `capability`, as `own_capability` returns it. A resource other than cpu and memory has no cap for queues
    without a guarantee of it if the guarantees leave nothing of it, or if no node offers it.
    """
    is_left = total > np.nan_to_num(guarantee).sum(axis=0)
    limit: Amounts = np.where(native | is_left | ~np.isnan(guarantee), capability, np.inf)
    return limit


class QueuePolicy(VolcanoPolicy):
    """A policy with a share and a limit per queue.

    All columns are float64[Q, R] by row of the queue table. `allocated` lives in the queue table.
    """

    steps: ClassVar[Mapping[str, str]] = {"QueueClosed": "queue", "QueueLimit": "limits", "QueueQuota": "gates"}

    sums: QueueSums
    deserved: Amounts
    real_capability: Amounts

    def count_queues(self) -> None:
        """Add up what the jobs of each queue request, reserve and hold."""
        session = self.session
        self.sums = QueueSums(session.books, len(session.queues), session.stuck.uids)
        self._reservers = Reservers()
        for job, rest in self.sums.reserved:
            self._reservers.add(job, session.queues.paths[job.queue_row].tolist(), rest)
        self._kept_shares: dict[int, float] = {}
        #: By gate, queue and id of a request, the request and the answer.
        self._kept_answers: dict[tuple[str, int, int], tuple[Amounts, Any]] = {}

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Forget the share of the task's queue, and what gates have said."""
        self._kept_shares.pop(task.job.queue_row, None)
        self._kept_answers.clear()

    def keep(self, gate: str, queue: int, request: Amounts, ask: Callable[[int, Amounts], _T]) -> _T:
        """Return what `ask` says of a request, once until a task moves: most jobs that wait request the same."""
        place = (gate, queue, id(request))
        found = self._kept_answers.get(place)
        if found is None:
            found = self._kept_answers[place] = (request, ask(queue, request))
        answer: _T = found[1]
        return answer

    def share(self, queue: int) -> float:
        """Return the queue's share, as the order of queues sees it."""
        share = self._kept_shares.get(queue)
        if share is None:
            share = self._kept_shares[queue] = self.compute_share(queue)
        return share

    @abstractmethod
    def compute_share(self, queue: int) -> float:
        """Return the queue's share from what it holds now."""

    @property
    def allocated(self) -> Amounts:
        """Return float64[Q, R]: what the active tasks hold."""
        return self.session.queues.allocated

    def queue_shares(self) -> Amounts:
        """Return float64[Q, R]: what each queue deserves."""
        return self.deserved

    def is_open(self, queue: int) -> bool:
        """Return whether the queue accepts anything new."""
        return self.session.queues.state[queue] == "Open"

    def closed(self, queue: int) -> Refusal | None:
        """Return that the queue accepts nothing new, if it is so."""
        if self.is_open(queue):
            return None
        return Refusal("QueueClosed", f"queue {self.session.queues.names[queue]} is not open")

    def requested(self, tasks: Sequence[Task]) -> Amounts:
        """Return float64[R]: what the tasks request together."""
        if len(tasks) == 1:
            return tasks[0].request
        total: Amounts = np.sum([task.request for task in tasks], axis=0)
        return total

    def within_capability(self, queue: int, minimum: Amounts) -> bool:
        """Return whether the queue has room for a minimum beside what is allocated and enqueued, less elastic parts."""
        used = minimum + self.allocated[queue] + self.sums.inqueue[queue] - self.sums.elastic[queue]
        return self.session.scale.within(used, self.real_capability[queue], minimum)

    def refuse_enqueue(self, job: Job, queue: int, minimum: Amounts) -> None:
        """Record why a job may not be enqueued."""
        used = minimum + self.allocated[queue] + self.sums.inqueue[queue] - self.sums.elastic[queue]
        over = self.session.scale.exceeded(used, self.real_capability[queue], minimum)
        names = [name for name, is_over in zip(self.session.axis.names, over.tolist(), strict=True) if is_over]
        listed = ", ".join(f"insufficient {name}" for name in names)
        text = f"queue resource quota insufficient: {listed}{self._reservers.text(queue, over)}"
        self.session.record(job, "QueueQuota", text)

    def reserve(self, job: Job, rows: Sequence[int]) -> None:
        """Reserve the minimum of an enqueued job in these queues."""
        if job.min_resources is not None:
            minimum = minimum_of(job, len(self.session.axis))
            self.sums.inqueue[rows] += minimum
            self._reservers.add(job, rows, minimum)

    def over_limit(self, queue: int, used: Amounts, limit: Amounts, request: Amounts) -> Refusal:
        """Return the refusal for amounts beyond a limit of the queue."""
        over = self.session.scale.exceeded(used, limit, request)
        axis = self.session.axis
        parts = [
            f"{name} {amount_text(name, used[column])} of {amount_text(name, limit[column])}"
            for column, name in enumerate(axis.names)
            if over[column]
        ]
        return Refusal("QueueLimit", f"queue {self.session.queues.names[queue]} is full: {', '.join(parts)}")
