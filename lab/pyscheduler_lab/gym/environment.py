"""A Gymnasium environment: each action chooses a node for a pod, or leaves the pod pending.

Pods arrive as in a trace, and leave their nodes when their time is over. The Filter plugins of the profile say which
nodes are feasible.

Differs from `pyscheduler simulate`: pods have no groups, and there is no preemption.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

try:
    import gymnasium
except ImportError as error:
    raise ImportError(
        "SchedulingEnv needs Gymnasium; install it with: pip install 'kube-pyscheduler-lab[gym]'"
    ) from error

from pyscheduler.config.load import load as load_config
from pyscheduler.config.types import Configuration
from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.gym.observation import observation_size, observe
from pyscheduler_lab.gym.placer import Placer
from pyscheduler_lab.inputs import check_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.traces import Job
    from pyscheduler_lab.traces.trace import Trace

__all__ = ["SchedulingEnv"]


@attrs.frozen(eq=False)
class _Arrival:
    """A pod that arrives: when, the job, and which worker of it."""

    time: float
    duration: float
    job: Job
    number: int


@attrs.define(eq=False)
class _Shown:
    """A pod that an action can be taken for, with the state and the result of its filters."""

    arrival: _Arrival
    info: PodInfo
    state: CycleState = attrs.Factory(CycleState)
    feasible: NDArray[np.bool_] = attrs.Factory(lambda: np.zeros(0, dtype=np.bool_))


class SchedulingEnv(gymnasium.Env["NDArray[np.float32]", np.int64]):
    """An environment of one cluster and one trace. Actions 0 to n - 1 are the nodes, action n leaves the pod pending.

    `config` is a configuration or the path of one, of which the first profile is used; by default kube-scheduler's
    default profile. The reward of a pod that gets a node is its share of the GPUs of the cluster, or of its CPU if the
    cluster has no GPUs; the reward of an infeasible action is `-penalty`; otherwise the reward is 0.

    To learn, give `load`, above 1. Without it, pods that wait get a node when others have ended, so the return is the
    same for all policies that always choose a feasible node.

    `reset(seed=...)` repeats an episode. Raises `ConfigError` for a configuration or a load that cannot be used.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's

    def __init__(
        self,
        cluster: Cluster,
        trace: Trace,
        *,
        config: Configuration | str | Path | None = None,
        load: float | None = None,
        penalty: float = 0.1,
        registry: Registry | None = None,
    ) -> None:
        check_inputs(trace, cluster)
        if not isinstance(config, Configuration):
            config = load_config(config)
        if load is not None and not (load > 0 and cluster.gpus and any(job.gpus for job in trace.jobs)):
            raise ConfigError(f"load is {load}; it must be above 0, and cluster and trace must have GPUs")
        self._trace = trace
        self._load = load
        self._penalty = penalty
        self._placer = Placer(cluster, config, shares_gpus=trace.shares_gpus, registry=registry)
        self._nodes = [node.name for node in cluster.nodes]
        self._gpus = cluster.gpus
        self._cpu_milli = max(sum(node.cpu_milli for node in cluster.nodes), 1)
        self._infos: dict[tuple[str, int], PodInfo] = {}
        self._current: _Shown | None = None
        self._begin(())
        size = observation_size(len(self._nodes))
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (size,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(self._nodes) + 1)

    # --- Gymnasium's methods ---------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode on the empty cluster; `options` are not used."""
        super().reset(seed=seed, options=options)
        self._placer.clear()
        self._begin(self._inflated() if self._load is not None else self._arrivals())
        self._advance()
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take an action for the pod that is shown; raise `ValueError` for a number that is no action."""
        row, shown = int(action), self._current
        if not 0 <= row <= len(self._nodes):
            raise ValueError(f"the action is {row}; it must be from 0 to {len(self._nodes)}")
        if shown is None:
            raise ValueError("the episode has ended, or has not begun; call reset()")
        reward, reason = 0.0, ""
        if row == len(self._nodes):
            self._pending.append(shown)
        else:
            reason = self._refusal(shown, row)
            if reason:
                self._pending.append(shown)
                reward = -self._penalty
            else:
                reward = self._occupy(shown)
        self._advance()
        info = self._info()
        if reason:
            info["reason"] = reason
        return self._observation(), reward, self._current is None, False, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[n + 1]: the actions that are feasible for the pod that is shown; the last one always is."""
        found = np.ones(len(self._nodes) + 1, dtype=np.bool_)
        found[:-1] = self._current.feasible if self._current is not None else False
        return found

    # --- the episode -----------------------------------------------------------------------------

    def _begin(self, arrivals: Sequence[_Arrival]) -> None:
        self._arriving = deque(arrivals)
        self._pending: list[_Shown] = []
        #: Pending pods that have not been tried since the last pod ended.
        self._retried: deque[_Shown] = deque()
        #: By end, the uids of pods that end, and thousandths of GPUs that they have.
        self._ends: list[tuple[float, str, int]] = []
        self._time = 0.0
        self._used_gpu_milli = 0

    def _arrivals(self) -> list[_Arrival]:
        return [
            _Arrival(job.arrival, job.duration, job, number)
            for job in self._trace.jobs
            for number in range(job.workers)
        ]

    def _inflated(self) -> list[_Arrival]:
        """Return pods in random order, as many as request `load` times the GPUs of the cluster."""
        assert self._load is not None
        wanted = self._load * self._gpus * 1000
        found: list[_Arrival] = []
        for second, (job, turn) in enumerate(self._shuffled()):
            numbers = range(turn * job.workers, (turn + 1) * job.workers)
            found.extend(_Arrival(float(second), math.inf, job, number) for number in numbers)
            wanted -= job.workers * job.worker_gpu_milli
            if wanted <= 0:
                break
        return found

    def _shuffled(self) -> Iterator[tuple[Job, int]]:
        """Yield all jobs in random order, again and again, each with the number of the round."""
        jobs = self._trace.jobs
        for turn in count():
            for index in self.np_random.permutation(len(jobs)):
                yield jobs[index], turn

    def _advance(self) -> None:
        """Go on to the next pod that an action can be taken for, or to the end of the episode."""
        self._current = None
        while self._current is None:
            if self._retried:
                shown = self._retried.popleft()
                self._look(shown)
                if shown.feasible.any():
                    self._current = shown
                else:
                    self._pending.append(shown)
            elif self._ends and (not self._arriving or self._ends[0][0] <= self._arriving[0].time):
                self._end_pods()
            elif self._arriving:
                arrival = self._arriving.popleft()
                self._time = max(self._time, arrival.time)
                self._current = _Shown(arrival, self._info_of(arrival))
                self._look(self._current)
            else:
                return

    def _look(self, shown: _Shown) -> None:
        shown.state = CycleState()
        shown.feasible = self._placer.feasible(shown.info, shown.state)

    def _end_pods(self) -> None:
        """Let all pods end whose end is next; pending pods are tried again."""
        self._time = self._ends[0][0]
        while self._ends and self._ends[0][0] <= self._time:
            _, uid, milli = heapq.heappop(self._ends)
            self._placer.remove(uid)
            self._used_gpu_milli -= milli
        self._retried.extend(self._pending)
        self._pending.clear()

    def _refusal(self, shown: _Shown, row: int) -> str:
        """Place the pod; return why it cannot be placed, or ""."""
        if not shown.feasible[row]:
            return f"{self._nodes[row]} is not feasible for {shown.info.pod.key}"
        status = self._placer.place_on(row, shown.info, shown.state)
        return "" if status is None else status.message or status.code.label

    def _occupy(self, shown: _Shown) -> float:
        """Note a pod that has a node; return the reward."""
        arrival, milli = shown.arrival, shown.arrival.job.worker_gpu_milli
        self._used_gpu_milli += milli
        if arrival.duration < math.inf:
            heapq.heappush(self._ends, (self._time + arrival.duration, shown.info.pod.uid, milli))
        return milli / (1000 * self._gpus) if self._gpus else arrival.job.cpu_milli / self._cpu_milli

    def _info_of(self, arrival: _Arrival) -> PodInfo:
        """Return the pod of an arrival; pods are made once, because all episodes have much the same."""
        key = arrival.job.name, arrival.number
        found = self._infos.get(key)
        if found is None:
            found = self._infos[key] = self._placer.pod_of(arrival.job, arrival.number)
        return found

    def _observation(self) -> NDArray[np.float32]:
        placer = self._placer
        if self._current is None:
            return observe(placer.nodes, None, placer.sharing)
        # The filters have brought the snapshot up to date.
        return observe(placer.scheduler.snapshot.nodes, self._current.info.pod, placer.sharing)

    def _info(self) -> dict[str, Any]:
        return {
            "action_mask": self.action_masks().astype(np.int8),
            "pod": self._current.info.pod.name if self._current is not None else "",
            "time": self._time,
            "pending": len(self._pending) + len(self._retried),
            "gpu_allocation": self._used_gpu_milli / (1000 * self._gpus) if self._gpus else 0.0,
        }
