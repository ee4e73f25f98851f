"""`Recorder`: the interface through which the scheduler records its own metrics; `telemetry` exports them.

Names and labels of the metrics are kube-scheduler's. Times are seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.framework.plugin_metrics import HistogramValue

__all__ = ["NullRecorder", "Recorder"]


class Recorder(Protocol):
    """The sink of measurements. Calls must be cheap: they happen several times per pod.

    Classes that inherit from it record only what they override.
    """

    def attempt(self, *, result: str, profile: str, seconds: float) -> None:
        """Count a finished attempt (`scheduled`, `unschedulable`, `error`) and its time from pop to verdict.

        scheduler_schedule_attempts_total, scheduler_scheduling_attempt_duration_seconds.
        """
        return

    def pod_scheduled(self, *, attempts: int, sli_seconds: float) -> None:
        """Note a bound pod: its attempts, and the time since it was first tried.

        scheduler_pod_scheduling_attempts, scheduler_pod_scheduling_sli_duration_seconds.
        """
        return

    def queue_wait(self, seconds: float) -> None:
        """Note how long a pod was in the queue before it was popped. pyscheduler_queue_wait_duration_seconds."""
        return

    def algorithm(self, seconds: float) -> None:
        """Note the time of filtering and scoring. scheduler_scheduling_algorithm_duration_seconds."""
        return

    def extension_point(self, point: str, *, status: str, profile: str, seconds: float) -> None:
        """Note one run of an extension point, all plugins. scheduler_framework_extension_point_duration_seconds."""
        return

    def plugin(self, plugin: str, point: str, *, status: str, seconds: float) -> None:
        """Note one plugin's run in a sampled cycle. scheduler_plugin_execution_duration_seconds."""
        return

    def permit_wait(self, *, result: str, seconds: float) -> None:
        """Note how long a pod waited at Permit. scheduler_permit_wait_duration_seconds."""
        return

    def incoming_pod(self, *, queue: str, event: str) -> None:
        """Count a pod that entered `active`, `backoff`, `unschedulable` or `held`.

        scheduler_queue_incoming_pods_total.
        """
        return

    def event_handling(self, event: str, *, seconds: float) -> None:
        """Note the time to handle one cluster event. scheduler_event_handling_duration_seconds."""
        return

    def queueing_hint(self, *, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Note one hint call. scheduler_queueing_hint_execution_duration_seconds."""
        return

    def scheduled_after_flush(self) -> None:
        """Count a bound pod that was tried again only because its time among the unschedulable pods was up.

        scheduler_pod_scheduled_after_flush_total.
        """
        return

    def preemption_attempt(self) -> None:
        """Count a run of the preemption plugin, whatever came of it. scheduler_preemption_attempts_total."""
        return

    def preemption_victims(self, count: int) -> None:
        """Note how many victims a preemption chose. scheduler_preemption_victims."""
        return

    def preemption_run(self, *, result: str, seconds: float) -> None:
        """Note an eviction of victims in the background, `success` or `error`, and how long it took.

        scheduler_preemption_goroutines_duration_seconds, scheduler_preemption_goroutines_execution_total.
        """
        return

    def group_algorithm(self, seconds: float) -> None:
        """Note the time to decide about a group of pods. scheduler_podgroup_scheduling_algorithm_duration_seconds."""
        return

    def group_attempt(self, *, result: str, profile: str, seconds: float) -> None:
        """Count a group cycle, `scheduled`, `unschedulable`, `waiting_on_preemption` or `error`, and its time.

        scheduler_podgroup_schedule_attempts_total, scheduler_podgroup_scheduling_attempt_duration_seconds.
        """
        return

    def volume_stage_failed(self, operation: str) -> None:
        """Count an error with a pod's volumes while nodes were judged (`predicate`), at Reserve (`assume`) or `bind`.

        scheduler_volume_scheduling_stage_error_total.
        """
        return

    def device_wait(self, *, profile: str, driver: str, status: str, seconds: float) -> None:
        """Note how long a pod waited for a device to get ready: `success`, `failure`, `timeout` or `error`.

        scheduler_dra_bindingconditions_wait_duration_seconds.
        """
        return

    def device_wait_ended(self, *, profile: str, driver: str, status: str) -> None:
        """Count a device with conditions that a pod waited for. scheduler_dra_bindingconditions_allocations_total."""
        return

    def claim_created(self, *, succeeded: bool) -> None:
        """Count a request to create a claim for extended resources. scheduler_resourceclaim_creates_total."""
        return

    def node_hint(self, *, profile: str, hinted: bool, seconds: float) -> None:
        """Note how long it took to find a node for a pod by what was found for the one before, with success or not.

        scheduler_get_node_hint_duration_seconds.
        """
        return

    def batch_attempt(self, *, profile: str, result: str) -> None:
        """Count `no_hint`, or what became of one: `hint_used`, `hint_not_used`. scheduler_batch_attempts_total."""
        return

    def batch_flushed(self, *, profile: str, reason: str) -> None:
        """Count a list of nodes that was of no use for the next pod. scheduler_batch_cache_flushed_total."""
        return

    def batch_stored(self, *, profile: str, seconds: float) -> None:
        """Note how long it took to store the list. scheduler_store_schedule_results_duration_seconds."""
        return

    def request(
        self, verb: str, host: str, *, code: str, seconds: float | None, sent: int | None, received: int | None
    ) -> None:
        """Note a request to the API server: its status (`<error>` where none came), its time and sizes in bytes.

        Each is None where it says nothing: a watch has no time and no size. rest_client_requests_total,
        rest_client_request_duration_seconds, rest_client_request_size_bytes, rest_client_response_size_bytes.
        """
        return

    def request_retried(self, verb: str, host: str, *, code: str) -> None:
        """Count a request that is sent once more after such an answer. rest_client_request_retries_total."""
        return

    def request_throttled(self, verb: str, host: str, *, seconds: float) -> None:
        """Note how long a request waited for its turn, 0 included. rest_client_rate_limiter_duration_seconds."""
        return

    def certificate_rotated(self, age_seconds: float) -> None:
        """Note how old a client certificate was when another took its place.

        rest_client_exec_plugin_certificate_rotation_age.
        """
        return

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


class NullRecorder(Recorder):
    """Record nothing."""

    def __init__(self) -> None:
        # A class that inherits its constructor from a Protocol has another signature once it was called.
        super().__init__()
