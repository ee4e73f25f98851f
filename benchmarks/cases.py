"""Read the benchmark cases: kube-scheduler's (`upstream.json`) and this project's (`own.json`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

__all__ = ["Case", "Workload", "all_cases", "case", "shapes"]

_HERE: Final = Path(__file__).parent
#: Parameters that count something inside what another counts; scaling both would square.
_INNER: Final = frozenset({"initPodsPerNamespace", "gangSize", "queues"})


class Workload(msgspec.Struct, frozen=True):
    """The counts of a case on a cluster of so many nodes; upstream wants `threshold` pods/s on average at least."""

    name: str
    nodes: int
    params: dict[str, int]
    threshold: float | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark case: the objects at the beginning, and the measurements."""

    name: str
    ops: list[dict[str, Any]]
    workloads: list[Workload]
    default_pod_shape: str = "pod-default"
    #: One of `schedulers.CONFIGURATIONS`.
    configuration: str = "default"

    @property
    def has_one_size(self) -> bool:
        """Return whether the case brings its only node along."""
        return self.workloads[0].nodes == 1

    def workload(self, nodes: int) -> Workload:
        """Return the counts for a cluster of so many nodes; where the case has one node, of so many thousandths."""
        for known in self.workloads:
            if known.nodes == nodes:
                return known
        nearest = min(self.workloads, key=lambda known: abs(known.nodes - nodes))
        share = nodes / nearest.nodes if not self.has_one_size else nodes / 1000
        params = {
            name: count if name in _INNER else max(1, round(count * share)) for name, count in nearest.params.items()
        }
        return Workload(name=f"{nodes}Nodes", nodes=nodes, params=params)


class _File(msgspec.Struct, frozen=True):
    kubernetes_version: str
    shapes: dict[str, dict[str, Any]]
    cases: list[Case]


@cache
def _files() -> tuple[_File, ...]:
    return tuple(msgspec.json.decode((_HERE / name).read_bytes(), type=_File) for name in ("upstream.json", "own.json"))


def all_cases() -> dict[str, Case]:
    """Return the cases by name, upstream's first."""
    return {one.name: one for file in _files() for one in file.cases}


def case(name: str) -> Case:
    """Return a case; `KeyError` where there is none of that name."""
    return all_cases()[name]


def shapes() -> dict[str, dict[str, Any]]:
    """Return the fields of the objects that the cases name."""
    return {name: shape for file in _files() for name, shape in file.shapes.items()}
