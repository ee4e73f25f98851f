"""Arrays about the jobs of a simulation, from which `columns` computes results such as the mean wait.

A *run* of a job begins when its minimum of workers is bound. It ends with the job, or when an eviction leaves fewer
bound workers than this minimum.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler_lab.results.share_error import ShareError, Spans, area_until, share_error

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from pyscheduler_lab.results.tables import Tables

__all__ = ["SHORTEST_SECONDS", "FreeSpans", "Measures", "NodeTime"]

SHORTEST_SECONDS: Final = 10.0
"""Jobs shorter than this count as this long in the slowdown; otherwise the shortest jobs are all of it."""

#: Joules in a kWh.
_JOULES: Final = 3_600_000.0
#: Rows for which the fit of all shapes is computed at once.
_CHUNK: Final = 16_384
#: Sums of thousandths of GPUs are exact to this.
_SMALLEST: Final = 1e-6


@attrs.frozen(kw_only=True)
class FreeSpans:
    """Spans of time in which a node has free GPUs. All arrays have the same length.

    `unusable`: the free GPUs times the probability that a typical worker does not fit.
    """

    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    gpus: NDArray[np.float64]
    unusable: NDArray[np.float64]


@attrs.frozen(kw_only=True)
class NodeTime:
    """GPU seconds of all nodes in the window. `unusable`: free on nodes where a typical worker does not fit.

    `waiting`: while at least one job that requests GPUs waited.
    """

    capacity: float
    free: float
    unusable: float
    free_waiting: float
    unusable_waiting: float


@attrs.frozen(kw_only=True)
class Measures:
    """Arrays about the jobs of a run, or about some of them. Times in seconds; NaN for what did not happen."""

    tables: Tables
    begin: float
    end: float
    #: The time of the last event, until which jobs waited that did not end.
    horizon: float
    #: bool[J]: which jobs of the table are counted.
    counted: NDArray[np.bool_]
    arrival: NDArray[np.float64]
    ended: NDArray[np.float64]
    #: Time of each job from its arrival in which it did not run.
    wait: NDArray[np.float64]
    #: bool[J]: the job had at least one run.
    has_run: NDArray[np.bool_]
    #: int64[P]: the row of each pod's job.
    pod_job: NDArray[np.int64]
    #: The runs: the row of their job, begin and end, and whether an eviction ended them.
    run_job: NDArray[np.int64]
    run_began: NDArray[np.float64]
    run_ended: NDArray[np.float64]
    run_lost: NDArray[np.bool_]
    #: The pods of runs: the row of their job, their GPUs, and from when to when the run used them.
    use: Spans
    use_lost: NDArray[np.bool_]

    @classmethod
    def of(cls, tables: Tables) -> Measures:
        """Return the measures of all jobs."""
        jobs, pods = tables.jobs, tables.pods
        arrival, ended = _floats(jobs, "arrival_s"), _floats(jobs, "ended_s")
        bound, left = _floats(pods, "bound_s"), _floats(pods, "left_s")
        horizon = _latest(arrival, ended, bound, left)
        row_of = {name: row for row, name in enumerate(jobs["job"].to_pylist())}
        job = np.array([row_of[name] for name in pods["job"].to_pylist()], dtype=np.int64)
        began = _floats(pods, "run_started_s")
        is_used = ~np.isnan(began)
        keys = np.stack([job, pods["run"].to_numpy()])[:, is_used]
        runs, run_of = np.unique(keys, axis=1, return_inverse=True)
        run_of = run_of.ravel()
        until = np.where(np.isnan(left), horizon, left)[is_used]
        ended_at = np.nan_to_num(_floats(pods, "run_ended_s"), nan=-1.0)[is_used]
        run_began, run_ended = np.zeros(runs.shape[1]), np.full(runs.shape[1], -1.0)
        run_began[run_of] = began[is_used]
        np.maximum.at(run_ended, run_of, ended_at)
        has_ended = run_ended >= 0
        run_lost = has_ended & ~(run_ended >= ended[runs[0]])
        run_ended[~has_ended] = horizon
        gpus = _floats(jobs, "gpus_per_worker")
        is_bound = ~np.isnan(bound[is_used])
        use = Spans(
            begin=np.fmax(bound, began)[is_used][is_bound],
            end=np.minimum(until, run_ended[run_of])[is_bound],
            row=job[is_used][is_bound],
            gpus=gpus[job[is_used]][is_bound],
        )
        wait = np.where(np.isnan(ended), horizon, ended) - arrival
        np.subtract.at(wait, runs[0], run_ended - run_began)
        has_run = np.zeros(len(arrival), dtype=np.bool_)
        has_run[runs[0]] = True
        return cls(
            tables=tables,
            begin=float(arrival.min(initial=horizon)),
            end=_latest(ended) if not np.isnan(ended).all() else horizon,
            horizon=horizon,
            counted=np.ones(len(arrival), dtype=np.bool_),
            arrival=arrival,
            ended=ended,
            wait=wait,
            has_run=has_run,
            pod_job=job,
            run_job=runs[0],
            run_began=run_began,
            run_ended=run_ended,
            run_lost=run_lost,
            use=use,
            use_lost=run_lost[run_of][is_bound],
        )

    def only(self, counted: NDArray[np.bool_]) -> Measures:
        """Return the measures of some jobs, in the window of all jobs."""
        return attrs.evolve(self, counted=counted)

    # --- jobs ------------------------------------------------------------------------------------

    @property
    def waits(self) -> NDArray[np.float64]:
        """Return for each job how long it waited."""
        return self.wait[self.counted]

    @property
    def completions(self) -> NDArray[np.float64]:
        """Return for each finished job the time from its arrival to its end."""
        found: NDArray[np.float64] = (self.ended - self.arrival)[self._finished]
        return found

    @property
    def slowdowns(self) -> NDArray[np.float64]:
        """Return for each finished job its completion time over its duration, which counts as at least 10 s."""
        duration = np.maximum(_floats(self.tables.jobs, "duration_s")[self._finished], SHORTEST_SECONDS)
        return np.maximum(self.completions / duration, 1.0)

    @property
    def finished_teams(self) -> NDArray[np.str_]:
        """Return the team of each finished job."""
        return _texts(self.tables.jobs, "team")[self._finished]

    @property
    def is_gang(self) -> NDArray[np.bool_]:
        """Return bool[J]: the job is counted and has several workers."""
        return self.counted & (_floats(self.tables.jobs, "workers") > 1)

    @property
    def _finished(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.counted & ~np.isnan(self.ended)
        return found

    # --- GPU time --------------------------------------------------------------------------------

    def used_gpu_seconds(self) -> float:
        """Return the GPU time of runs in the window."""
        return self._gpu_seconds(np.True_, until=self.end)

    def kept_gpu_seconds(self) -> float:
        """Return the GPU time in the window of runs that no eviction ended."""
        return self._gpu_seconds(~self.use_lost, until=self.end)

    def lost_gpu_seconds(self) -> float:
        """Return the GPU time, also after the window, of runs that an eviction ended."""
        return self._gpu_seconds(self.use_lost, until=np.inf)

    def _gpu_seconds(self, chosen: NDArray[np.bool_] | np.bool_, *, until: float) -> float:
        seconds = np.maximum(np.minimum(self.use.end, until) - self.use.begin, 0.0)
        return float((seconds * self.use.gpus)[self.counted[self.use.row] & chosen].sum())

    def held_gpu_seconds(self) -> float:
        """Return the GPU time that pods held while their job did not run, from the timeline."""
        timeline = self.tables.timeline
        times = np.append(_floats(timeline, "time_s"), self.horizon)
        return float((np.maximum(np.diff(times), 0.0) * _floats(timeline, "held_gpus")).sum())

    def total_wait_until(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the waits of all jobs until each of the times, from the timeline."""
        moments = _floats(self.tables.timeline, "time_s")
        if not len(moments):
            return np.zeros(len(times))
        edges = np.append(moments, max(self.horizon, float(moments[-1])))
        return area_until(times, edges, _floats(self.tables.timeline, "waiting_jobs"))

    def energy_kwh(self) -> float | None:
        """Return the energy of the nodes in the window; None if no node has watts."""
        nodes, pods = self.tables.nodes, self.tables.pods
        idle, busy = _floats(nodes, "idle_watts"), _floats(nodes, "gpu_watts")
        if np.isnan(idle).all():
            return None
        idle, busy = np.nan_to_num(idle), np.nan_to_num(busy)
        watts_of = {None: 0.0, **dict(zip(nodes["node"].to_pylist(), busy.tolist(), strict=True))}
        watts = np.array([watts_of[node] for node in pods["node"].to_pylist()])
        power = watts * _floats(self.tables.jobs, "gpus_per_worker")[self.pod_job]
        left = np.nan_to_num(_floats(pods, "left_s"), nan=self.horizon)
        bound = np.nan_to_num(_floats(pods, "bound_s"), nan=self.horizon)
        joules = (self._node_seconds() * idle).sum() + (self._within(bound, left) * power).sum()
        return float(joules) / _JOULES

    def cpu_utilisation(self) -> float | None:
        """Return the CPU time of all runs over that of all nodes in the window; None if a job requests GPUs."""
        jobs = self.tables.jobs
        capacity = float((self._node_seconds() * _floats(self.tables.nodes, "cpu_milli")).sum())
        if not capacity or _floats(jobs, "gpus_per_worker").any():
            return None
        chosen = self.counted[self.use.row]
        milli = _floats(jobs, "cpu_milli_per_worker")[self.use.row]
        seconds = np.maximum(np.minimum(self.use.end, self.end) - self.use.begin, 0.0)
        return float((seconds * milli)[chosen].sum()) / capacity

    def capacity_gpu_seconds(self) -> float:
        """Return the GPU time of all nodes in the window."""
        return float((self._node_seconds() * _floats(self.tables.nodes, "gpus")).sum())

    def _node_seconds(self) -> NDArray[np.float64]:
        nodes = self.tables.nodes
        return self._within(_floats(nodes, "added_s"), np.nan_to_num(_floats(nodes, "removed_s"), nan=np.inf))

    def _within(self, begin: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much of each span lies in the window."""
        found: NDArray[np.float64] = np.maximum(np.minimum(end, self.end) - np.maximum(begin, self.begin), 0.0)
        return found

    @cached_property
    def share_error(self) -> ShareError | None:
        """Share error of the teams; None if the policy has no queues, or no GPU was there."""
        jobs = self.tables.jobs
        quotas = _floats(jobs, "quota_gpus")
        if np.isnan(quotas).all() or not self.capacity_gpu_seconds():
            return None
        _, first, row = np.unique(_texts(jobs, "team"), return_index=True, return_inverse=True)
        requested = Spans(
            begin=self.arrival,
            end=np.nan_to_num(self.ended, nan=self.horizon),
            row=row.astype(np.int64),
            gpus=_floats(jobs, "workers") * _floats(jobs, "gpus_per_worker"),
        )
        capacity = self.capacity_gpu_seconds() / (self.end - self.begin)
        used = attrs.evolve(self.use, row=row.astype(np.int64)[self.use.row])
        return share_error(requested, used, quotas[first], capacity, (self.begin, self.end))

    # --- fragmentation ---------------------------------------------------------------------------

    @cached_property
    def node_time(self) -> NodeTime:
        """Free GPU time of the nodes, and the part of it that a typical worker cannot use."""
        free = self.free
        seconds = free.end - free.begin
        waiting = self._waiting_until(free.end) - self._waiting_until(free.begin)
        return NodeTime(
            capacity=self.capacity_gpu_seconds(),
            free=float((free.gpus * seconds).sum()),
            unusable=float((free.unusable * seconds).sum()),
            free_waiting=float((free.gpus * waiting).sum()),
            unusable_waiting=float((free.unusable * waiting).sum()),
        )

    @cached_property
    def free(self) -> FreeSpans:
        """Free GPUs of each node over the window.

        A typical worker is drawn at random from all workers of the trace that request GPUs. It fits on a node that has
        enough GPUs, CPU and memory left. Labels and the division into devices do not count.
        """
        began, ended, amounts = self._free_amounts()
        gpus = amounts[:, 0]
        return FreeSpans(begin=began, end=ended, gpus=gpus, unusable=gpus * self._misfit(amounts))

    def _free_amounts(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return begin, end and free amounts (GPUs, CPU, memory) of every time in which a node has free GPUs."""
        nodes, pods, jobs = self.tables.nodes, self.tables.pods, self.tables.jobs
        offers = _amounts(nodes, "gpus", "cpu_milli", "memory_mib")
        requests = _amounts(jobs, "gpus_per_worker", "cpu_milli_per_worker", "memory_mib_per_worker")
        names = [*dict.fromkeys(nodes["node"].to_pylist())]
        place_of = {name: place for place, name in enumerate(names)}
        pod_nodes = pods["node"].to_pylist()
        bound = [at for at, name in enumerate(pod_nodes) if name is not None]
        taken = requests[self.pod_job[bound]]
        node_at = np.array([place_of[name] for name in nodes["node"].to_pylist()], dtype=np.int64)
        pod_at = np.array([place_of[pod_nodes[at]] for at in bound], dtype=np.int64)
        times = [
            _floats(nodes, "added_s"),
            np.nan_to_num(_floats(nodes, "removed_s"), nan=np.inf),
            _floats(pods, "bound_s")[bound],
            np.nan_to_num(_floats(pods, "left_s")[bound], nan=np.inf),
        ]
        at = np.concatenate(times)
        place = np.concatenate([node_at, node_at, pod_at, pod_at])
        change = np.concatenate([offers, -offers, -taken, taken])
        order = np.lexsort((at, place))
        at, place, change = at[order], place[order], change[order]
        total = np.cumsum(change, axis=0)
        # Every node's changes begin with nothing, so that the sum up to its first one is not the node's.
        is_first = np.append(True, np.diff(place) != 0)
        firsts = np.flatnonzero(is_first)
        total -= (total - change)[firsts][np.cumsum(is_first) - 1]
        following = np.where(np.append(is_first[1:], True), np.inf, np.append(at[1:], np.inf))
        began, ended = np.clip(at, self.begin, self.end), np.clip(following, self.begin, self.end)
        kept = (ended > began) & (total[:, 0] > _SMALLEST)
        return began[kept], ended[kept], total[kept]

    def _misfit(self, free: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability that a typical worker does not fit into each of the free amounts."""
        jobs = self.tables.jobs
        requests = _amounts(jobs, "gpus_per_worker", "cpu_milli_per_worker", "memory_mib_per_worker")
        wants = requests[:, 0] > 0
        shapes, which = np.unique(requests[wants], axis=0, return_inverse=True)
        weights = np.bincount(which, weights=_floats(jobs, "workers")[wants], minlength=len(shapes))
        if not len(shapes):
            return np.zeros(len(free))
        found = np.empty(len(free))
        for begin in range(0, len(free), _CHUNK):
            part = free[begin : begin + _CHUNK, None, :] + _SMALLEST
            found[begin : begin + _CHUNK] = 1.0 - np.all(part >= shapes, axis=2) @ (weights / weights.sum())
        return found

    def _waiting_until(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for how long a job with GPUs waited until each of the times."""
        jobs = self.tables.jobs
        has_gpus = _floats(jobs, "gpus_per_worker") > 0
        began, ended = self.run_began[has_gpus[self.run_job]], self.run_ended[has_gpus[self.run_job] & self.run_lost]
        arrived = self.arrival[has_gpus]
        at = np.concatenate([arrived, began, ended])
        if not len(at):
            return np.zeros(len(times))
        change = np.concatenate([np.ones(len(arrived)), -np.ones(len(began)), np.ones(len(ended))])
        moments, which = np.unique(at, return_inverse=True)
        level = np.cumsum(np.bincount(which, weights=change))
        edges = np.append(moments, max(self.horizon, float(moments[-1])))
        return area_until(times, edges, level > 0)


def _floats(table: pa.Table, column: str) -> NDArray[np.float64]:
    found: NDArray[np.float64] = table[column].to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _texts(table: pa.Table, column: str) -> NDArray[np.str_]:
    return np.array(table[column].to_pylist(), dtype=np.str_)


def _amounts(table: pa.Table, *columns: str) -> NDArray[np.float64]:
    return np.stack([_floats(table, column) for column in columns], axis=1)


def _latest(*times: NDArray[np.float64]) -> float:
    return float(np.nanmax(np.append(np.concatenate(times), 0.0)))
