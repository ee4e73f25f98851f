"""Gangs of which some members are not bound as decided: these keep their nodes for a while.

A binding failed, or waits until its queue is below its limit. Another job with a better claim could take the node, and
the gang would stay in parts. So the members have a promise. It ends after 60 s, or if no member is bound; and a pod
whose binding failed too often on its node has none. There is no second one before the gang is whole.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.batch.sub_groups import is_whole
from pyscheduler.batch.tasks import ALLOCATED
from pyscheduler.scheduler.sessions.guards import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.batch.tasks import Job
    from pyscheduler.scheduler.sessions.promises import Promises

__all__ = ["Lost", "LostBindings"]

#: After so many failures, a pod may go to another node.
_MOST_FAILURES: Final = 3


@attrs.frozen
class Lost:
    """A pod that is not bound as decided: to that node, because its binding failed or because its queue is full."""

    node_name: str
    has_failed: bool


@attrs.define
class _Loss:
    #: Clock seconds.
    since: float
    #: By uid of a pod that was not bound, how often its binding failed.
    failures: Counter[str] = attrs.Factory(Counter)


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
    ) -> None:
        """Begin and end promises. `lost`: since the last pass, by uid of a job and of a pod. `is_bound`: in the API."""
        for uid, pods in lost.items():
            failures = self._losses.setdefault(uid, _Loss(now)).failures
            for pod, each in pods.items():
                failures[pod] += each.has_failed
        for uid, loss in [*self._losses.items()]:
            job, is_late = jobs.get(uid), now >= loss.since + LEASE_SECONDS
            is_over = job is None or not job.count(ALLOCATED) or _are_bound(job, loss.failures, is_bound)
            if job is None or is_over or is_late:
                self._end(uid, loss)
                if job is None or is_over or is_whole(job, ALLOCATED):
                    del self._losses[uid]
                continue
            if uid in lost and not is_whole(job, ALLOCATED):
                self._promise(uid, loss, lost[uid])

    def _promise(self, uid: str, loss: _Loss, lost: Mapping[str, Lost]) -> None:
        nodes = self.promises.nodes.setdefault(uid, {})
        for pod, each in lost.items():
            if loss.failures[pod] <= _MOST_FAILURES:
                self.promises.leases.setdefault(uid, loss.since + LEASE_SECONDS)
                nodes[pod] = each.node_name
            else:
                nodes.pop(pod, None)
        if not nodes:
            self._end(uid, loss)

    def _end(self, uid: str, loss: _Loss) -> None:
        """End the promise, unless the job has a longer one."""
        if self.promises.leases.get(uid) == loss.since + LEASE_SECONDS:
            del self.promises.leases[uid]
            self.promises.nodes.pop(uid, None)


def _are_bound(job: Job, pods: Mapping[str, int], is_bound: Callable[[Pod], bool]) -> bool:
    """Return whether all pods with these uids are bound, or gone."""
    tasks = (job.tasks[uid] for uid in pods if uid in job.tasks)
    return all(task.pod is None or is_bound(task.pod) for task in tasks)
