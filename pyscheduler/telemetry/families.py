"""kube-scheduler's metric families: names, labels, stability, help and buckets, as its `/metrics` page shows them.

This module is a table; `metrics` records the values.
Sources: kube-scheduler 1.36, `pkg/scheduler/metrics`; k8s.io/component-base; k8s.io/apiserver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BUILD_LABELS", "CONTENT_TYPE", "FAMILIES", "RECORDED", "Family"]

#: Content type of pages for Prometheus. Scrapers before Prometheus 3.0 do not understand a newer version of the format.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


@attrs.frozen
class Family:
    """One family. `bounds`: upper bounds of a histogram's buckets, inclusive, without +Inf; empty for other kinds."""

    name: str
    kind: str
    labels: tuple[str, ...]
    stability: str
    help: str
    bounds: tuple[float, ...] = ()

    @property
    def description(self) -> str:
        """Return the HELP text, with the stability before it as in kube-scheduler; our families have none."""
        return f"[{self.stability}] {self.help}" if self.stability else self.help


def _exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` bounds, each `factor` times the previous one, computed as Prometheus' client does."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)


_MILLISECONDS: Final = _exponential(0.001, 2, 15)
_POINT: Final = _exponential(0.0001, 2, 12)
_PLUGIN: Final = _exponential(0.00001, 1.5, 20)
_LONG: Final = _exponential(0.01, 2, 20)
_REQUEST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES: Final = (64.0, 256.0, 512.0, 1024.0, *_exponential(4096.0, 4, 7))
#: From ten minutes to four years.
_AGE: Final = (600.0, 1800.0, 3600.0, 14400.0, 86400.0, 604800.0, 2592000.0, 7776000.0, 15552000.0, 31104000.0,
               124416000.0)  # fmt: skip

#: The default bounds of Prometheus' clients.
_COMMON: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_REVIEW: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
#: From zero to a year.
_REMAINING: Final = (0.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0, 86400.0, 172800.0, 345600.0, 604800.0, 2592000.0,
                     7776000.0, 15552000.0, 31104000.0)  # fmt: skip

#: The labels of `kubernetes_build_info`.
BUILD_LABELS: Final = (
    "major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform",
)  # fmt: skip

_SCHEDULER: Final = (
    Family(
        "scheduler_schedule_attempts_total", "counter", ("result", "profile"), "STABLE",
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, "
        "while 'error' means an internal scheduler problem.",
    ),
    Family(
        "scheduler_scheduling_attempt_duration_seconds", "histogram", ("result", "profile"), "STABLE",
        "Scheduling attempt latency in seconds (scheduling algorithm + binding)", _MILLISECONDS,
    ),
    Family(
        "scheduler_scheduling_algorithm_duration_seconds", "histogram", (), "ALPHA",
        "Scheduling algorithm latency in seconds", _MILLISECONDS,
    ),
    Family(
        "scheduler_event_handling_duration_seconds", "histogram", ("event",), "ALPHA",
        "Event handling latency in seconds.", _POINT,
    ),
    Family(
        "scheduler_preemption_victims", "histogram", (), "STABLE",
        "Number of selected preemption victims", _exponential(1, 2, 7),
    ),
    Family(
        "scheduler_preemption_attempts_total", "counter", (), "STABLE",
        "Total preemption attempts in the cluster till now",
    ),
    Family(
        "scheduler_preemption_goroutines_duration_seconds", "histogram", ("result",), "ALPHA",
        "Duration in seconds for running goroutines for the preemption.", _LONG,
    ),
    Family(
        "scheduler_preemption_goroutines_execution_total", "counter", ("result",), "ALPHA",
        "Number of preemption goroutines executed.",
    ),
    Family(
        "scheduler_podgroup_schedule_attempts_total", "counter", ("result", "profile"), "ALPHA",
        "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be "
        "scheduled, while 'error' means an internal scheduler problem.",
    ),
    Family(
        "scheduler_podgroup_scheduling_attempt_duration_seconds", "histogram", ("result", "profile"), "ALPHA",
        "Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)", _MILLISECONDS,
    ),
    Family(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds", "histogram", (), "ALPHA",
        "Pod group scheduling algorithm latency in seconds", _MILLISECONDS,
    ),
    Family(
        "scheduler_volume_scheduling_stage_error_total", "counter", ("operation",), "ALPHA",
        "Volume scheduling stage error count",
    ),
    Family(
        "scheduler_dra_bindingconditions_allocations_total", "counter", ("profile", "driver", "status"), "ALPHA",
        "Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
    ),
    Family(
        "scheduler_dra_bindingconditions_wait_duration_seconds", "histogram", ("profile", "driver", "status"), "ALPHA",
        "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
        _exponential(0.1, 2, 14),
    ),
    Family(
        "scheduler_resourceclaim_creates_total", "counter", ("status",), "ALPHA",
        "Number of ResourceClaims creation requests within scheduler",
    ),
    Family(
        "scheduler_batch_attempts_total", "counter", ("profile", "result"), "ALPHA",
        "Counts of results when we attempt to use batching.",
    ),
    Family(
        "scheduler_batch_cache_flushed_total", "counter", ("profile", "reason"), "ALPHA",
        "Counts of cache flushes by reason.",
    ),
    Family(
        "scheduler_get_node_hint_duration_seconds", "histogram", ("hinted", "profile"), "ALPHA",
        "Latency for getting a node hint.",
        _exponential(0.00001, 2, 12),
    ),
    Family(
        "scheduler_store_schedule_results_duration_seconds", "histogram", ("profile",), "ALPHA",
        "Latency for getting a no.",
        _exponential(0.00001, 2, 12),
    ),
    Family(
        "scheduler_pending_pods", "gauge", ("queue",), "STABLE",
        "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number "
        "of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted "
        "to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to "
        "schedule because they are gated.",
    ),
    Family(
        "scheduler_inflight_events", "gauge", ("event",), "ALPHA",
        "Number of events currently tracked in the scheduling queue.",
    ),
    Family(
        "scheduler_goroutines", "gauge", ("operation",), "BETA",
        "Number of running goroutines split by the work they do such as binding.",
    ),
    Family(
        "scheduler_pod_scheduling_sli_duration_seconds", "histogram", ("attempts",), "BETA",
        "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve "
        "multiple scheduling attempts.", _LONG,
    ),
    Family(
        "scheduler_pod_scheduling_attempts", "histogram", (), "STABLE",
        "Number of attempts to successfully schedule a pod.", _exponential(1, 2, 5),
    ),
    Family(
        "scheduler_pod_scheduled_after_flush_total", "counter", (), "ALPHA",
        "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to timeout. "
        "This metric helps detect potential queueing hint misconfigurations or event handling issues.",
    ),
    Family(
        "scheduler_framework_extension_point_duration_seconds", "histogram",
        ("extension_point", "status", "profile"), "STABLE",
        "Latency for running all plugins of a specific extension point.", _POINT,
    ),
    Family(
        "scheduler_plugin_execution_duration_seconds", "histogram", ("plugin", "extension_point", "status"), "ALPHA",
        "Duration for running a plugin at a specific extension point.", _PLUGIN,
    ),
    Family(
        "scheduler_queueing_hint_execution_duration_seconds", "histogram", ("plugin", "event", "hint"), "ALPHA",
        "Duration for running a queueing hint function of a plugin.", _PLUGIN,
    ),
    Family(
        "scheduler_queue_incoming_pods_total", "counter", ("queue", "event"), "STABLE",
        "Number of pods added to scheduling queues by event and queue type.",
    ),
    Family(
        "scheduler_permit_wait_duration_seconds", "histogram", ("result",), "BETA",
        "Duration of waiting on permit.", _MILLISECONDS,
    ),
    Family(
        "scheduler_cache_size", "gauge", ("type",), "ALPHA",
        "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
    ),
    Family(
        "scheduler_unschedulable_pods", "gauge", ("plugin", "profile"), "BETA",
        "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins "
        "that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
    ),
    Family(
        "scheduler_plugin_evaluation_total", "counter", ("plugin", "extension_point", "profile"), "BETA",
        "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, "
        "Filter, PreScore, and Score).",
    ),
)  # fmt: skip

_CLIENT: Final = (
    Family(
        "rest_client_request_duration_seconds", "histogram", ("verb", "host"), "ALPHA",
        "Request latency in seconds. Broken down by verb, and host.", _REQUEST,
    ),
    Family(
        "rest_client_rate_limiter_duration_seconds", "histogram", ("verb", "host"), "ALPHA",
        "Client side rate limiter latency in seconds. Broken down by verb, and host.", _REQUEST,
    ),
    Family(
        "rest_client_request_size_bytes", "histogram", ("verb", "host"), "ALPHA",
        "Request size in bytes. Broken down by verb and host.", _BYTES,
    ),
    Family(
        "rest_client_response_size_bytes", "histogram", ("verb", "host"), "ALPHA",
        "Response size in bytes. Broken down by verb and host.", _BYTES,
    ),
    Family(
        "rest_client_requests_total", "counter", ("code", "method", "host"), "ALPHA",
        "Number of HTTP requests, partitioned by status code, method, and host.",
    ),
    Family(
        "rest_client_request_retries_total", "counter", ("code", "verb", "host"), "ALPHA",
        "Number of request retries, partitioned by status code, verb, and host.",
    ),
    Family(
        "rest_client_exec_plugin_ttl_seconds", "gauge", (), "ALPHA",
        "Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The "
        "value is in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused "
        "or manage no TLS certificates, the value will be +INF.",
    ),
    Family(
        "rest_client_exec_plugin_certificate_rotation_age", "histogram", (), "ALPHA",
        "Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. "
        "If auth exec plugin client certificates are unused, histogram will contain no data.", _AGE,
    ),
    Family(
        "rest_client_transport_cache_entries", "gauge", (), "ALPHA",
        "Number of transport entries in the internal cache.",
    ),
    Family(
        "rest_client_transport_create_calls_total", "counter", ("result",), "ALPHA",
        "Number of calls to get a new transport, partitioned by the result of the operation hit: obtained from the "
        "cache, miss: created and added to the cache, miss-gc: recreated and added back to the cache after being "
        "garbage collected, uncacheable: created and not cached",
    ),
    Family(
        "rest_client_transport_cert_rotation_gc_calls_total", "counter", (), "ALPHA",
        "Number of times a cert rotation goroutine cancel func is called via GC cleanup of the associated transport",
    ),
    Family(
        "leader_election_master_status", "gauge", ("name",), "ALPHA",
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. "
        "'name' is the string used to identify the lease. Please make sure to group by name.",
    ),
)  # fmt: skip

_AUTHENTICATION: Final = (
    Family(
        "authenticated_user_requests", "counter", ("username",), "ALPHA",
        "Counter of authenticated requests broken out by username.",
    ),
    Family("authentication_attempts", "counter", ("result",), "ALPHA", "Counter of authenticated attempts."),
    Family(
        "authentication_duration_seconds", "histogram", ("result",), "ALPHA",
        "Authentication duration in seconds broken out by result.", _MILLISECONDS,
    ),
    Family("authentication_token_cache_active_fetch_count", "gauge", ("status",), "ALPHA", ""),
    Family("authentication_token_cache_fetch_total", "counter", ("status",), "ALPHA", ""),
    Family(
        "authentication_token_cache_request_duration_seconds", "histogram", ("status",), "ALPHA", "", _COMMON,
    ),
    Family("authentication_token_cache_request_total", "counter", ("status",), "ALPHA", ""),
    Family(
        "authorization_attempts_total", "counter", ("result",), "ALPHA",
        "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' "
        "or 'error'.",
    ),
    Family(
        "authorization_duration_seconds", "histogram", ("result",), "ALPHA",
        "Authorization duration in seconds broken out by result.", _MILLISECONDS,
    ),
    Family(
        "apiserver_client_certificate_expiration_seconds", "histogram", (), "ALPHA",
        "Distribution of the remaining lifetime on the certificate used to authenticate a request.", _REMAINING,
    ),
    *(
        family
        for kind in ("authn", "authz")
        for family in (
            Family(
                f"apiserver_delegated_{kind}_request_duration_seconds", "histogram", ("code",), "ALPHA",
                "Request latency in seconds. Broken down by status code.", _REVIEW,
            ),
            Family(
                f"apiserver_delegated_{kind}_request_total", "counter", ("code",), "ALPHA",
                "Number of HTTP requests partitioned by status code.",
            ),
        )
    ),
)  # fmt: skip

_COMPONENT: Final = (
    Family(
        "kubernetes_build_info", "gauge", BUILD_LABELS, "BETA",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build "
        "date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    ),
    Family(
        "version_info", "gauge", ("component", "binary", "emulation", "min_compat"), "ALPHA",
        "Provides the compatibility version info of the component. The component label is the name of the component, "
        "usually kube, but is relevant for aggregated-apiservers.",
    ),
    Family(
        "registered_metrics_total", "counter", ("stability_level", "deprecated_version"), "BETA",
        "The count of registered metrics broken by stability level and deprecation version.",
    ),
    Family("disabled_metrics_total", "counter", (), "BETA", "The count of disabled metrics."),
    Family("hidden_metrics_total", "counter", (), "BETA", "The count of hidden metrics."),
    Family(
        "kubernetes_feature_enabled", "gauge", ("name", "stage"), "BETA",
        "This metric records the data about the stage and enablement of a k8s feature.",
    ),
)  # fmt: skip

_OURS: Final = (
    Family(
        "pyscheduler_queue_wait_duration_seconds", "histogram", (), "",
        "Time a pod spent in the scheduling queue before it was popped.", _LONG,
    ),
    Family(
        "pyscheduler_request_window", "gauge", (), "",
        "Requests to the API server that may be in flight at once.",
    ),
    Family(
        "pyscheduler_client_requests", "gauge", ("state",), "",
        "Requests to the API server that are in flight, or wait for their turn.",
    ),
    Family(
        "pyscheduler_request_window_cuts_total", "counter", ("reason",), "",
        "How often fewer requests were let in flight, by what the API server had answered.",
    ),
    Family(
        "pyscheduler_oldest_pending_seconds", "gauge", ("profile", "queue", "reason"), "",
        "Time since the creation of the oldest pending pod, by the reason why it waits.",
    ),
    Family(
        "pyscheduler_stories_bytes", "gauge", (), "",
        "Memory of the stories of pods: why they wait, and how their wait ended.",
    ),
    Family(
        "pyscheduler_event_loop_longest_block_seconds", "gauge", (), "",
        "Longest time for which the event loop was blocked within the last minute or two.",
    ),
    Family(
        "pyscheduler_plugin_failures_total", "counter", ("plugin", "extension_point"), "",
        "Exceptions of plugins, and answers of a wrong type.",
    ),
    Family(
        "pyscheduler_plugin_run_restarts_total", "counter", ("plugin", "profile"), "",
        "Restarts of the background task of a plugin after an exception.",
    ),
    Family(
        "pyscheduler_kubelet_rejections_total", "counter", ("reason", "other_scheduler"), "",
        "Pods that were bound and that the kubelet of their node refused to run, by its reason. 'other_scheduler' says "
        "whether another scheduler bound a pod to the node after the refused pod was created.",
    ),
    Family(
        "pyscheduler_watch_broken_seconds", "gauge", ("resource",), "",
        "Time for which no watch of the kind has been open; 0 while one is.",
    ),
    Family(
        "pyscheduler_config_stale", "gauge", (), "",
        "1 if the configuration file cannot be used, or has a change that needs a restart.",
    ),
    Family(
        "pyscheduler_memory_limit_bytes", "gauge", (), "",
        "Memory that the process may use: the limit of its cgroup, or the memory of the machine.",
    ),
    Family(
        "pyscheduler_warnings_total", "counter", ("kind",), "",
        "Things that were wrong at run time and were passed over, by kind.",
    ),
)  # fmt: skip

#: Every family that is recorded, by name.
FAMILIES: Final[Mapping[str, Family]] = {
    family.name: family for family in (*_SCHEDULER, *_CLIENT, *_AUTHENTICATION, *_COMPONENT, *_OURS)
}

#: Counters that are kept elsewhere, and the family that kube-scheduler shows only once groups are enabled.
_LATER: Final = frozenset(
    {
        "scheduler_plugin_evaluation_total",
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "rest_client_transport_create_calls_total",
        "rest_client_transport_cert_rotation_gc_calls_total",
        "pyscheduler_request_window_cuts_total",
        "pyscheduler_plugin_failures_total",
        "pyscheduler_plugin_run_restarts_total",
        "pyscheduler_kubelet_rejections_total",
    }
)
#: The counters and histograms that the page shows from the beginning.
RECORDED: Final = tuple(
    family.name for family in (*_SCHEDULER, *_CLIENT, *_OURS) if family.kind != "gauge" and family.name not in _LATER
)
