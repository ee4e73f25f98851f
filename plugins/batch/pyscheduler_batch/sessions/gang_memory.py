"""Find gangs that had enough members on nodes, and then lost members without an eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_batch.model.sub_groups import COMPLETING, has_what_it_reached, reached_minimums
from pyscheduler_batch.model.tasks import ACTIVE, TaskState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyscheduler_batch.model.tasks import Job

__all__ = ["GangMemory"]


@attrs.define(eq=False)
class GangMemory:
    """The minimums of jobs with nodes, by key of the job."""

    #: The jobs that had their minimum of nodes, and were not evicted since.
    _whole: set[str] = attrs.Factory(set)
    #: `Job.reached`.
    _reached: dict[str, Mapping[str, int]] = attrs.Factory(dict)

    def evicted(self, key: str) -> None:
        """Note that a task of a job was evicted: the job did not lose it, so it is not broken."""
        self._whole.discard(key)

    def forget(self, key: str) -> None:
        """Forget a job that holds no node."""
        self._whole.discard(key)
        self._reached.pop(key, None)

    def read_ended(self, key: str, ended: Callable[[], Iterable[tuple[object, TaskState]]]) -> None:
        """Record whether a task of a job has succeeded: its pod may be removed before the next pass."""
        if self._reached.get(key, COMPLETING) != COMPLETING and any(
            state is TaskState.SUCCEEDED for _, state in ended()
        ):
            self._reached[key] = COMPLETING

    def note(self, key: str, job: Job) -> None:
        """Remember the minimums of nodes that a job has; mark a job that had them and lost some."""
        if not job.count(ACTIVE):
            self.forget(key)
            return
        job.reached = reached_minimums(job, self._reached.get(key) or job.reached, ACTIVE)
        if job.reached:
            self._reached[key] = job.reached
        is_whole = has_what_it_reached(job, ACTIVE)
        if is_whole:
            self._whole.add(key)
        job.is_broken = not is_whole and key in self._whole
