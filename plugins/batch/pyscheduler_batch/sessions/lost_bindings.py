"""Gangs of which some members are not bound as decided: these keep their nodes for a while.

A binding failed, or waits until its queue is below its limit. Another job with a better claim could take the node, and
the gang would stay in parts. So the members have a promise. It ends after 60 s, or if no member is bound; and a pod
whose binding failed too often on its node has none. There is no second one before the gang is whole.

A pass may place such a member again and again, and its binding may fail each time. So each job knows its lost members
until they are bound: a placement in thought does not make the gang whole.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_batch.model.sub_groups import is_whole
from pyscheduler_batch.model.tasks import ALLOCATED
from pyscheduler_batch.sessions.guards import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyscheduler.api import Pod
    from pyscheduler_batch.model.tasks import Job
    from pyscheduler_batch.sessions.promises import Promises

__all__ = ["Lost", "LostBindings"]

#: After so many failures, a pod may go to another node.
_MOST_FAILURES: Final = 3


@attrs.frozen
class Lost:
    """A pod that is not bound as decided: to that node, because its binding failed or because its queue is full."""

    #: None: the node refused the pod, which gets no promise of it.
    node_name: str | None
    has_failed: bool
    #: Seconds since 1970.
    at: float


@attrs.define
class _Loss:
    #: Clock seconds.
    since: float
    #: By uid of a pod that was not bound, how often its binding failed.
    failures: Counter[str] = attrs.Factory(Counter)
    #: By the same uids, when it was last not bound, in seconds since 1970.
    last: dict[str, float] = attrs.Factory(dict)


@attrs.define(eq=False)
class LostBindings:
    """The promises of such gangs."""

    promises: Promises
    #: By uid of a job.
    _losses: dict[str, _Loss] = attrs.Factory(dict)

    def follow(
        self,
        jobs: Mapping[str, Job],
        lost: Mapping[str, Mapping[str, Lost]],
        now: float,
        is_bound: Callable[[Pod], bool],
    ) -> Iterable[str]:
        """Begin and end promises; tell jobs of their lost tasks, and return the uids of those for which that is new.

        `lost`: since the last pass, by uid of a job and of a pod. `is_bound`: in the API.
        """
        changed: list[str] = []
        for uid, pods in lost.items():
            loss = self._losses.setdefault(uid, _Loss(now))
            for pod, each in pods.items():
                loss.failures[pod] += each.has_failed
                loss.last[pod] = each.at
        for uid, loss in [*self._losses.items()]:
            job, is_late = jobs.get(uid), now >= loss.since + LEASE_SECONDS
            missing = {} if job is None or not job.count(ALLOCATED) else _missing(job, loss.last, is_bound)
            if job is None or not missing or is_late:
                self._end(uid, loss)
                if job is None or not missing or _is_whole_without(job, missing):
                    del self._losses[uid]
                    missing = {}
            elif uid in lost and not is_whole(job, ALLOCATED):
                self._promise(uid, loss, lost[uid])
            if job is not None and job.lost != missing:
                job.lost = missing
                changed.append(uid)
        return changed

    def _promise(self, uid: str, loss: _Loss, lost: Mapping[str, Lost]) -> None:
        nodes = self.promises.nodes.setdefault(uid, {})
        for pod, each in lost.items():
            if loss.failures[pod] > _MOST_FAILURES:
                nodes.pop(pod, None)
            elif each.node_name is not None:
                self.promises.leases.setdefault(uid, loss.since + LEASE_SECONDS)
                nodes[pod] = each.node_name
        if not nodes:
            self._end(uid, loss)

    def _end(self, uid: str, loss: _Loss) -> None:
        """End the promise, unless the job has a longer one."""
        if self.promises.leases.get(uid) == loss.since + LEASE_SECONDS:
            del self.promises.leases[uid]
            self.promises.nodes.pop(uid, None)


def _missing(job: Job, pods: Mapping[str, float], is_bound: Callable[[Pod], bool]) -> dict[str, float]:
    """Return those of the pods that are there and not bound."""
    there = ((job.tasks[uid].pod, uid, at) for uid, at in pods.items() if uid in job.tasks)
    return {uid: at for pod, uid, at in there if pod is not None and not is_bound(pod)}


def _is_whole_without(job: Job, missing: Iterable[str]) -> bool:
    """Return whether a job has its minimum of nodes, and no missing task is on its way to one."""
    return is_whole(job, ALLOCATED) and not any(job.tasks[uid].state in ALLOCATED for uid in missing)
