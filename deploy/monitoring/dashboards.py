"""The Grafana dashboards: lists of panels, from which the JSON files are written."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import attrs

from pyscheduler.telemetry.families import FAMILIES

__all__ = ["DASHBOARDS", "SELECTOR", "Dashboard", "Panel"]

#: The variables of a dashboard select job and instances.
SELECTOR: Final = 'job=~"$job",instance=~"$instance"'
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 8
_NAME: Final = re.compile(r"[a-z_]+(?=\{)")
_SUFFIX: Final = re.compile(r"_(bucket|count|sum)$")


@attrs.frozen
class Panel:
    """One panel. `lines` are pairs of expression and legend; `SEL` stands for the selector, `RATE` for its window."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    kind: str = "timeseries"

    def expressions(self) -> list[str]:
        """Return the expressions in PromQL, with Grafana's variables."""
        return [text.replace("SEL", SELECTOR).replace("RATE", "[$__rate_interval]") for text, _ in self.lines]

    @property
    def description(self) -> str:
        """The help texts of the metrics of the panel."""
        names = dict.fromkeys(_SUFFIX.sub("", name) for text, _ in self.lines for name in _NAME.findall(text))
        return "\n\n".join(f"{name}: {FAMILIES[name].help}" for name in names if name in FAMILIES)

    def model(self, number: int) -> dict[str, Any]:
        """Return the panel in Grafana's model, at its place in the grid."""
        row, column = divmod(number, _COLUMNS)
        return {
            "id": number + 1,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": _SOURCE,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": expr, "legendFormat": legend}
                for index, (expr, (_, legend)) in enumerate(zip(self.expressions(), self.lines, strict=True))
            ],
        }


@attrs.frozen
class Dashboard:
    """One dashboard; `name` is its file and its uid. `metric` is one that its jobs have."""

    name: str
    title: str
    metric: str
    panels: tuple[Panel, ...]

    def text(self) -> str:
        """Return the dashboard as JSON."""
        model = {
            "uid": self.name,
            "title": self.title,
            "tags": ["pyscheduler"],
            "schemaVersion": 39,
            "editable": False,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {
                "list": [
                    {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                    self._variable("job", f"label_values({self.metric}, job)", ".*pyscheduler.*"),
                    self._variable("instance", f'label_values({self.metric}{{job=~"$job"}}, instance)', ""),
                ]
            },
            "panels": [panel.model(number) for number, panel in enumerate(self.panels)],
        }
        return json.dumps(model, indent=2) + "\n"

    def _variable(self, name: str, query: str, pattern: str) -> dict[str, Any]:
        return {
            "name": name,
            "label": name,
            "type": "query",
            "datasource": _SOURCE,
            "definition": query,
            "query": {"query": query, "refId": name},
            "regex": pattern,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": pattern or ".+",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        }


def _rate(metric: str, by: str, more: str = "") -> tuple[str, str]:
    """Return the rate of a counter, summed by labels, and its legend."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return f"sum by ({by}) (rate({metric}{{SEL{more}}}RATE))", legend


def _quantiles(metric: str, legend: str = "", by: str = "") -> tuple[tuple[str, str], ...]:
    """Return the median and the 99th percentile of a histogram."""
    labels = f"le, {by}" if by else "le"
    return tuple(
        (f"histogram_quantile({part}, sum by ({labels}) (rate({metric}_bucket{{SEL}}RATE)))", f"{legend}{name}")
        for part, name in ((0.5, "median"), (0.99, "99 %"))
    )


def _mean(metric: str, by: str) -> tuple[str, str]:
    """Return the mean of a histogram by labels, and its legend."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    total, count = (f"sum by ({by}) (rate({metric}_{part}{{SEL}}RATE))" for part in ("sum", "count"))
    return f"{total} / {count}", legend


def _by(metric: str, by: str, more: str = "") -> tuple[str, str]:
    """Return the largest value of a gauge by labels over all replicas, and its legend."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return f"max by ({by}) ({metric}{{SEL{more}}})", legend


_ATTEMPT: Final = "scheduler_scheduling_attempt_duration_seconds"
_OLDEST: Final = Panel(
    "Oldest pending pod", "s", (_by("pyscheduler_oldest_pending_seconds", "profile, queue, reason"),)
)

_SCHEDULER: Final = Dashboard(
    "pyscheduler",
    "pyscheduler / Scheduler",
    "scheduler_pending_pods",
    (
        Panel(
            "Leaders by lease", "none", (("sum by (name) (leader_election_master_status{SEL})", "{{name}}"),), "stat"
        ),
        Panel("Pending pods", "none", (_by("scheduler_pending_pods", "queue"),)),
        _OLDEST,
        Panel("Unschedulable pods by plugin", "none", (_by("scheduler_unschedulable_pods", "plugin"),)),
        Panel("Attempts", "ops", (_rate("scheduler_schedule_attempts_total", "profile, result"),)),
        Panel("Pods that entered a queue", "ops", (_rate("scheduler_queue_incoming_pods_total", "queue, event"),)),
        Panel("From the queue to the binding", "s", _quantiles("scheduler_pod_scheduling_sli_duration_seconds")),
        Panel(
            "Duration of an attempt",
            "s",
            (
                *_quantiles(_ATTEMPT, "attempt "),
                *_quantiles("scheduler_scheduling_algorithm_duration_seconds", "algorithm "),
            ),
        ),
        Panel(
            "Extension points",
            "s",
            (_mean("scheduler_framework_extension_point_duration_seconds", "extension_point"),),
        ),
        Panel("Plugins", "s", (_mean("scheduler_plugin_execution_duration_seconds", "plugin, extension_point"),)),
        Panel("Failures of plugins", "ops", (_rate("pyscheduler_plugin_failures_total", "plugin, extension_point"),)),
        Panel(
            "Longest block of the event loop", "s", (_by("pyscheduler_event_loop_longest_block_seconds", "instance"),)
        ),
        Panel(
            "Bindings that failed",
            "ops",
            (
                _rate(
                    "scheduler_framework_extension_point_duration_seconds_count",
                    "extension_point, status",
                    ',extension_point=~"PreBind|Bind"',
                ),
            ),
        ),
        Panel(
            "Pods refused by kubelets",
            "ops",
            (_rate("pyscheduler_kubelet_rejections_total", "reason, other_scheduler"),),
        ),
        Panel("Time without a watch", "s", (_by("pyscheduler_watch_broken_seconds", "instance, resource"),)),
        Panel("Requests to the API server", "ops", (_rate("rest_client_requests_total", "code, method"),)),
        Panel("Duration of requests", "s", _quantiles("rest_client_request_duration_seconds", "{{verb}} ", "verb")),
        Panel(
            "Requests in flight and their limit",
            "none",
            (_by("pyscheduler_client_requests", "instance, state"), _by("pyscheduler_request_window", "instance")),
        ),
        Panel("Warnings", "ops", (_rate("pyscheduler_warnings_total", "kind"),)),
        Panel("Configuration is stale", "none", (_by("pyscheduler_config_stale", "instance"),), "stat"),
        Panel(
            "Memory",
            "bytes",
            (
                _by("process_resident_memory_bytes", "instance"),
                ("min by (instance) (pyscheduler_memory_limit_bytes{SEL})", "{{instance}} limit"),
                ("max by (instance) (pyscheduler_stories_bytes{SEL})", "{{instance}} stories"),
            ),
        ),
        Panel("CPU", "none", (_rate("process_cpu_seconds_total", "instance"),)),
        Panel("Preemptions", "ops", (("sum(rate(scheduler_preemption_attempts_total{SEL}RATE))", "attempts"),)),
    ),
)

_QUEUES: Final = Dashboard(
    "pyscheduler-queues",
    "pyscheduler / Queues",
    "pyscheduler_batch_waiting_jobs",
    (
        Panel("Waiting jobs", "none", (_by("pyscheduler_batch_waiting_jobs", "profile, reason"),)),
        _OLDEST,
        *(
            Panel(
                f"KAI: {resource}",
                unit,
                (
                    (f"max by (queue_name) (kai_queue_allocated_{held}{{SEL}})", "{{queue_name}} holds"),
                    (f"max by (queue_name) (kai_queue_{quota}{{SEL}})", "{{queue_name}} quota"),
                    (f"max by (queue_name) (kai_queue_fair_share_{share}{{SEL}})", "{{queue_name}} fair share"),
                ),
            )
            for resource, unit, held, quota, share in (
                ("GPUs", "none", "gpus", "deserved_gpus", "gpu"),
                ("CPU", "none", "cpu_cores", "quota_cpu_cores", "cpu_cores"),
            )
        ),
        *(
            Panel(
                f"Volcano: {resource}",
                unit,
                tuple(
                    (f"max by (queue_name) (volcano_queue_{kind}_{suffix}{{SEL}})", f"{{{{queue_name}}}} {text}")
                    for kind, text in (("allocated", "holds"), ("request", "requests"), ("deserved", "share"))
                ),
            )
            for resource, unit, suffix in (
                ("CPU (thousandths)", "none", "milli_cpu"),
                ("memory", "bytes", "memory_bytes"),
            )
        ),
        Panel(
            "Volcano: groups",
            "none",
            tuple(
                (f"max by (queue_name) (volcano_queue_pod_group_{phase}_count{{SEL}})", f"{{{{queue_name}}}} {phase}")
                for phase in ("pending", "inqueue", "running")
            ),
        ),
        Panel(
            "Evicted pods",
            "ops",
            tuple(
                _rate(f"{system}_pod_group_evicted_pods_total", "action") for system in ("kai", "volcano", "kube_batch")
            ),
        ),
    ),
)

DASHBOARDS: Final = (_SCHEDULER, _QUEUES)
