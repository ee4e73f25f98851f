"""The alert rules of Prometheus, as a table."""

from __future__ import annotations

import json
from string import Template
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["INTENDED", "JOB", "RULES", "RUNBOOKS", "Rule", "rules_text"]

#: Selects the metrics of pyscheduler, whatever the release is called.
JOB: Final = 'job=~".*pyscheduler.*"'
#: The page with the runbooks, within this repository; a site of your own has an address to put before it.
RUNBOOKS: Final = "docs/how-to/runbooks.md"
_PREFIX: Final = "Pyscheduler"


@attrs.frozen(kw_only=True)
class Rule:
    """One alert. `expression` may contain $job, $window and $limit; times are in seconds."""

    name: str
    expression: str
    severity: str
    summary: str
    description: str
    #: How long the expression must hold before the alert fires.
    hold: int
    #: Over how long rates and growth are computed.
    window: int = 0
    limit: float = 0.0

    @property
    def alert(self) -> str:
        """Name of the alert."""
        return f"{_PREFIX}{self.name}"

    @property
    def expr(self) -> str:
        """The expression in PromQL."""
        text = " ".join(self.expression.split())
        return Template(text).substitute(job=JOB, window=duration(self.window), limit=f"{self.limit:g}")

    @property
    def runbook(self) -> str:
        """Address of the section with what to do."""
        return f"{RUNBOOKS}#{self.alert.lower()}"


def duration(seconds: int) -> str:
    """Return a time as Prometheus writes it."""
    return f"{seconds // 60}m" if seconds and seconds % 60 == 0 else f"{seconds}s"


def _grown(metric: str, labels: str) -> str:
    """Return an expression for how much a counter has grown; a series that is new counts in full."""
    return (
        f"sum by ({labels}) (increase({metric}{{$job}}[$window])) > $limit "
        f"or sum by ({labels}) ({metric}{{$job}} unless {metric}{{$job}} offset $window) > $limit"
    )


#: Reasons for which somebody wants a pod to wait: a gate, and the limit or the quota of a batch queue or a namespace.
INTENDED: Final = (
    "SchedulingGated",
    "NonPreemptibleOverQuota",
    "OverLimit",
    "QueueClosed",
    "QueueLimit",
    "QueueOverused",
    "QueueQuota",
    "ResourceQuota",
    "WaitingForQuota",
)
_BINDS: Final = "scheduler_framework_extension_point_duration_seconds_count"
_PLUGIN: Final = "scheduler_plugin_execution_duration_seconds"
#: These points wait for the API server, for volumes or for devices.
_WAITS: Final = 'extension_point!~"PreBind|Bind|PostBind"'

RULES: Final = (
    Rule(
        name="NoLeader",
        expression="max by (job, name) (leader_election_master_status{$job}) == 0 or absent(up{$job} == 1)",
        severity="critical",
        hold=60,
        summary="No replica of pyscheduler leads.",
        description="No replica holds the lease, or no replica answers. No pod of its profiles is scheduled.",
    ),
    Rule(
        name="TwoLeaders",
        expression="sum by (job, name) (leader_election_master_status{$job}) > 1",
        severity="critical",
        hold=60,
        summary="Several replicas of pyscheduler hold the lease {{ $labels.name }}.",
        description="Several replicas schedule the same pods at the same time, and may give two pods the same room.",
    ),
    Rule(
        name="OldestPending",
        # Not by queue: a pod that is retried moves between the queues, and each move would begin `hold` again.
        expression=f"""max by (job, profile, reason)
            (pyscheduler_oldest_pending_seconds{{$job,reason!~"{"|".join(INTENDED)}"}}) > $limit""",
        severity="warning",
        hold=300,
        limit=1800,
        summary="A pod of the profile {{ $labels.profile }} waits for more than half an hour: {{ $labels.reason }}.",
        description="The oldest pod of the profile {{ $labels.profile }} with the reason {{ $labels.reason }} was "
        "created more than half an hour ago, and has no node.",
    ),
    Rule(
        name="QueueGrows",
        expression="""sum by (job, instance) (scheduler_pending_pods{$job,queue="active"})
            - sum by (job, instance) (scheduler_pending_pods{$job,queue="active"} offset $window) > $limit
            unless on (job, instance) leader_election_master_status{$job} == 0""",
        severity="warning",
        hold=600,
        window=900,
        limit=100,
        summary="The scheduling queue of {{ $labels.instance }} grows.",
        description="Pods arrive faster than {{ $labels.instance }} schedules them: activeQ has at least 100 pods more "
        "than a quarter of an hour ago.",
    ),
    Rule(
        name="PluginFails",
        expression=_grown("pyscheduler_plugin_failures_total", "job, plugin, extension_point"),
        severity="warning",
        hold=60,
        window=600,
        summary="The plugin {{ $labels.plugin }} fails at {{ $labels.extension_point }}.",
        description="The plugin {{ $labels.plugin }} raised an exception or returned a wrong answer at "
        "{{ $labels.extension_point }}. The pods concerned are retried, and not scheduled.",
    ),
    Rule(
        name="PluginSlow",
        expression=f"""sum by (job, plugin, extension_point) (rate({_PLUGIN}_sum{{$job,{_WAITS}}}[$window]))
            / sum by (job, plugin, extension_point) (rate({_PLUGIN}_count{{$job,{_WAITS}}}[$window])) > $limit""",
        severity="warning",
        hold=300,
        window=300,
        limit=0.1,
        summary="The plugin {{ $labels.plugin }} is slow at {{ $labels.extension_point }}.",
        description="One run of the plugin {{ $labels.plugin }} at {{ $labels.extension_point }} takes more than 0.1 s "
        "on average. No other pod is scheduled meanwhile.",
    ),
    Rule(
        name="LoopBlocked",
        expression="max by (job, instance) (pyscheduler_event_loop_longest_block_seconds{$job}) > $limit",
        severity="warning",
        hold=60,
        limit=1,
        summary="The event loop of {{ $labels.instance }} was blocked for more than a second.",
        description="A plugin computes or waits on the event loop. Probes fail after 5 s, the lease ends after 10 s.",
    ),
    Rule(
        name="BindingErrors",
        expression=f"""sum by (job, profile)
            (rate({_BINDS}{{$job,extension_point=~"PreBind|Bind",status!~"Success|Skip"}}[$window]))
            / sum by (job, profile) (rate({_BINDS}{{$job,extension_point=~"PreBind|Bind"}}[$window])) > $limit""",
        severity="warning",
        hold=300,
        window=600,
        limit=0.05,
        summary="Bindings of the profile {{ $labels.profile }} fail.",
        description="More than 5 % of the runs of PreBind and Bind fail. Their pods are retried after a backoff.",
    ),
    Rule(
        name="WatchBroken",
        expression="max by (job, instance, resource) (pyscheduler_watch_broken_seconds{$job}) > $limit",
        severity="critical",
        hold=60,
        limit=60,
        summary="{{ $labels.instance }} has no watch of {{ $labels.resource }}.",
        description="{{ $labels.instance }} does not see changes of {{ $labels.resource }}, and decides from old data.",
    ),
    Rule(
        name="KubeletRejects",
        expression=_grown("pyscheduler_kubelet_rejections_total", "job, reason, other_scheduler"),
        severity="warning",
        hold=60,
        window=900,
        summary="Kubelets refuse bound pods: {{ $labels.reason }}.",
        description="Kubelets refused pods that pyscheduler had bound, with the reason {{ $labels.reason }}. Another "
        "scheduler bound pods to the same node meanwhile: {{ $labels.other_scheduler }}.",
    ),
    Rule(
        name="QueueStarves",
        expression=" or ".join(
            f"max by (job, queue_name) ({held}{{$job}}) < $limit * max by (job, queue_name) ({share}{{$job}})"
            for held, share in (
                ("kai_queue_allocated_gpus", "kai_queue_fair_share_gpu"),
                ("kai_queue_allocated_cpu_cores", "kai_queue_fair_share_cpu_cores"),
                ("volcano_queue_allocated_milli_cpu", "volcano_queue_deserved_milli_cpu"),
                ("volcano_queue_allocated_memory_bytes", "volcano_queue_deserved_memory_bytes"),
            )
        ),
        severity="warning",
        hold=1800,
        limit=0.9,
        summary="The queue {{ $labels.queue_name }} does not get its share.",
        description="For half an hour, the queue {{ $labels.queue_name }} has held less than 90 % of the share that "
        "its waiting pods could use.",
    ),
    Rule(
        name="ConfigStale",
        expression="max by (job, instance) (pyscheduler_config_stale{$job}) == 1",
        severity="warning",
        hold=300,
        summary="{{ $labels.instance }} does not run with its configuration file.",
        description="The configuration file has a change that needs a restart, or it cannot be used.",
    ),
    Rule(
        name="MemoryNearLimit",
        expression="process_resident_memory_bytes{$job} / pyscheduler_memory_limit_bytes{$job} > $limit",
        severity="warning",
        hold=300,
        limit=0.9,
        summary="{{ $labels.instance }} uses more than 90 % of its memory.",
        description="The kernel kills the process when it reaches its limit. Then another replica leads, and may be "
        "killed, too.",
    ),
)


def rules_text(rules: Iterable[Rule]) -> str:
    """Return a rule file of Prometheus; it is also the `spec` of a PrometheusRule."""
    lines = [
        "# Made by: python -m deploy.monitoring --write",
        "# Do not edit; change deploy/monitoring/rules.py.",
        "groups:",
        "  - name: pyscheduler",
        "    rules:",
    ]
    for rule in rules:
        lines += [
            f"      - alert: {rule.alert}",
            f"        expr: {json.dumps(rule.expr)}",
            f"        for: {duration(rule.hold)}",
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {json.dumps(rule.summary)}",
            f"          description: {json.dumps(rule.description)}",
            f"          runbook_url: {rule.runbook}",
        ]
    return "\n".join(lines) + "\n"
