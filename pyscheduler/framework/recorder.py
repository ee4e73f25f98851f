"""`Recorder`: the interface through which the scheduler records its own metrics; `telemetry` exports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.plugin_metrics import HistogramValue

__all__ = ["MetricRecorder", "NullRecorder", "Recorder", "scheduler_recorder"]


class MetricRecorder(Protocol):
    """The part of the recorder that is of use to any plugin: warnings, and series that are read when scraped."""

    def warning(self, kind: str) -> None:
        """Count something that was wrong at run time and was passed over. pyscheduler_warnings_total."""
        return

    def gauge(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]], *, description: str = ""
    ) -> None:
        """Register a gauge that is read when scraped: label pairs to value. Costs nothing in between."""
        return

    def counter(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]], *, description: str = ""
    ) -> None:
        """Register a count that is kept elsewhere and never falls; read when scraped, as a gauge is."""
        return

    def histogram(
        self,
        name: str,
        read: Callable[[], Mapping[tuple[tuple[str, str], ...], HistogramValue]],
        *,
        description: str = "",
    ) -> None:
        """Register a histogram that is kept elsewhere; read when scraped, as a gauge is."""
        return


class Recorder(MetricRecorder, Protocol):
    """The sink of measurements. Calls must be cheap: they happen several times per pod.

    Classes that inherit from it record only what they override.
    """

    def count(self, family: str, *labels: str) -> None:
        """Count one occurrence; `labels` are the values of the family's labels, in the order of `/metrics`."""
        return

    def observe(self, family: str, value: float, *labels: str) -> None:
        """Record a value of a histogram, for the same `labels`."""
        return


class NullRecorder(Recorder):
    """Record nothing."""

    def __init__(self) -> None:
        # A class that inherits its constructor from a Protocol has another signature once it was called.
        super().__init__()


def scheduler_recorder(handle: Handle) -> Recorder:
    """Return the recorder of a handle with the metrics of kube-scheduler, which other plugins do not feed."""
    return cast("Recorder", handle.recorder)
