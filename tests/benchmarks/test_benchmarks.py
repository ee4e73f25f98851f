"""`make bench` runs, and compares with what it wrote earlier; its page says what was measured."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from benchmarks import cases, foreign, model, page, report, results, shapes, weight
from benchmarks.__main__ import main, measure_within
from benchmarks.measure import measure, played
from benchmarks.measured_clusters import Setting
from benchmarks.phases import Phases, sampled
from benchmarks.plan import MEASURED, make_plan
from benchmarks.rows import Row, named_rows, program_rows, setting_of, standard_names
from benchmarks.targets import ORDER, ROWS, is_met, targets_of
from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.api import Node, decode
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.testing.builders import node_manifest

ROOT = Path(__file__).parents[2]


def bench(*arguments: str) -> Result:
    """Run the benchmarks as `make bench` does, in this process; each row has a process of its own."""
    with contextlib.chdir(ROOT):
        return CliRunner().invoke(main, arguments)


def rows_of(*arguments: str) -> dict[str, dict[str, float]]:
    """Run short benchmarks and return their figures by row."""
    done = bench("--short", "-o", "json", *arguments)
    assert done.exit_code == 0, done.stderr
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


def test_rows_with_targets_can_be_asked_for() -> None:
    """All that is held to a figure, once, the others' base before its shares; `short` ones are the same cases."""
    names = named_rows(targets=True, scale=False, short=False)
    programs = {row.name for row in program_rows(short=False)}
    assert len(set(names)) == len(names)
    assert set(ROWS) <= set(names) <= {*names, *programs}
    others = {name for name in names if setting_of(name) is None}
    plain = {
        "backlog",
        "waiting",
        "packing",
        "replay",
        "simulation",
        "simulation-decisions",
        "sweep",
        "topology-groups",
    }
    assert {name for name in others if not name.startswith("batch-")} == plain
    assert others <= programs
    for name in names:
        for figure in targets_of(name):
            parts = name.split("/")
            if figure == "of_5000":
                parts[1] = "5000"
            if figure == "of_equal":
                parts[3] = "equal"
            assert names.index("/".join(parts)) <= names.index(name)
    scale = named_rows(targets=False, scale=True, short=False)
    assert "SchedulingBasic/15000x100000/cycle/equal" in scale
    assert {name for name in scale if setting_of(name) is None} <= programs
    assert not {*scale} & {*ORDER}
    short = named_rows(targets=True, scale=True, short=True)
    assert {name.partition("/")[0] for name in short} == {name.partition("/")[0] for name in (*names, *scale)}
    assert {setting.nodes for name in short if (setting := setting_of(name))} == {50}


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        pytest.param(5000.0, ">= 5,000 pods/s", True, id="at least"),
        pytest.param(4999.0, ">= 5,000 pods/s", False, id="not enough"),
        pytest.param(0.4, ">= 40 %", True, id="a share"),
        pytest.param(0.39, ">= 40 %", False, id="too small a share"),
        pytest.param(0.81, "<= 0.8 s", False, id="too much"),
        pytest.param(0.3, "< 0.3 s", False, id="less than"),
        pytest.param(0, "0", True, id="none at all"),
        pytest.param(3.0, "about 0", None, id="not to be compared"),
    ],
)
def test_figures_are_held_against_targets(value: float, target: str, expected: bool | None) -> None:
    """What is met, what is missed, and what nobody can tell."""
    assert is_met(value, target) is expected


def test_what_a_pod_costs_follows_from_rows_of_several_sizes() -> None:
    """The line is found again, from rows as they are named; from too few, or of one kind, there is none."""
    rows: dict[str, dict[str, float]] = {
        f"SchedulingBasic/{size}/http/equal": {} for size in ("500", "5000", "5000x2000", "15000")
    }
    sizes = model.measured_sizes(rows, "http")
    assert sizes["SchedulingBasic/5000x2000/http/equal"] == (5000, 3000)
    for name, (nodes, pods) in sizes.items():
        mib = 80 + nodes * 0.012 + pods * 0.005
        list_seconds = 0.1 + nodes * 0.0001 + pods * 0.00002
        rows[name] = {"resident_mib": mib, "pods": 2 * pods, "rounds": 2}
        rows[name] |= {"cpu_per_1000": 0.5, "cpu_with_list_per_1000": 0.5 + list_seconds / pods * 1000}
    line = model.fit([*sizes.values()], [row["resident_mib"] for row in rows.values()])
    assert line is not None
    assert (line.fixed, line.node, line.pod) == pytest.approx((80, 0.012, 0.005))
    assert line.error == pytest.approx(0, abs=1e-9)
    memory, first_list = model.costs(rows)
    assert memory[1:] == ("80.0 MiB", "12.0 MiB", "5.0 MiB", "890.0 MiB")
    assert first_list[1:] == ("100 ms", "100 ms", "20 ms", "3,600 ms")
    assert model.fit([*sizes.values()][:3], [1.0] * 3) is None
    assert model.fit([(100, 100)] * 5, [1.0] * 5) is None


def test_the_spread_of_measurements_is_not_taken_for_a_gain() -> None:
    """A cost that seems to fall as pods become more is drawn on level: a large cluster is not promised a gain."""
    sizes = [(500, 1000), (5000, 3000), (5000, 30_000), (15_000, 100_000)]
    line = model.fit(sizes, [200, 212, 205, 201])
    assert line is not None
    assert (line.pod, line.node >= 0) == (0, True)
    assert 200 <= line.at(5000, 150_000) <= 212
    falling = model.fit(sizes, [210, 206, 204, 200])
    assert falling is not None
    assert (falling.node, falling.pod) == (0, 0)
    assert falling.fixed == pytest.approx(205, abs=1)


# --- the command ----------------------------------------------------------------------------------


def test_a_case_is_measured_and_compared(tmp_path: Path) -> None:
    """JSON goes out, and comes back in as the column to compare with; upstream's threshold stands beside."""
    arguments = ("--short", "--case", "Basic", "--nodes", "50", "--mode", "cycle", "--specs", "distinct")
    earlier = tmp_path / "before.json"
    first = bench(*arguments, "--save", str(earlier), "-o", "json")
    assert first.exit_code == 0, first.stderr
    (name,) = found = json.loads(first.stdout)["rows"]
    assert name == "SchedulingBasic/50/cycle/distinct"
    assert found[name]["pods_per_second"] > 0
    assert found[name]["attempts_per_pod"] == 1
    assert 0 < found[name]["attempt_p50_ms"] <= found[name]["attempt_p99_ms"]
    assert results.rows(earlier)[name]["command"].startswith('make bench BENCH_ARGS="--short --case Basic')
    second = bench(*arguments, "--compare", str(earlier))
    assert second.exit_code == 0, second.stderr
    headings, line = second.stdout.splitlines()[1:3]
    assert headings.split()[-2:] == ["BEFORE", "CHANGE"]
    assert line.startswith("SchedulingBasic ")
    assert line.rstrip().endswith("%")


@pytest.mark.parametrize("mode", ["http", "https"])
def test_a_case_is_measured_over_http(mode: str) -> None:
    """The server runs in a process of its own, so that memory and CPU are the scheduler's alone; with TLS, too."""
    row = measure(Setting(case="SchedulingBasic", nodes=20, mode=mode, distinct=False), short=True)
    assert row["pods_per_second"] > 0
    assert row["server_cpu_per_1000"] > 0
    assert row["peak_mib"] >= row["resident_mib"] > 0


@pytest.mark.parametrize(
    "name",
    [
        "PreemptionAsync",
        "SchedulingWithMixedChurn",
        "SchedulingWhileGated",
        "OneGang",
        "GangsInQueues",
        "GangsInVolcanoQueues",
    ],
)
def test_what_happens_meanwhile_happens(name: str) -> None:
    """Churns, deletions and gangs: all measured pods are bound in the end, in every round."""
    figures = measure(Setting(case=name, nodes=10, mode="cycle", distinct=False), short=True)
    assert figures["pods"] == make_plan(name, 10, distinct=False).measured_count
    assert figures["pods_per_second"] > 0


def test_the_client_path_is_measured_over_http() -> None:
    """First list, relist and reaction run against a server in a process of its own."""
    rows = {row.name: row for row in program_rows(short=True)}
    found = {name: rows[name].measure() for name in ("sync", "relist-changed", "reaction")}
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


def kubeconfig_of(url: str, folder: Path) -> Path:
    """Write what leads to an API server."""
    path = folder / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
        f"clusters: [{{name: c, cluster: {{server: {url}}}}}]\n"
    )
    return path


async def test_a_case_is_measured_on_any_cluster(tmp_path: Path) -> None:
    """Its objects are created, and gone afterwards; a cluster with nodes of its own is refused."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1))
    server = cluster.server()
    await server.start()
    kubeconfig = kubeconfig_of(server.url, tmp_path)
    setting = Setting(
        case="SchedulingWithMixedChurn", nodes=10, mode="cluster", distinct=True, kubeconfig=str(kubeconfig)
    )
    figures = await played(setting, short=True)
    assert figures["pods_per_second"] > 0
    assert not [*cluster.nodes(), *cluster.pods()]
    cluster.add(node_manifest("theirs"))
    with pytest.raises(click.ClickException, match=r"has nodes of its own.*--among-other-nodes"):
        await played(setting, short=True)
    with pytest.raises(click.ClickException, match=r"has nodes of its own"):
        await foreign.check(str(kubeconfig), shared=False)
    await foreign.check(str(kubeconfig), shared=True)
    assert [node["metadata"]["name"] for node in cluster.nodes()] == ["theirs"]
    await server.stop()


async def test_nodes_that_admission_has_tainted_are_measured_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TaintNodesByCondition taints new nodes, which a controller would mend; a case's own taints stay."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1))
    server = cluster.server()
    await server.start()
    send, tainted, seen = HTTPTransport.request, 0, []

    async def admit(self: HTTPTransport, method: str, path: str, *, body: bytes | None = None, **others: Any) -> Any:
        nonlocal tainted
        if (method, path) == ("POST", "/api/v1/nodes") and body is not None:
            node = json.loads(body)
            node["spec"].setdefault("taints", []).append(
                {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
            )
            body, tainted = json.dumps(node).encode(), tainted + 1
        if (method, path) == ("DELETE", "/api/v1/nodes"):
            seen.extend(node["spec"].get("taints", []) for node in cluster.nodes())
        return await send(self, method, path, body=body, **others)

    monkeypatch.setattr(HTTPTransport, "request", admit)
    kubeconfig = str(kubeconfig_of(server.url, tmp_path))
    setting = Setting(
        case="SchedulingWithNodeInclusionPolicy", nodes=10, mode="cluster", distinct=False, kubeconfig=kubeconfig
    )
    figures = await played(setting, short=True)
    await server.stop()
    assert figures["pods_per_second"] > 0
    assert tainted == len(seen) == 10
    assert [taints for taints in seen if taints] == [[{"key": "foo", "effect": "NoSchedule"}]] * 2


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
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == page.render_readme(readme, document)
    for name, picture in page.pictures(document).items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == picture
    assert not [name for name, row in document["rows"].items() if report.is_case(name) and "command" not in row]


def test_what_was_missed_is_told_with_its_phases() -> None:
    """A row below its target names the phases that took most of its time, and what the CPU time alone would allow."""
    figures = {"pods_per_second": 4000.0, "attempt_p99_ms": 1.0, "cpu_per_1000": 0.2, "core_share": 0.8}
    row = {**figures, "phases": {"queue": 0.02, "server": 0.04, "Score": 0.14}}
    sheet = report.unmet_sheet({"SchedulingBasic/5000/cycle/equal": row})
    (cells,) = sheet.rows
    assert list(cells[2:]) == [
        *("Score 70%, server 20%, queue 10%", "4,000 pods/s", ">= 5,000 pods/s", "0.20 s", "80%"),
        *("5,000", "6,250"),
    ]


def test_a_run_that_is_broken_off_leaves_what_it_had(tmp_path: Path) -> None:
    """Each row is in the file as soon as it is measured, with the shares that follow from earlier ones."""
    file = tmp_path / "results.json"
    equal, distinct = (f"SchedulingBasic/5000/cycle/{specs}" for specs in ("equal", "distinct"))
    results.save(file, {equal: {"pods_per_second": 1000.0}}, command="a")
    assert set(results.rows(file)) == {equal}
    results.save(file, {distinct: {"pods_per_second": 500.0}}, command="b")
    assert results.rows(file)[distinct]["of_equal"] == 0.5
    assert results.rows(file)[equal]["command"] == "a"
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_row_that_fails_loses_its_old_figures(tmp_path: Path) -> None:
    """A row that can no longer be measured is an error when the page is written, not its old figure."""
    file = tmp_path / "results.json"
    results.save(file, {"replay": {"seconds": 1.0}}, command="a")
    results.save_failure(file, "replay", command="a")
    assert "seconds" not in results.rows(file)["replay"]
    with pytest.raises(click.ClickException, match="could not be measured: replay"):
        results.mark_stale(file)


def test_row_without_end_is_reported() -> None:
    """A row that does not end within the limit ends with an error that names it."""
    row = Row(name="endless", what="", measure=lambda: asyncio.run(asyncio.sleep(60)) or {})
    with pytest.raises(click.ClickException, match="endless was interrupted, or did not end within 1 s"):
        measure_within(row, 1)


def test_old_rows_are_marked_as_stale(tmp_path: Path) -> None:
    """A row of more than 300 commits ago, or of an unknown commit, has a mark in each table; others have none."""
    file = tmp_path / "results.json"
    case = {"pods_per_second": 1.0, "pods": 1, "rounds": 1, "cpu_per_1000": 1.0, "core_share": 1.0, "stale": True}
    file.write_text(json.dumps({"rows": {"ready": {"seconds": 1.0, "commit": "0bad0bad"}}}), encoding="utf-8")
    results.save(file, {"SchedulingBasic/5000/cycle/equal": case}, command="a")
    document = results.mark_stale(file)
    assert [name for name, row in document["rows"].items() if row.get("stale")] == ["ready"]
    ready = next(row for row in program_rows(short=False) if row.name == "ready")
    title = report.program_sheet([ready], document["rows"]).rows[0][0]
    assert title.endswith(" (measured on an older version of pyscheduler)")
    assert "older version" not in report.case_sheet(document["rows"]).markdown()


def test_carried_rows_are_young_or_marked() -> None:
    """Each figure of docs/performance.md that is older than 300 commits has a mark, which `--write` sets."""
    rows = results.read(results.CARRIED)["rows"]
    ages = {name: results.age(row["commit"]) for name, row in rows.items()}
    if not any(ages.values()):
        pytest.skip("the checkout has no history")
    old = {name for name, commits in ages.items() if commits is not None and commits > results.OLDEST}
    assert not old - {name for name, row in rows.items() if row.get("stale")}


def test_what_cannot_be_measured_or_compared(tmp_path: Path) -> None:
    """Mistakes are one line."""
    assert bench("--case", "nothing").stderr.startswith("Error: no such case; there are SchedulingPodAntiAffinity, ")
    path = tmp_path / "before.json"
    assert bench("--case", "help", "--compare", str(path)).stderr.startswith(f"Error: {path} holds no earlier result")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--targets", "--kubeconfig", "x"), "--targets and --kubeconfig do not go together", id="where"),
        pytest.param(("--scale", "--nodes", "5"), "--scale and --nodes do not go together", id="what"),
        pytest.param(("--write", "--case", "Gangs"), "--write and --case do not go together", id="whether"),
        pytest.param(("--among-other-nodes",), "is about the cluster of a --kubeconfig", id="whose"),
        pytest.param(("--kubeconfig", "/there/is/none"), "kubeconfig /there/is/none does not exist", id="no such file"),
        pytest.param(("--kubeconfig", "x", "--case", "sync"), "no such case; there are SchedulingPod", id="ours only"),
        pytest.param(("--case", "Gangs/5/cluster/equal"), "no such case; there are SchedulingPod", id="no cluster"),
    ],
)
def test_what_would_be_passed_over_is_refused(arguments: tuple[str, ...], said: str) -> None:
    """Options that contradict each other, and a cluster that cannot be reached, end it before the first row."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in {1, 2}
    assert said in result.output
    assert "measuring" not in result.output


def test_a_row_is_found_by_its_name() -> None:
    """As the page names it, whatever sizes are usual."""
    result = CliRunner().invoke(main, ["--list", "--case", "SchedulingBasic/70x30/https/distinct"])
    assert result.output.splitlines() == ["SchedulingBasic/70x30/https/distinct"]
    assert setting_of("SchedulingBasic/many/cycle/equal") is None
    assert setting_of("SchedulingBasic/70/carrier/equal") is None
