"""The waiting jobs with their requests, kept from one scheduling round to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler_kai.asks import Ask, Asks
from pyscheduler_kai.forest import Forest
from pyscheduler_kai.job_index import JobIndex
from pyscheduler_kai.placement import POD_SCHEDULING_ERRORS, no_room
from pyscheduler_kai.shared_values import SharedValues

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyscheduler_batch.contract import Amounts, Job
    from pyscheduler_kai.gang import Gang
    from pyscheduler_kai.orders import Keys
    from pyscheduler_kai.proportion import Proportion

__all__ = ["Backlog", "is_waiting"]


def is_waiting(gang: Gang) -> bool:
    """Return whether a job has pending tasks and is complete enough to be placed."""
    return gang.has_pending() and gang.is_ready()


class Backlog:
    """The waiting jobs of leaf queues. `gangs`: by job uid; `parents`: row of each queue's parent, -1 at the top."""

    def __init__(self, gangs: Mapping[str, Gang], keys: Keys, parents: Sequence[int]) -> None:
        self._gangs = gangs
        self.forest = Forest(parents)
        self.index = JobIndex(gangs, is_waiting, keys.of_gang)
        self._kinds: SharedValues[Ask] = SharedValues()
        self._asks: Asks | None = None
        #: What single pending tasks of a job request, as bytes; and the requests by their bytes.
        self._mixes: SharedValues[tuple[bytes, ...]] = SharedValues()
        self._amounts: dict[bytes, Amounts] = {}
        #: UIDs of the jobs that must not evict others for a while.
        self.delayed: set[str] = set()
        #: By uid of a job that only needs room, its reason if there is none. The others are judged one by one.
        self.refused: dict[str, dict[str, str]] = {}
        self.others: dict[str, None] = {}
        #: UIDs of those among `refused` that have a topology, which may be a wrong one.
        self.constrained: dict[str, None] = {}
        self._open: list[bool] | None = None

    def put(self, uid: str, job: Job | None, proportion: Proportion) -> None:
        """Follow a job that changed; None if it has no pending tasks in a leaf queue."""
        self._take_out(uid)
        gang = None if job is None else self._gangs[uid]
        if job is None or gang is None or not is_waiting(gang):
            self.index.put(uid, None)
            return
        self.index.put(uid, job)
        self._put_ask(uid, _ask(gang))
        self._put_requests(uid, gang)
        if job.preemption_delay > 0:
            self.delayed.add(uid)
        if job.preemptible and not job.sub_groups and self._is_open(job.queue_row, proportion):
            self.refused[uid] = {POD_SCHEDULING_ERRORS: no_room(gang.first_pending())}
            if job.topology:
                self.constrained[uid] = None
        else:
            self.others[uid] = None

    def _put_requests(self, uid: str, gang: Gang) -> None:
        requests = {request.tobytes(): request for request in gang.pending_requests()}
        mix = (*requests,)
        if mix not in self._mixes:
            self._amounts.update(requests)
        self._mixes.put(uid, mix)

    def _put_ask(self, uid: str, ask: Ask) -> None:
        self.forest.jobs_changed(ask.row)
        if ask not in self._kinds:
            self._asks = None
        self._kinds.put(uid, ask)

    def _take_out(self, uid: str) -> None:
        ask = self._kinds.put(uid, None)
        if ask is None:
            return
        self.forest.jobs_changed(ask.row)
        if ask not in self._kinds:
            self._asks = None
        if self._mixes.put(uid, None) not in self._mixes:
            left = {key for each in self._mixes for key in each}
            self._amounts = {key: request for key, request in self._amounts.items() if key in left}
        self.delayed.discard(uid)
        self.refused.pop(uid, None)
        self.others.pop(uid, None)
        self.constrained.pop(uid, None)

    def _is_open(self, row: int, proportion: Proportion) -> bool:
        """Return whether neither the queue nor one above it has a limit."""
        if self._open is None:
            self._open = proportion.rows_without_limit()
        return self._open[row]

    def requests(self) -> Mapping[bytes, Amounts]:
        """Return what single pending tasks request, as of the begin of the pass."""
        return self._amounts

    def asks(self, touched: Collection[str]) -> Asks:
        """Return what jobs ask for: as of the begin of the pass, and those that changed since as of now."""
        if self._asks is None:
            self._asks = Asks.of(self._kinds)
        changed = [self._gangs[uid] for uid in touched]
        more = [_ask(gang) for gang in changed if gang.job.queue_row >= 0 and is_waiting(gang)]
        return self._asks.join(Asks.of(more)) if more else self._asks


def _ask(gang: Gang) -> Ask:
    return Ask(gang.job.queue_row, gang.requested(), gang.job.priority, gang.job.preemptible)
