"""The scheduler dashboard and the recording rules of kubernetes-mixin: their expressions, with a selector of ours.

Facts, not copies: which metrics they read, with which labels. Source: kubernetes-mixin at aa38e2b (August 2026),
`dashboards/scheduler.libsonnet` and `rules/kube_scheduler.libsonnet`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["EXPRESSIONS", "SELECTOR", "WITHOUT_DATA"]

#: The `kubeSchedulerSelector` that the operating page recommends.
SELECTOR: Final = 'job="pyscheduler"'
_PANEL: Final = f'cluster="", {SELECTOR}, instance=~".+"'
_DURATIONS: Final = ("scheduling_attempt", "pod_scheduling_sli", "scheduling_algorithm")

#: The expressions by a readable name.
EXPRESSIONS: Final[Mapping[str, str]] = {
    "up": f'sum(up{{cluster="", {SELECTOR}}})',
    **{
        f"rate of {name}": (
            f"sum(rate(scheduler_{name}_duration_seconds_count{{{_PANEL}}}[2m])) by (cluster, instance)"
        )
        for name in (*_DURATIONS, "volume_scheduling")
    },
    **{
        f"99 % of {name}": (
            f"histogram_quantile(0.99, sum(rate(scheduler_{name}_duration_seconds_bucket{{{_PANEL}}}[2m])) "
            "by (cluster, instance, le))"
        )
        for name in (*_DURATIONS, "volume_scheduling")
    },
    **{
        f"requests {digit}xx": f'sum(rate(rest_client_requests_total{{{_PANEL},code=~"{digit}.."}}[2m]))'
        for digit in (2, 3, 4, 5)
    },
    **{
        f"duration of {verb}": (
            "histogram_quantile(0.99, sum(rate(rest_client_request_duration_seconds_bucket"
            f'{{{_PANEL}, verb="{verb}"}}[2m])) by (verb, le))'
        )
        for verb in ("POST", "GET")
    },
    "memory": f"process_resident_memory_bytes{{{_PANEL}}}",
    "CPU": f"rate(process_cpu_seconds_total{{{_PANEL}}}[2m])",
    "goroutines": f"go_goroutines{{{_PANEL}}}",
    **{
        f"recorded {name} {quantile}": (
            f"histogram_quantile({quantile}, sum(rate(scheduler_{name}_duration_seconds_bucket{{{SELECTOR}}}[5m])) "
            "without(instance, pod))"
        )
        for name in _DURATIONS
        for quantile in ("0.99", "0.9", "0.5")
    },
}
#: Expressions that stay empty, and why.
WITHOUT_DATA: Final[Mapping[str, str]] = {
    "rate of volume_scheduling": "kube-scheduler 1.36 does not have this metric either",
    "99 % of volume_scheduling": "kube-scheduler 1.36 does not have this metric either",
    "requests 3xx": "an API server redirects no request",
    "goroutines": "there are none",
}
