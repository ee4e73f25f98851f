"""`make bench` runs, and compares with what it wrote earlier; its page says what was measured."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pyscheduler.api import Node, decode
from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
from pyscheduler.framework.clock import LoopClock
from pyscheduler.testing.builders import node_manifest
from tests.bench import cases, page, report, results, shapes, weight
from tests.bench.measure import measure, played
from tests.bench.phases import Phases, sampled
from tests.bench.plan import MEASURED, make_plan
from tests.bench.rows import program_rows, setting_of, standard_names
from tests.bench.worlds import Setting

ROOT = Path(__file__).parents[2]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmarks as `make bench` does."""
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def rows_of(*arguments: str) -> dict[str, dict[str, float]]:
    """Run short benchmarks and return their figures by row."""
    done = bench("--short", "-o", "json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, float]] = json.loads(done.stdout)["rows"]
    return found


# --- cases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", cases.all_cases())
def test_a_case_has_the_objects_that_upstream_names(name: str) -> None:
    """Every pod is in a namespace that is created, and measured pods are as many as the workload says."""
    plan = make_plan(name, 20, distinct=True)
    nodes = [node["metadata"]["name"] for node in plan.node_objects()]
    assert len(set(nodes)) == len(nodes) > 0
    namespaces = {one["metadata"]["name"] for one in plan.surroundings() if one["kind"] == "Namespace"}
    initial = list(plan.initial_pods())
    measured = [one for one in plan.measured_pods() if one["kind"] == "Pod"]
    assert {pod["metadata"]["namespace"] for pod in (*initial, *measured)} <= namespaces
    assert len({pod["metadata"]["name"] for pod in measured}) == plan.measured_count > 0
    assert all(pod["metadata"]["name"].startswith(MEASURED) for pod in measured)
    placed = {pod["spec"]["nodeName"] for pod in initial if "nodeName" in pod["spec"]}
    assert placed <= set(nodes)
    specs = {json.dumps(pod["spec"], sort_keys=True) for pod in measured}
    assert len(specs) == min(plan.measured_count, shapes.DISTINCT)


def test_a_size_that_upstream_has_is_taken_as_it_is() -> None:
    """Counts and threshold are upstream's; other sizes scale those of the nearest."""
    basic = cases.case("SchedulingBasic")
    assert basic.workload(5000).params == {"initNodes": 5000, "initPods": 1000, "measurePods": 10_000}
    assert basic.workload(5000).threshold == 270
    assert basic.workload(15_000).params == {"initNodes": 15_000, "initPods": 3000, "measurePods": 30_000}
    assert basic.workload(15_000).threshold is None


def test_objects_weigh_what_real_ones_do() -> None:
    """About 8 kB a pod, pending or running, and 10 kB a node."""
    assert weight.weight(shapes.pod("p", "pod-default", "a")) == pytest.approx(8000, rel=0.1)
    assert weight.weight(shapes.pod("p", "pod-default", "a", node_name="n")) == pytest.approx(8000, rel=0.1)
    assert weight.weight(shapes.node("n", "node-default")) == pytest.approx(10_000, rel=0.1)


def test_rows_have_names_that_say_what_they_are() -> None:
    """What is listed can be asked for again, one by one."""
    names = standard_names(short=False, chosen=lambda _: True)
    assert len(set(names)) == len(names)
    assert "SchedulingBasic/5000/cycle/distinct" in names
    assert "SchedulingDaemonset/15000/cycle/equal" in names
    assert "SchedulingWhileGated/1/cycle/equal" in names
    for name in names:
        setting = setting_of(name)
        assert setting is not None
        size = f"{setting.nodes}x{setting.pods}" if setting.pods else str(setting.nodes)
        assert name == "/".join([setting.case, size, setting.mode, "distinct" if setting.distinct else "equal"])


# --- the command ----------------------------------------------------------------------------------


def test_a_case_is_measured_and_compared(tmp_path: Path) -> None:
    """JSON goes out, and comes back in as the column to compare with; upstream's threshold stands beside."""
    arguments = ("--short", "--case", "Basic", "--nodes", "50", "--mode", "cycle", "--specs", "distinct")
    earlier = tmp_path / "before.json"
    first = bench(*arguments, "--save", str(earlier), "-o", "json")
    assert first.returncode == 0, first.stderr
    (name,) = found = json.loads(first.stdout)["rows"]
    assert name == "SchedulingBasic/50/cycle/distinct"
    assert found[name]["pods_per_second"] > 0
    assert found[name]["attempts_per_pod"] == 1
    assert 0 < found[name]["attempt_p50_ms"] <= found[name]["attempt_p99_ms"]
    assert results.rows(earlier)[name]["command"].startswith('make bench BENCH_ARGS="--short --case Basic')
    second = bench(*arguments, "--compare", str(earlier))
    assert second.returncode == 0, second.stderr
    headings, line = second.stdout.splitlines()[1:3]
    assert headings.split()[-2:] == ["BEFORE", "CHANGE"]
    assert line.startswith("SchedulingBasic ")
    assert line.rstrip().endswith("%")


def test_a_case_is_measured_over_http() -> None:
    """The server runs in a process of its own, so that memory and CPU are the scheduler's alone."""
    (row,) = rows_of("--case", "Basic", "--nodes", "20", "--mode", "http").values()
    assert row["pods_per_second"] > 0
    assert row["server_cpu_per_1000"] > 0
    assert row["peak_mib"] >= row["resident_mib"] > 0


@pytest.mark.parametrize("name", ["PreemptionAsync", "SchedulingWithMixedChurn", "SchedulingWhileGated", "OneGang"])
def test_what_happens_meanwhile_happens(name: str) -> None:
    """Churns, deletions and gangs: all measured pods are bound in the end, in every round."""
    figures = measure(Setting(case=name, nodes=10, mode="cycle", distinct=False), short=True)
    assert figures["pods"] == make_plan(name, 10, distinct=False).measured_count
    assert figures["pods_per_second"] > 0


def test_the_client_path_is_measured_over_http() -> None:
    """First list, relist and reaction run against a server in a process of its own."""
    found = rows_of("--case", "sync", "--case", "relist-changed", "--case", "reaction")
    assert set(found) == {"sync", "relist-changed", "reaction"}
    assert found["sync"]["sync_cpu_seconds"] > 0
    assert found["relist-changed"]["longest_hold_ms"] > 0
    assert 0 < found["reaction"]["reaction_p50_ms"] <= found["reaction"]["reaction_p99_ms"]


def test_the_search_for_victims_is_measured() -> None:
    """Both when it succeeds and when it is in vain, with the time for which it holds the loop."""
    rows = [row for row in program_rows(short=True) if row.name.startswith("search")]
    assert len(rows) == 2
    for row in rows:
        figures = row.measure()
        assert figures["search_ms"] > 0
        assert figures["longest_hold_ms"] > 0


def test_waiting_pods_are_measured() -> None:
    """What ten thousand waits take, and how long a verdict for all of them."""
    (figures,) = rows_of("--case", "waiting").values()
    assert 0 < figures["waiting_mib"] < 3
    assert figures["seconds"] > 0


async def test_a_case_is_measured_on_any_cluster(tmp_path: Path) -> None:
    """Its objects are created, and gone afterwards; a cluster with nodes of its own is refused."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1))
    server = cluster.server()
    await server.start()
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
        f"clusters: [{{name: c, cluster: {{server: {server.url}}}}}]\n"
    )
    setting = Setting(
        case="SchedulingWithMixedChurn", nodes=10, mode="cluster", distinct=True, kubeconfig=str(kubeconfig)
    )
    figures = await played(setting, short=True)
    assert figures["pods_per_second"] > 0
    assert not [*cluster.nodes(), *cluster.pods()]
    cluster.add(node_manifest("theirs"))
    with pytest.raises(click.ClickException, match=r"has nodes of its own.*--among-other-nodes"):
        await played(setting, short=True)
    assert [node["metadata"]["name"] for node in cluster.nodes()] == ["theirs"]
    await server.stop()


# --- phases, page, mistakes -----------------------------------------------------------------------


def test_cpu_time_is_told_by_phase() -> None:
    """A sample belongs to the innermost frame that is known; here, all to the decoding of objects."""
    text = json.dumps(shapes.node("n", "node-default")).encode()
    phases = Phases()
    with sampled(phases):
        while phases.samples.total() < 20:
            decode(Node, text)
    assert phases.shares()["decode"] > 0.5
    assert phases.cpu_seconds > 0
    assert sum(phases.shares().values()) == pytest.approx(1)


def test_the_page_says_what_was_measured() -> None:
    """docs/performance.md is what the command makes of the results that are carried, and nothing else."""
    document = results.read(results.CARRIED)
    assert (ROOT / "docs/performance.md").read_text(encoding="utf-8") == page.render(document)
    for name, picture in page.pictures(document).items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == picture
    assert not [name for name, row in document["rows"].items() if report.is_case(name) and "command" not in row]


def test_what_cannot_be_measured_or_compared(tmp_path: Path) -> None:
    """Mistakes are one line."""
    assert bench("--case", "nothing").stderr.startswith("Error: no such case; there are SchedulingPodAntiAffinity, ")
    path = tmp_path / "before.json"
    assert bench("--case", "help", "--compare", str(path)).stderr.startswith(f"Error: {path} holds no earlier result")
