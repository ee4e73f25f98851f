"""The sizes `baseline` and `large-scale` of Kueue's scalability test, and the results that Kueue's CI measured.

Source: Kueue `test/performance/scheduler/configs`, files `generator.yaml` and `rangespec.yaml`. The results are
averages, measured on 6 CPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SHAPES", "SHORT", "Shape", "WorkloadClass"]


@attrs.frozen(kw_only=True)
class WorkloadClass:
    """Workloads of one kind in each queue. `cpu`: cores of one pod."""

    name: str
    count: int
    interval_seconds: float
    run_seconds: float
    priority: int
    cpu: int


@attrs.frozen(kw_only=True)
class Shape:
    """A shape of the generator. Quotas are in cores; `kueue`: Kueue's figures, by the names that they have here."""

    cohorts: int
    queues: int
    classes: tuple[WorkloadClass, ...]
    kueue: Mapping[str, float]
    quota: int = 20
    borrowing: int = 100

    @property
    def workloads(self) -> int:
        """Return how many workloads there are in all."""
        return self.cohorts * self.queues * sum(each.count for each in self.classes)

    @property
    def told(self) -> str:
        """Return the size, and what Kueue reaches, in words."""
        figures = [f"{self.kueue[f'admission_{each.name}_seconds']:g}" for each in reversed(self.classes)]
        return (
            f"{self.cohorts * self.queues:,} queues, {self.workloads:,} workloads "
            f"(Kueue: mean admission {'/'.join(figures)} s, usage {self.kueue['usage']:.1%})"
        )

    @property
    def targets(self) -> Mapping[str, str]:
        """Return half of Kueue's mean admission times, and more than its usage."""
        halves = {name: f"<= {value / 2:g} s" for name, value in self.kueue.items() if name.startswith("admission_")}
        return {**halves, "usage": f">= {self.kueue['usage'] * 100:g} %"}


def _classes(small: tuple[int, int, int], medium: tuple[int, int, int], large: tuple[int, int, int]) -> Any:
    """Return the three classes; of each the count, the interval and the run time, in milliseconds."""
    rows = (("small", small, 50, 1), ("medium", medium, 100, 5), ("large", large, 200, 20))
    return tuple(
        WorkloadClass(
            name=name,
            count=count,
            interval_seconds=interval / 1000,
            run_seconds=run / 1000,
            priority=priority,
            cpu=cpu,
        )
        for name, (count, interval, run), priority, cpu in rows
    )


def _kueue(large: float, medium: float, small: float, usage: float, seconds: float) -> Mapping[str, float]:
    admission = {"admission_large_seconds": large, "admission_medium_seconds": medium, "admission_small_seconds": small}
    return {**admission, "usage": usage, "seconds": seconds}


SHAPES: Final[Mapping[str, Shape]] = {
    "cohorts": Shape(
        cohorts=5,
        queues=6,
        classes=_classes((350, 100, 200), (100, 500, 500), (50, 1200, 1000)),
        kueue=_kueue(16.5, 76.8, 215.0, 0.559, 351.0),
    ),
    "cohorts-large": Shape(
        cohorts=10,
        queues=100,
        classes=_classes((35, 60, 150), (11, 300, 350), (4, 700, 700)),
        kueue=_kueue(105.6, 256.4, 700.4, 0.386, 1179.0),
    ),
}
"""By name: the generator's `baseline` and `large-scale`."""

SHORT: Final = Shape(
    cohorts=2, queues=2, classes=_classes((10, 20, 50), (4, 50, 100), (2, 100, 200)), kueue={"usage": 0.0}
)
