"""Change the nodes of a simulated cluster: drains, losses, removals, additions, and growing node groups.

A drained node becomes unschedulable, and its pods are evicted. A lost node, whose kubelet is silent, gets a NoExecute
taint. The pods of a removed node are deleted. A node group gets new nodes for pods that are unschedulable, and loses
nodes that have had no pods for some time.
"""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.taints import Taint, tolerates
from pyscheduler.framework.errors import APIError
from pyscheduler_lab.clusters.node import PODS_PER_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from kube_objects.clock import Clock, Timer
    from pyscheduler_lab.clusters.failures import Change, Failures, NodeGroup, Rate
    from pyscheduler_lab.clusters.node import Node
    from pyscheduler_lab.simulation.replay_cluster import ReplayCluster
    from pyscheduler_lab.traces import Job

__all__ = ["NodeChanges"]

#: As of the cluster autoscaler: `--scan-interval`.
_SCAN_SECONDS: Final = 10.0
#: The groups look so often after pods were created or a node has joined.
_MOST_SCANS: Final = 3
_LOST: Final = "node.kubernetes.io/unreachable"
_TAINTS: Final = tuple({"key": _LOST, "effect": effect} for effect in ("NoSchedule", "NoExecute"))
_EVICTING: Final = Taint(key=_LOST, effect="NoExecute")


@attrs.define
class _Group:
    """The state of a node group: its nodes, and how many are on their way."""

    spec: NodeGroup
    nodes: set[str] = attrs.Factory(set)
    coming: int = 0
    made: int = 0


class NodeChanges:
    """Changes the nodes of `cluster`; `start` it, then `stop` it.

    `job_of` returns the job of a pod by its name. `last_job_event` returns when jobs last arrived, ended, or lost
    or got a node, in seconds since the beginning. Equal seeds give equal changes.
    """

    def __init__(  # noqa: PLR0913 - wiring, by keyword
        self,
        failures: Failures,
        nodes: Sequence[Node],
        cluster: ReplayCluster,
        *,
        clock: Clock,
        seed: int,
        namespace: str,
        shares_gpus: bool,
        job_of: Callable[[str], Job | None],
        last_job_event: Callable[[], float],
    ) -> None:
        self._failures = failures
        self._cluster = cluster
        self._clock = clock
        self._seed = failures.seed if failures.seed is not None else seed
        self._namespace = namespace
        self._shares_gpus = shares_gpus
        self._job_of = job_of
        self._last_job_event = last_job_event
        #: All nodes that there were, by name.
        self.nodes = {node.name: node for node in nodes}
        self._began = clock.now()
        #: By name, the spans in which a node was there; the last one is open if its end is None.
        self._spans: dict[str, list[tuple[float, float | None]]] = {node.name: [(0.0, None)] for node in nodes}
        #: By kind and name, when a drained or lost node returns at the earliest; None for never.
        self._away: dict[tuple[str, str], float | None] = {}
        self._groups = [_Group(spec) for spec in failures.groups]
        self._group_of: dict[str, _Group] = {}
        self._node_of: dict[str, str] = {}
        self._pods_on: defaultdict[str, set[str]] = defaultdict(set)
        self._timers: list[Timer] = []
        #: Timers of evictions by pod, of nodes that are lost.
        self._evictions: dict[str, Timer] = {}
        self._scan: Timer | None = None
        #: How often the groups look again, because a pod may not have been tried yet.
        self._scans_left = 0
        self._idle: dict[str, Timer] = {}
        self._due = 0
        #: By kind and name of a node that fails at random, when the failure began.
        self._failed: dict[tuple[str, str], float] = {}
        #: When a node that the replay waits for last came, returned or left, in seconds since the beginning.
        self.last_event = 0.0
        self._feed = cluster.follow(self)

    @property
    def is_expected(self) -> bool:
        """True if the replay waits for nodes that come or return, or for a planned change."""
        return self._due > 0 or any(map(self._is_awaited, self._failed))

    def presence(self) -> Iterator[tuple[Node, float, float | None]]:
        """Yield for each time in which a node was there when it came and when it left; None if it is still there."""
        for name, spans in self._spans.items():
            for began, ended in spans:
                yield self.nodes[name], began, ended

    def start(self) -> None:
        """Plan all changes; times count from now."""
        self._began = self._clock.now()
        self._feed.start()
        for change in self._failures.changes:
            self._later(change.at, partial(self._apply, change))
        for number, rate in enumerate(self._failures.rates):
            for name in [name for name in self.nodes if _matches(name, rate.patterns)]:
                self._next_failure(rate, name, random.Random(f"failures/{self._seed}/{number}/{name}"))
        for group in self._groups:
            for _ in range(group.spec.least):
                self._join(group)

    def stop(self) -> None:
        """Change nothing any more."""
        self._feed.stop()
        for timer in (*self._timers, *self._evictions.values(), *self._idle.values(), *filter(None, (self._scan,))):
            timer.cancel()

    # --- planned and random changes --------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.now() - self._began

    def _later(self, seconds: float, step: Callable[[], object]) -> None:
        """Call `step` later; until then, something is expected."""
        self._due += 1

        def fire() -> None:
            self._due -= 1
            step()

        self._timers.append(self._clock.call_later(seconds, fire))

    def _apply(self, change: Change) -> None:
        for node in change.nodes:
            self._add(node)
        for name in self._present(change.patterns):
            self._change(change.kind, name, change.seconds)

    def _next_failure(self, rate: Rate, name: str, rng: random.Random) -> None:
        def fail() -> None:
            if self._is_there(name):
                self._change(rate.kind, name, rate.seconds, is_random=True)
                self._next_failure(rate, name, rng)

        # Time to the next failure counts from the end of this one. No replay waits for a failure.
        lasting = rate.seconds if (rate.kind, name) in self._away else 0.0
        self._timers.append(self._clock.call_later(lasting + rng.expovariate(1 / rate.mean), fail))

    def _present(self, patterns: Sequence[str]) -> list[str]:
        return [name for name in self.nodes if self._is_there(name) and _matches(name, patterns)]

    def _is_there(self, name: str) -> bool:
        return self._spans[name][-1][1] is None

    def _change(self, kind: str, name: str, seconds: float | None, *, is_random: bool = False) -> None:
        self._feed.catch_up()
        if kind == "remove":
            self._remove(name)
            return
        until = None if seconds is None else self._now() + seconds
        if (kind, name) in self._away and self._away[kind, name] is None:
            return
        is_new = (kind, name) not in self._away
        self._away[kind, name] = until if is_new or until is None else max(until, self._away[kind, name] or 0.0)
        if is_new:
            self._write(name)
            for pod in sorted(self._pods_on[name]):
                self._evict(pod) if kind == "drain" else self._plan_eviction(pod)
        if seconds is None:
            return
        come_back = partial(self._return, kind, name)
        if is_random:
            self._failed.setdefault((kind, name), self._now())
            self._timers.append(self._clock.call_later(seconds, come_back))
        else:
            self._failed.pop((kind, name), None)
            self._later(seconds, come_back)

    def _is_awaited(self, failure: tuple[str, str]) -> bool:
        """Return True for a planned change, and for a random failure that began before the last event of jobs."""
        return self._failed.get(failure, 0.0) <= self._last_job_event()

    def _return(self, kind: str, name: str) -> None:
        until = self._away.get((kind, name))
        if until is None or self._now() < until:
            return
        del self._away[kind, name]
        if self._is_awaited((kind, name)):
            self.last_event = self._now()
        self._failed.pop((kind, name), None)
        self._write(name)
        if kind == "lose":
            for pod in self._pods_on[name] & self._evictions.keys():
                self._evictions.pop(pod).cancel()

    # --- nodes -----------------------------------------------------------------------------------

    def _add(self, node: Node) -> None:
        self.last_event = self._now()
        self.nodes[node.name] = node
        self._spans.setdefault(node.name, []).append((self._now(), None))
        self._cluster.add(node.as_object(shares_gpus=self._shares_gpus))

    def _remove(self, name: str) -> None:
        self.last_event = self._now()
        began, _ = self._spans[name].pop()
        self._spans[name].append((began, self._now()))
        self._cluster.remove("v1", "Node", name)
        for kind in ("drain", "lose"):
            self._away.pop((kind, name), None)
            self._failed.pop((kind, name), None)
        for pod in sorted(self._pods_on.pop(name, ())):
            self._evict(pod)
        group = self._group_of.pop(name, None)
        if group is not None:
            group.nodes.discard(name)

    def _write(self, name: str) -> None:
        """Write what is the matter with a node to its object."""
        made = self.nodes[name].as_object(shares_gpus=self._shares_gpus)
        is_lost, is_drained = ("lose", name) in self._away, ("drain", name) in self._away
        own = made.get("spec") or {}
        taints = [*(own.get("taints") or ()), *(_TAINTS if is_lost else ())]
        spec = {"unschedulable": is_drained or own.get("unschedulable") or None, "taints": taints or None}
        ready = {"type": "Ready", "status": "Unknown" if is_lost else "True"}
        others = [each for each in made["status"].get("conditions") or () if each.get("type") != "Ready"]
        self._cluster.change_node(name, spec, {"conditions": [*others, ready]})

    # --- pods ------------------------------------------------------------------------------------

    def _evict(self, pod: str) -> None:
        timer = self._evictions.pop(pod, None)
        if timer is not None:
            timer.cancel()
        with suppress(APIError):  # it has ended
            self._cluster.remove("v1", "Pod", pod, namespace=self._namespace)

    def _plan_eviction(self, pod: str) -> None:
        if pod in self._evictions:
            return
        found = [each for each in self._cluster.tolerations(self._namespace, pod) if tolerates(each, _EVICTING)]
        limits = [each.toleration_seconds for each in found if each.toleration_seconds is not None]
        if not found:
            self._evict(pod)
        elif limits:
            self._evictions[pod] = self._clock.call_later(max(min(limits), 0), partial(self._evict, pod))

    def pods_added(self) -> None:
        """Note that pods are created, which may need nodes of a group."""
        if self._groups:
            self._scans_left = _MOST_SCANS
            self._plan_scan()

    def listed(self, names: Collection[str]) -> None:
        """Note that only these pods exist."""
        for name in [name for name in self._node_of if name not in names]:
            self.lost(name)

    def bound(self, name: str, node: str) -> None:
        """Note that a pod has a node; it may have been noted before."""
        if name in self._node_of or self._job_of(name) is None:
            return
        self._node_of[name] = node
        self._pods_on[node].add(name)
        idle = self._idle.pop(node, None)
        if idle is not None:
            idle.cancel()
        if ("lose", node) in self._away:
            self._plan_eviction(name)

    def lost(self, name: str) -> None:
        """Note that a pod is gone."""
        timer = self._evictions.pop(name, None)
        if timer is not None:
            timer.cancel()
        node = self._node_of.pop(name, None)
        if node is not None:
            self._pods_on[node].discard(name)
            self._watch_idle(node)

    # --- node groups -----------------------------------------------------------------------------

    def _plan_scan(self) -> None:
        if self._scan is None:
            self._scan = self._clock.call_later(_SCAN_SECONDS, self._grow)

    def _grow(self) -> None:
        """Order nodes for the pods that wait."""
        self._scan = None
        self._scans_left -= 1
        if self._scans_left > 0:
            self._plan_scan()
        names = self._cluster.waiting(self._namespace)
        waiting = [job for name in names if (job := self._job_of(name)) is not None]
        for group in self._groups:
            room = group.spec.most - len(group.nodes) - group.coming
            needed = _packed(waiting, group.spec.shape, group.coming + room)
            for _ in range(min(needed - group.coming, room)):
                group.coming += 1
                self._later(group.spec.delay, partial(self._arrive, group))

    def _arrive(self, group: _Group) -> None:
        group.coming -= 1
        self._join(group)
        self.pods_added()

    def _join(self, group: _Group) -> None:
        name = f"{group.spec.name}-{group.made}"
        group.made += 1
        group.nodes.add(name)
        self._group_of[name] = group
        self._add(attrs.evolve(group.spec.shape, name=name))
        self._watch_idle(name)

    def _watch_idle(self, node: str) -> None:
        group = self._group_of.get(node)
        if group is not None and not self._pods_on[node] and node not in self._idle:
            self._idle[node] = self._clock.call_later(group.spec.idle, partial(self._shrink, group, node))

    def _shrink(self, group: _Group, node: str) -> None:
        self._feed.catch_up()
        self._idle.pop(node, None)
        if node in group.nodes and not self._pods_on[node] and len(group.nodes) > group.spec.least:
            self._remove(node)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _packed(jobs: Sequence[Job], shape: Node, most: int) -> int:
    """Return how many empty nodes of a shape the workers that fit on one need, first fit, and at most `most`."""
    rooms: list[list[int]] = []
    for job in jobs:
        wanted = (job.cpu_milli, job.memory_mib, job.worker_gpu_milli, 1)
        whole = (shape.cpu_milli, shape.memory_mib, shape.gpus * 1000, PODS_PER_NODE)
        is_other = bool(job.gpu_models) and shape.gpu_model not in job.gpu_models
        if is_other or job.node_selector or not _fits(wanted, whole):
            continue
        room = next((each for each in rooms if _fits(wanted, each)), None)
        if room is None:
            if len(rooms) == most:
                continue
            room = [*whole]
            rooms.append(room)
        for place, need in enumerate(wanted):
            room[place] -= need
    return len(rooms)


def _fits(wanted: Sequence[int], room: Sequence[int]) -> bool:
    return all(need <= have for need, have in zip(wanted, room, strict=True))
