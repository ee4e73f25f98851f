"""Follow the pods of the batch demo: for each team, the GPUs in use and requested, and how long jobs waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyscheduler_lab.audit import Change
    from pyscheduler_lab.demo.batch_workload import Arrival

__all__ = ["BatchRecord", "JobRecord", "TeamRecord"]

_GROUP: Final = "pod-group-name"
_GPU: Final = "nvidia.com/gpu"
_PENDING, _BOUND, _OVER = "pending", "bound", "over"


@attrs.define(eq=False)
class TeamRecord:
    """The GPUs of one team, now and over time."""

    allocated: int = 0
    pending: int = 0
    peak: int = 0
    gpu_seconds: float = 0.0
    lost_gpu_seconds: float = 0.0
    evictions: int = 0


@attrs.define(eq=False)
class JobRecord:
    """One job. Times in seconds of the caller's clock."""

    arrival: Arrival
    waits_since: float
    wait_seconds: float = 0.0
    #: Since when all pods hold nodes; None while the job waits.
    runs_since: float | None = None
    bound: set[str] = attrs.Factory(set)
    succeeded: set[str] = attrs.Factory(set)

    @property
    def is_finished(self) -> bool:
        """Return True if all pods succeeded."""
        return len(self.succeeded) >= self.arrival.job.workers


class BatchRecord:
    """Takes the changes of pods in order. `recreate` is called with job and pod name when an evicted pod is gone."""

    def __init__(
        self, teams: Iterable[str], *, now: Callable[[], float], recreate: Callable[[str, str], object]
    ) -> None:
        self.teams = {team: TeamRecord() for team in teams}
        self.jobs: dict[str, JobRecord] = {}
        #: Number of changes so far.
        self.changes = 0
        self._now = now
        self._recreate = recreate
        #: By uid of a pod: its state, and its GPUs.
        self._pods: dict[str, tuple[str, int]] = {}
        self._last: float | None = None

    def submit(self, arrival: Arrival) -> None:
        """Record the arrival of a job, before its objects are created."""
        self.jobs[arrival.job.name] = JobRecord(arrival, self._now())

    @property
    def is_finished(self) -> bool:
        """Return True if all jobs so far have finished."""
        return all(job.is_finished for job in self.jobs.values())

    def waits(self, team: str) -> list[float]:
        """Return the waits of the team's jobs, in seconds."""
        return [job.wait_seconds for job in self.jobs.values() if job.arrival.team == team]

    def take(self, change: Change) -> None:
        """Take the next change of a pod; other kinds are ignored."""
        if change.kind != "Pod":
            return
        pod = change.obj
        job = self.jobs.get((pod["metadata"].get("annotations") or {}).get(_GROUP, ""))
        if job is None:
            return
        self.changes += 1
        self._account()
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        state = _state_of(pod, is_deleted=change.type == "DELETED")
        before, gpus = self._pods.get(uid, ("", _gpus_of(pod)))
        if state != before:
            self._pods[uid] = (state, gpus)
            self._move(job, name, before, state, gpus, succeeded=pod["status"].get("phase") == "Succeeded")
        if change.type == "DELETED" and not job.is_finished and name not in job.succeeded:
            self._recreate(job.arrival.job.name, name)

    def _account(self) -> None:
        now = self._now()
        if self._last is not None:
            for team in self.teams.values():
                team.gpu_seconds += team.allocated * (now - self._last)
        self._last = now

    def _move(self, job: JobRecord, name: str, before: str, state: str, gpus: int, *, succeeded: bool) -> None:
        """Move a pod between the states, and its job with it."""
        team = self.teams[job.arrival.team]
        team.pending += gpus * ((state == _PENDING) - (before == _PENDING))
        team.allocated += gpus * ((state == _BOUND) - (before == _BOUND))
        team.peak = max(team.peak, team.allocated)
        if state == _BOUND:
            job.bound.add(name)
            if len(job.bound | job.succeeded) == job.arrival.job.workers:
                job.wait_seconds += self._now() - job.waits_since
                job.runs_since = self._now()
        elif state == _OVER and succeeded:
            job.bound.discard(name)
            job.succeeded.add(name)
        elif state == _OVER and before == _BOUND:
            job.bound.discard(name)
            if job.runs_since is not None:
                team.evictions += 1
                team.lost_gpu_seconds += (self._now() - job.runs_since) * job.arrival.job.gpu_count
                job.runs_since, job.waits_since = None, self._now()


def _state_of(pod: Mapping[str, Any], *, is_deleted: bool) -> str:
    if is_deleted or pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in {"Succeeded", "Failed"}:
        return _OVER
    return _BOUND if pod["spec"].get("nodeName") else _PENDING


def _gpus_of(pod: Mapping[str, Any]) -> int:
    return sum(int(each["resources"].get("requests", {}).get(_GPU, 0)) for each in pod["spec"]["containers"])
