"""What the inner rooms tell the outside about themselves; implemented by `telemetry`, a no-op elsewhere.

The vocabulary is kube-scheduler's: each method feeds the metrics its docstring names. Times are seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["NullRecorder", "Recorder"]


class Recorder(Protocol):
    """The sink of measurements. Calls must be cheap: they happen several times per pod."""

    def attempt(self, *, result: str, profile: str, seconds: float) -> None:
        """Count a finished attempt (`scheduled`, `unschedulable`, `error`) and its time from pop to verdict.

        scheduler_schedule_attempts_total, scheduler_scheduling_attempt_duration_seconds.
        """
        ...

    def pod_scheduled(self, *, attempts: int, sli_seconds: float) -> None:
        """Note a bound pod: its attempts, and the time since it was first tried.

        scheduler_pod_scheduling_attempts, scheduler_pod_scheduling_sli_duration_seconds.
        """
        ...

    def queue_wait(self, seconds: float) -> None:
        """Note how long a pod was in the queue before it was popped. pyscheduler_queue_wait_duration_seconds."""
        ...

    def algorithm(self, seconds: float) -> None:
        """Note the time of filtering and scoring. scheduler_scheduling_algorithm_duration_seconds."""
        ...

    def extension_point(self, point: str, *, status: str, profile: str, seconds: float) -> None:
        """Note one run of an extension point, all plugins. scheduler_framework_extension_point_duration_seconds."""
        ...

    def plugin(self, plugin: str, point: str, *, status: str, seconds: float) -> None:
        """Note one plugin's run in a sampled cycle. scheduler_plugin_execution_duration_seconds."""
        ...

    def permit_wait(self, *, result: str, seconds: float) -> None:
        """Note how long a pod waited at Permit. scheduler_permit_wait_duration_seconds."""
        ...

    def incoming_pod(self, *, queue: str, event: str) -> None:
        """Count a pod that entered `active`, `backoff`, `unschedulable` or `gated`.

        scheduler_queue_incoming_pods_total.
        """
        ...

    def event_handling(self, event: str, *, seconds: float) -> None:
        """Note the time to handle one cluster event. scheduler_event_handling_duration_seconds."""
        ...

    def queueing_hint(self, *, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Note one hint call. scheduler_queueing_hint_execution_duration_seconds."""
        ...

    def warning(self, kind: str) -> None:
        """Count something that was wrong at run time and was passed over. pyscheduler_warnings_total."""
        ...

    def gauge(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]], *, description: str = ""
    ) -> None:
        """Register a gauge that is read when scraped: label pairs to value. Costs nothing in between."""
        ...


class NullRecorder:
    """Record nothing."""

    def attempt(self, *, result: str, profile: str, seconds: float) -> None:
        """Do nothing."""

    def pod_scheduled(self, *, attempts: int, sli_seconds: float) -> None:
        """Do nothing."""

    def queue_wait(self, seconds: float) -> None:
        """Do nothing."""

    def algorithm(self, seconds: float) -> None:
        """Do nothing."""

    def extension_point(self, point: str, *, status: str, profile: str, seconds: float) -> None:
        """Do nothing."""

    def plugin(self, plugin: str, point: str, *, status: str, seconds: float) -> None:
        """Do nothing."""

    def permit_wait(self, *, result: str, seconds: float) -> None:
        """Do nothing."""

    def incoming_pod(self, *, queue: str, event: str) -> None:
        """Do nothing."""

    def event_handling(self, event: str, *, seconds: float) -> None:
        """Do nothing."""

    def queueing_hint(self, *, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Do nothing."""

    def warning(self, kind: str) -> None:
        """Do nothing."""

    def gauge(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]], *, description: str = ""
    ) -> None:
        """Do nothing."""
