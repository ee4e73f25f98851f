"""The alert rules and dashboards of the chart: generated, well-formed, and about metrics that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.files import FOLDER, generated
from deploy.monitoring.rules import INTENDED, RULES, RUNBOOKS, Rule
from pyscheduler.telemetry.families import FAMILIES
from tests.deploy import mixin
from tests.deploy.prometheus import tools
from tests.processes import run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / RUNBOOKS).read_text(encoding="utf-8")


def of_page(path: str) -> dict[str, set[str]]:
    """Return the labels of the metrics in the tables of a page, by name."""
    found = {}
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 6 and cells[2] in {"counter", "gauge", "histogram"}:
            named = re.findall(r"`([a-z_]+)`", cells[1])
            # "`volcano_queue_pod_group_pending_count`, and with `inqueue`, ..."
            phases = [named[0].replace("pending", word) for word in named[1:] if "_" not in word]
            for name in [*named, *phases]:
                found[name] = set(re.findall(r"`([a-z_]+)`", cells[3]))
    return found


#: The labels of each metric: the families of the core, and those that the pages document.
LABELS: Mapping[str, set[str]] = {
    **of_page("docs/reference/metrics.md"),
    **of_page("plugins/batch/README.md"),
    **{name: set(family.labels) for name, family in FAMILIES.items()},
    "process_resident_memory_bytes": set(),
    "process_cpu_seconds_total": set(),
    "up": set(),
}
#: Labels that Prometheus adds, and the one of buckets.
ADDED = {"job", "instance", "le", "cluster", "pod"}


def parsed(text: str) -> list[Any]:
    """Return all nodes of an expression."""
    nodes: list[Any] = []
    promql_parser.walk(promql_parser.parse(text), nodes.append)
    return nodes


def dashboard_expressions() -> dict[str, str]:
    """Return the expressions of all panels by a readable name."""
    return {
        f"{board.name}: {panel.title} {number}": expr.replace("$__rate_interval", "5m")
        for board in DASHBOARDS
        for panel in board.panels
        for number, expr in enumerate(panel.expressions())
    }


#: Every expression, by a readable name.
EXPRESSIONS = {
    **{rule.alert: rule.expr for rule in RULES},
    **dashboard_expressions(),
    **{f"mixin: {name}": text for name, text in mixin.EXPRESSIONS.items() if name not in mixin.WITHOUT_DATA},
}


def test_files_are_generated() -> None:
    """The chart has what the tables say; `python -m deploy.monitoring --write` writes it."""
    assert {path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("dashboards/*.json")} < set(generated())
    for name, text in generated().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, name


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in EXPRESSIONS.items()])
def test_expressions_are_about_metrics_that_exist(text: str) -> None:
    """Each expression parses; its metrics exist, and have the labels that it selects and groups by."""
    nodes = parsed(text)
    selectors = [node for node in nodes if type(node).__name__ == "VectorSelector"]
    assert selectors
    known: set[str] = set(ADDED)
    for node in selectors:
        name = node.name if node.name in LABELS else re.sub(r"_(bucket|count|sum)$", "", node.name)
        assert name in LABELS, node.name
        if name != node.name:
            assert FAMILIES[name].kind == "histogram"
        matchers = {matcher.name for matcher in node.matchers.matchers}
        assert matchers - {"__name__"} <= LABELS[name] | ADDED, node.name
        assert "job" in matchers, "kube-scheduler has metrics of the same names"
        known |= LABELS[name]
    for node in nodes:
        if type(node).__name__ == "AggregateExpr" and node.modifier is not None:
            assert set(node.modifier.labels) <= known, str(node)


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in RULES])
def test_each_alert_has_a_runbook(rule: Rule) -> None:
    """Its section begins with a command, says what the alert means, and what to do."""
    assert rule.runbook == f"{RUNBOOKS}#{rule.alert.lower()}"
    _, _, section = PAGE.partition(f"\n## {rule.alert}\n")
    section = section.partition("\n## ")[0].strip()
    assert section.startswith("```sh\n")
    assert "**Meaning.**" in section
    assert "**What to do.**" in section
    assert rule.severity in {"warning", "critical"}
    assert rule.hold > 0


def test_runbooks_are_about_alerts() -> None:
    """No section is left of an alert that is gone."""
    named = set(re.findall(r"(?m)^## (Pyscheduler\w+)$", PAGE))
    assert named == {rule.alert for rule in RULES}


def test_runbooks_quote_what_is_there() -> None:
    """Each quoted line of the log is one that is written; commands name the objects of `configs/deploy`."""
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "pyscheduler").rglob("*.py")))
    lines = set(re.findall(r"`([A-Z][A-Za-z]* [a-zA-Z ]+)`", PAGE))
    assert len(lines) >= 8
    assert [line for line in lines if not re.search(rf"[\"']{re.escape(line)}", sources)] == []
    manifests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "configs/deploy").glob("*.yaml"))
    named = set(re.findall(r"--namespace (\S+)|--selector (\S+?)[` ]|deployment/(\w+)", PAGE))
    for text in {part for parts in named for part in parts if part}:
        assert text.replace("=", ": ") in manifests, text


def test_labels_in_texts_are_labels_of_the_result() -> None:
    """A text with an unknown label would show `<no value>`."""
    for rule in RULES:
        used = set(re.findall(r"\$labels\.(\w+)", rule.summary + rule.description))
        groups = [node.modifier.labels for node in parsed(rule.expr) if type(node).__name__ == "AggregateExpr"]
        available = {label for labels in groups for label in labels} if groups else ADDED
        assert used <= available, rule.name


def test_intended_reasons_are_reasons_of_batch_profiles() -> None:
    """The alert on the oldest pod leaves out reasons that exist, and the runbook names them."""
    reference = (ROOT / "docs/reference/batch.md").read_text(encoding="utf-8")
    assert [reason for reason in INTENDED[1:] if f"| `{reason}` |" not in reference] == []
    assert [reason for reason in INTENDED[1:] if f"`{reason}`" not in PAGE] == []


def test_operating_page_has_the_selector_for_the_mixin() -> None:
    """The selector with which the dashboard of kubernetes-mixin is tested is the one that the page recommends."""
    page = (ROOT / "docs/how-to/operate.md").read_text(encoding="utf-8")
    assert f"kubeSchedulerSelector: '{mixin.SELECTOR}'" in page


def test_dashboards_load() -> None:
    """Each is JSON with a panel for each row, without two at one place, and with the help of its metrics."""
    for board in DASHBOARDS:
        model = json.loads(board.text())
        assert len(model["panels"]) == len(board.panels)
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in model["panels"]}
        assert len(places) == len(board.panels)
    (pending,) = (panel for panel in DASHBOARDS[0].panels if panel.title == "Pending pods")
    assert FAMILIES["scheduler_pending_pods"].help in pending.description


# --- with promtool ----------------------------------------------------------------------------------------------------

JOB = 'job="pyscheduler",instance="a"'
#: For each alert: series that make it fire, as `promtool` writes values, when to look, and the labels of the alert.
FIRING: Mapping[str, tuple[Mapping[str, str], str, Mapping[str, str]]] = {
    "NoLeader": (
        {f'leader_election_master_status{{{JOB},name="pyscheduler"}}': "0x10", f"up{{{JOB}}}": "1x10"},
        "2m",
        {"job": "pyscheduler", "name": "pyscheduler"},
    ),
    "TwoLeaders": (
        {
            'leader_election_master_status{job="pyscheduler",instance="a",name="pyscheduler"}': "1x10",
            'leader_election_master_status{job="pyscheduler",instance="b",name="pyscheduler"}': "1x10",
        },
        "2m",
        {"job": "pyscheduler", "name": "pyscheduler"},
    ),
    "OldestPending": (
        {
            f'pyscheduler_oldest_pending_seconds{{{JOB},profile="p",queue="{queue}",reason="{reason}"}}': values
            for queue, reason, values in (
                # A pod that is retried all the time moves between the queues, with one reason.
                (
                    "unschedulable",
                    "Unschedulable",
                    "1740 stale 1860 stale 1980 stale 2100 stale 2220 stale 2340 stale 2460",
                ),
                ("backoff", "Unschedulable", "_ 1800 stale 1920 stale 2040 stale 2160 stale 2280 stale 2400 stale"),
                ("gated", "SchedulingGated", "9999x30"),
                ("held", "OverLimit", "9999x30"),
            )
        },
        "10m",
        {"job": "pyscheduler", "profile": "p", "reason": "Unschedulable"},
    ),
    "QueueGrows": (
        {
            f'scheduler_pending_pods{{{JOB},queue="active"}}': "0+20x40",
            f'leader_election_master_status{{{JOB},name="pyscheduler"}}': "1x40",
            # Nobody takes pods from the queue of a standby.
            'scheduler_pending_pods{job="pyscheduler",instance="b",queue="active"}': "0+20x40",
            'leader_election_master_status{job="pyscheduler",instance="b",name="pyscheduler"}': "0x40",
        },
        "30m",
        {"job": "pyscheduler", "instance": "a"},
    ),
    "PluginFails": (
        {f'pyscheduler_plugin_failures_total{{{JOB},plugin="Mine",extension_point="Filter"}}': "_x4 1x30"},
        "7m",
        {"job": "pyscheduler", "plugin": "Mine", "extension_point": "Filter"},
    ),
    "PluginSlow": (
        {
            f'{name}_{part}{{{JOB},plugin="Mine",extension_point="{point}",status="Success"}}': f"0+{step}x20"
            for name in ("scheduler_plugin_execution_duration_seconds",)
            for point, seconds in (("Filter", 12), ("PreBind", 60))
            for part, step in (("sum", seconds), ("count", 60))
        },
        "15m",
        {"job": "pyscheduler", "plugin": "Mine", "extension_point": "Filter"},
    ),
    "LoopBlocked": (
        {f"pyscheduler_event_loop_longest_block_seconds{{{JOB}}}": "2x10"},
        "2m",
        {"job": "pyscheduler", "instance": "a"},
    ),
    "BindingErrors": (
        {
            "scheduler_framework_extension_point_duration_seconds_count"
            f'{{{JOB},extension_point="Bind",status="{status}",profile="p"}}': f"0+{step}x20"
            for status, step in (("Success", 60), ("Error", 6))
        },
        "16m",
        {"job": "pyscheduler", "profile": "p"},
    ),
    "WatchBroken": (
        {f'pyscheduler_watch_broken_seconds{{{JOB},resource="pods"}}': "0+60x10"},
        "4m",
        {"job": "pyscheduler", "instance": "a", "resource": "pods"},
    ),
    "KubeletRejects": (
        {f'pyscheduler_kubelet_rejections_total{{{JOB},reason="OutOfcpu",other_scheduler="true"}}': "0 0 1x20"},
        "6m",
        {"job": "pyscheduler", "reason": "OutOfcpu", "other_scheduler": "true"},
    ),
    "QueueStarves": (
        {
            f'kai_queue_allocated_gpus{{{JOB},queue_name="q"}}': "4x60",
            f'kai_queue_fair_share_gpu{{{JOB},queue_name="q"}}': "8x60",
            f'kai_queue_allocated_gpus{{{JOB},queue_name="full"}}': "8x60",
            f'kai_queue_fair_share_gpu{{{JOB},queue_name="full"}}': "8x60",
        },
        "40m",
        {"job": "pyscheduler", "queue_name": "q"},
    ),
    "ConfigStale": (
        {f"pyscheduler_config_stale{{{JOB}}}": "0 1x20"},
        "8m",
        {"job": "pyscheduler", "instance": "a"},
    ),
    "MemoryNearLimit": (
        {f"process_resident_memory_bytes{{{JOB}}}": "95x20", f"pyscheduler_memory_limit_bytes{{{JOB}}}": "100x20"},
        "8m",
        {"job": "pyscheduler", "instance": "a"},
    ),
}


def with_labels(text: str, labels: Mapping[str, str]) -> str:
    """Return a text of an alert as Prometheus shows it."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)


def unit_tests(rules: Path) -> dict[str, Any]:
    """Return the tests for promtool: each alert fires with its series, at its time and not at the beginning."""
    tests = []
    for rule in RULES:
        series, time, labels = FIRING[rule.name]
        values = [{"series": name, "values": values} for name, values in series.items()]
        annotations = {
            "summary": with_labels(rule.summary, labels),
            "description": with_labels(rule.description, labels),
            "runbook_url": rule.runbook,
        }
        alert = {"exp_labels": {**labels, "severity": rule.severity}, "exp_annotations": annotations}
        tests.append(
            {
                "interval": "1m",
                "input_series": values,
                "alert_rule_test": [
                    {"eval_time": "0m", "alertname": rule.alert, "exp_alerts": []},
                    {"eval_time": time, "alertname": rule.alert, "exp_alerts": [alert]},
                ],
            }
        )
    return {"rule_files": [str(rules)], "evaluation_interval": "30s", "tests": tests}


def test_each_alert_has_a_unit_test() -> None:
    """A new alert needs series that make it fire."""
    assert set(FIRING) == {rule.name for rule in RULES}


@pytest.mark.packages
def test_promtool_accepts_the_rules(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """`promtool check rules` and `promtool test rules` pass."""
    promtool = str(tools(tmp_path_factory.getbasetemp() / "tools") / "promtool")
    rules = FOLDER / "rules.yaml"
    checked = run(promtool, "check", "rules", str(rules))
    assert checked.returncode == 0, checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout
    tests = tmp_path / "tests.yaml"
    tests.write_text(yaml.safe_dump(unit_tests(rules)))
    tested = run(promtool, "test", "rules", str(tests))
    assert tested.returncode == 0, tested.stdout + tested.stderr
