"""The objects of a benchmark case at one cluster size: initial objects, measured pods, and changes while measuring."""

from __future__ import annotations

from itertools import count, cycle
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks import cases, shapes
from benchmarks.gangs import GANGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.gangs import GangDialect
    from benchmarks.shapes import Manifest

__all__ = ["MEASURED", "Churn", "Deletions", "Plan", "make_plan"]

#: How the names of measured pods begin.
MEASURED = "measured-"


@attrs.frozen(kw_only=True)
class Churn:
    """Objects that come round by round for as long as is measured; with `recreate` each round replaces the last."""

    shapes: Sequence[str]
    interval_seconds: float
    recreate: bool
    namespace: str

    def made(self, number: int) -> list[Manifest]:
        """Return the objects of a round."""
        return [self._make(shape, f"churn-{number}-{place}") for place, shape in enumerate(self.shapes)]

    def _make(self, shape: str, name: str) -> Manifest:
        kind = cases.shapes()[shape]["kind"]
        if kind == "Node":
            return shapes.node(name, shape)
        return shapes.service(name, self.namespace) if kind == "Service" else shapes.pod(name, shape, self.namespace)


@attrs.frozen(kw_only=True)
class Deletions:
    """Pods of a namespace that are deleted one after the other, for as long as is measured."""

    namespace: str
    per_second: float


@attrs.frozen(kw_only=True)
class _Pods:
    """One operation that creates pods."""

    count: int
    shape: str
    namespace: str
    pending: bool


@attrs.define(kw_only=True)
class Plan:
    """All objects of a case; each method makes them anew, so that nobody has to keep them."""

    case: cases.Case
    nodes: int
    threshold: float | None
    measured_count: int = 0
    #: How many different specs measured pods have.
    kinds: int = 1
    gang_size: int = 0
    #: Into how many queues the gangs are put, in turn.
    queue_count: int = 0
    churns: list[Churn] = attrs.Factory(list)
    deletions: list[Deletions] = attrs.Factory(list)
    _measured: _Pods | None = None
    _namespaces: list[tuple[str, Mapping[str, str]]] = attrs.Factory(list)
    _node_sets: list[tuple[int, str, str, Sequence[str]]] = attrs.Factory(list)
    _services: list[str] = attrs.Factory(list)
    _initial: list[_Pods] = attrs.Factory(list)

    # What is there at the beginning

    @property
    def initial_count(self) -> int:
        """Return how many pods there are before."""
        return sum(one.count for one in self._initial)

    @property
    def gangs(self) -> GangDialect | None:
        """Return how gangs are written; None if there are none."""
        return GANGS[self.case.configuration] if self.gang_size else None

    def surroundings(self) -> Iterator[Manifest]:
        """Return namespaces, classes and services, in the order in which they can be created."""
        labels = dict(self._namespaces)
        for name in self.namespaces:
            yield shapes.namespace(name, dict(labels.get(name, {})))
        priorities = {cases.shapes()[shape].get("priority", 0) for shape in self._shapes()}
        for value in sorted(priorities - {0}):
            yield shapes.priority_class(value)
        for name in self._services:
            yield shapes.service("service", name)
        if self.gangs is not None:
            yield from (self.gangs.queue(f"bench-{number}") for number in range(self.queue_count))

    @property
    def namespaces(self) -> list[str]:
        """Return all namespaces, by the names that the case has for them."""
        used = [name for name, _ in self._namespaces]
        used += [one.namespace for one in self._initial]
        used += [churn.namespace for churn in self.churns]
        used += self._services
        return list(dict.fromkeys([*used, *([self._measured.namespace] if self._measured else [])]))

    def node_objects(self) -> Iterator[Manifest]:
        """Return the nodes."""
        numbers = count()
        for size, shape, key, values in self._node_sets:
            values_in_turn = cycle(values or [""])
            for number in (next(numbers) for _ in range(size)):
                value = next(values_in_turn)
                yield shapes.node(f"bench-{number:05d}", shape, {key: value} if key else None)

    def initial_pods(self) -> Iterator[Manifest]:
        """Return the pods that are there before: evenly on the nodes, but for those meant to be pending."""
        names = cycle(self._node_names())
        for part, one in enumerate(self._initial):
            for number in range(one.count):
                yield shapes.pod(
                    f"initial-{part}-{number:06d}",
                    one.shape,
                    one.namespace,
                    node_name="" if one.pending else next(names),
                )

    # What is measured

    @property
    def measured_namespace(self) -> str:
        """Return the namespace of the measured pods, by the name that the case has for it."""
        assert self._measured is not None
        return self._measured.namespace

    def measured_pods(self) -> Iterator[Manifest]:
        """Return the measured pods; members of a gang follow each other, after the object that stands for the gang."""
        assert self._measured is not None
        pods, gangs = self._measured, self.gangs
        for number in range(pods.count):
            gang = number // self.gang_size if self.gang_size else 0
            if gangs is not None and number % self.gang_size == 0:
                queue = f"bench-{gang % self.queue_count}" if self.queue_count else ""
                size = min(self.gang_size, pods.count - number)
                yield gangs.group(gang, pods.namespace, size, queue=queue)
            pod = shapes.pod(f"{MEASURED}{number:06d}", pods.shape, pods.namespace, kind=number % self.kinds)
            if gangs is not None:
                gangs.join(pod, gang)
            yield pod

    def _node_names(self) -> list[str]:
        """Return the nodes where initial pods may lie: without a taint."""
        names, number = [], 0
        for size, shape, _, _ in self._node_sets:
            fields = cases.shapes()[shape]
            if not fields.get("taints"):
                names += [fields.get("fixed_name", f"bench-{one:05d}") for one in range(number, number + size)]
            number += size
        return names

    def _shapes(self) -> set[str]:
        pods = [*self._initial, *([self._measured] if self._measured else [])]
        return {one.shape for one in pods} | {shape for churn in self.churns for shape in churn.shapes}

    # Reading operations

    def read(self, params: Mapping[str, int], *, measured: int | None) -> None:
        """Take in the operations of the case."""
        for number, op in enumerate(self.case.ops):
            size = op.get("count") or params.get(str(op.get("countParam", "")).removeprefix("$"), 1)
            match op["op"]:
                case "createNodes":
                    labels = op.get("labelNodePrepareStrategy", {})
                    shape = op.get("node_shape", "node-default")
                    self._node_sets.append((size, shape, labels.get("labelKey", ""), labels.get("labelValues", ())))
                case "createNamespaces":
                    own = cases.shapes()[op["namespace_shape"]]["labels"] if "namespace_shape" in op else {}
                    self._namespaces += [(f"{op['prefix']}-{each}", own) for each in range(size)]
                case "createAny":
                    self._services.append(op["namespace"])
                case "createPodSets":
                    inner = op["createPodsOp"]
                    each = params[inner["countParam"].removeprefix("$")]
                    for place in range(size):
                        self._initial.append(self._pods(inner, each, f"{op['namespacePrefix']}-{place}"))
                case "createPods":
                    made = self._pods(op, size, op.get("namespace", f"namespace-{number}"))
                    if not op.get("collectMetrics"):
                        self._initial.append(made)
                    else:
                        self._measured = attrs.evolve(made, count=measured or size)
                        self.measured_count = self._measured.count
                        self.gang_size = params.get(str(op.get("gangSizeParam", "")).removeprefix("$"), 0)
                        self.queue_count = params.get(str(op.get("queuesParam", "")).removeprefix("$"), 0)
                case "churn":
                    self.churns.append(
                        Churn(
                            shapes=op["shapes"],
                            interval_seconds=op["intervalMilliseconds"] / 1000,
                            recreate=op["mode"] == "recreate",
                            namespace=f"namespace-{number}",
                        )
                    )
                case "deletePods":
                    self.deletions.append(Deletions(namespace=op["namespace"], per_second=op["deletePodsPerSecond"]))
                case "barrier":
                    pass  # pods that are to be tried before are older, and so are tried first

    def _pods(self, op: Mapping[str, Any], size: int, namespace: str) -> _Pods:
        shape = op.get("pod_shape", self.case.default_pod_shape)
        return _Pods(count=size, shape=shape, namespace=namespace, pending=bool(op.get("skipWaitToCompletion")))


def make_plan(name: str, nodes: int, *, distinct: bool, measured: int | None = None) -> Plan:
    """Return the plan of a case; `measured` pods instead of as many as the workload has."""
    case = cases.case(name)
    workload = case.workload(nodes)
    plan = Plan(case=case, nodes=nodes, threshold=workload.threshold, kinds=shapes.DISTINCT if distinct else 1)
    plan.read(workload.params, measured=measured)
    return plan
