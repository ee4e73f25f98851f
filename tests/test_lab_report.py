"""The report of the lab in a real browser: charts are drawn, nothing fails, and the numbers equal the bundles."""

from __future__ import annotations

import io
import json
import math
import re
import shutil
from contextlib import redirect_stdout
from html import unescape
from pathlib import Path
from typing import Any

import attrs
import duckdb
import msgspec
import pytest

from pyscheduler.cli.main import main
from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.cli.result_text import legend
from pyscheduler_lab.cli.simulate_compare import estimate_texts
from pyscheduler_lab.report import page
from pyscheduler_lab.report.series import Group, RunSeries, bundles_of, groups_of, names_of, series_of_run
from pyscheduler_lab.results.bundle import Bundle, bundles_in
from pyscheduler_lab.results.columns import Unfinished
from tests.browser import Shown, browser, show

pytestmark = pytest.mark.slow

RUNS = ("default", "fifo")
SEEDS = 3
#: The place of the axes in a chart, in its own units.
LEFT, RIGHT, TOP, BOTTOM = 58.0, 628.0, 10.0, 262.0
#: Uses the page as a reader does, and writes what is seen into the document.
PROBE = """
<script>
const seen = {};
const chart = document.querySelector("#utilisation svg");
chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
seen.tip = document.querySelector("#utilisation .tip").textContent;
const clientX = chart.getBoundingClientRect().left + 100;
chart.dispatchEvent(new PointerEvent("pointermove", { clientX }));
seen.cursor = document.querySelector("#utilisation .cursor").getAttribute("x1");
const isShown = (each) => getComputedStyle(each).display !== "none";
const count = () => [...document.querySelectorAll("path.series")].filter(isShown).length;
seen.before = count();
const button = document.querySelector("#runs button");
button.click();
seen.after = count();
seen.pressed = button.getAttribute("aria-pressed");
button.click();
seen.again = count();
const names = performance.getEntriesByType("resource").map((each) => each.name);
seen.loaded = names.filter((each) => !each.startsWith("data:"));
const textContent = JSON.stringify(seen);
document.body.append(Object.assign(document.createElement("pre"), { id: "probe", textContent }));
</script>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a comparison of two policies."""
    found = tmp_path_factory.mktemp("report") / "results"
    trace = ("--trace", "philly", "--vc", "vc1", "--jobs", "30", "--nodes", "4x8gpu")
    main_quietly("simulate", *trace, "--compare", "default,fifo", "--out", str(found))
    return found


@pytest.fixture(scope="module")
def report(folder: Path) -> Path:
    """Return the file of the report."""
    return report_of(folder)


@pytest.fixture(scope="module")
def shown(report: Path) -> Shown:
    """Return the report as the browser shows it, after it was used."""
    return used(report)


@pytest.fixture(scope="module")
def seeds_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a comparison over seeds; `terminal.txt` beside it has what was printed."""
    found = tmp_path_factory.mktemp("seeds") / "results"
    trace = ("--trace", "philly", "--vc", "vc1", "--jobs", "60", "--nodes", "4x8gpu", "--seeds", str(SEEDS))
    with redirect_stdout(io.StringIO()) as terminal:
        main_quietly("simulate", *trace, "--compare", "fifo,default", "--out", str(found))
    found.with_name("terminal.txt").write_text(terminal.getvalue(), encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def seeds_shown(seeds_folder: Path) -> Shown:
    """Return the report over seeds as the browser shows it, after it was used."""
    return used(report_of(seeds_folder))


def report_of(folder: Path) -> Path:
    """Write the report of a comparison beside it, and return the file."""
    file = folder.parent / "report.html"
    main_quietly("lab", "report", str(folder), "-o", str(file))
    return file


def page_of(*groups: Group, title: str = "t") -> bytes:
    """Return the page that the command would write."""
    return page.page_of(groups, title=title, texts_of=estimate_texts, legend=legend)


def used(report: Path) -> Shown:
    """Return a report as the browser shows it, after it was used."""
    used = report.with_name("used.html")
    used.write_text(report.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8")
    return show(used, report.with_name("profile"))


def main_quietly(*arguments: str) -> None:
    """Run `pyscheduler`."""
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code  # noqa: PT017 - click always raises it


def bundle_of(folder: Path, name: str) -> Bundle:
    """Return the bundle of a policy."""
    return next(each for each in bundles_in(folder) if each.run.settings.policy == name)


def number(bundle: Bundle, query: str) -> float:
    """Return the number that DuckDB finds in the Parquet files of a bundle."""
    for table in ("jobs", "pods", "nodes"):
        query = query.replace(f"${table}", f"'{bundle.folder / f'{table}.parquet'}'")
    return float(duckdb.sql(query).fetchall()[0][0])


def points(shown: Shown, chart: str, run: int) -> list[tuple[float, float]]:
    """Return the points of the line of a run, in the units of the chart."""
    figure = shown.html.partition(f'<figure id="{chart}">')[2].partition("</figure>")[0]
    line = re.search(rf'<path class="series" d="([^"]*)"[^>]*data-group="{run}"', figure)
    assert line is not None, f"{chart}: no line of run {run}"
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", line[1])]


def part(y: float) -> float:
    """Return a place on the y axis as a part of its length."""
    return (BOTTOM - y) / (BOTTOM - TOP)


def test_console_errors_are_seen(tmp_path: Path) -> None:
    """A script that fails is found."""
    file = tmp_path / "bad.html"
    file.write_text('<p>x</p><script>throw new Error("broken")</script>')
    assert any("broken" in line for line in show(file, tmp_path / "profile").console)


def test_charts_are_drawn_and_nothing_fails(shown: Shown) -> None:
    """Each chart has a line for each run, the console is empty, and the page loads nothing."""
    assert shown.console == []
    for chart in ("waits", "utilisation", "waiting"):
        for run in range(len(RUNS)):
            assert len(points(shown, chart, run)) > 10
    assert shown.html.count('class="dot"') == len(RUNS)
    assert seen(shown)["loaded"] == []


def test_page_loads_nothing(report: Path) -> None:
    """The file names no other file, and its policy forbids the browser to load one."""
    text = report.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.findall(r'(?:src|href)="(?!data:,")[^"]*"', text)
    assert len(text.encode()) <= page.MOST_BYTES


def seen(shown: Shown) -> dict[str, Any]:
    """Return what the probe has seen."""
    found = re.search(r'<pre id="probe">(.*?)</pre>', shown.html, re.DOTALL)
    assert found is not None, shown.console
    noted: dict[str, Any] = json.loads(unescape(found[1]))
    return noted


def test_runs_can_be_hidden_and_points_be_read(shown: Shown) -> None:
    """A button hides the lines of its run; the pointer and the arrow keys show the values at a time."""
    noted = seen(shown)
    assert noted["before"] == noted["again"] == 4 * len(RUNS)
    assert noted["after"] == noted["before"] - 4
    assert noted["pressed"] == "false"
    assert all(f"{name}: " in noted["tip"] for name in RUNS)
    assert float(noted["cursor"]) > LEFT


@pytest.mark.parametrize(("run", "name"), [*enumerate(RUNS)], ids=RUNS)
def test_numbers_are_those_of_the_bundle(folder: Path, shown: Shown, run: int, name: str) -> None:
    """DuckDB finds in the Parquet files what the table and the lines show."""
    bundle = bundle_of(folder, name)
    cells = {
        column: float(value)
        for column, value in re.findall(
            rf'<tr data-column="(\w+)">(?:(?!</tr>).)*?data-group="{run}" data-value="([^"]+)"', shown.html, re.DOTALL
        )
    }
    assert cells["evicted_jobs"] == 0  # the waits below are those of jobs that ran once
    wait = "started_s - arrival_s"
    for column, query in {
        "jobs": "select count(*) from $jobs",
        "finished": "select count(*) from $jobs where outcome = 'finished'",
        "wait_mean_s": f"select avg({wait}) from $jobs",
        "wait_p90_s": f"select quantile_cont({wait}, 0.9) from $jobs",
        "jct_mean_s": "select avg(ended_s - arrival_s) from $jobs",
        "makespan_s": "select max(ended_s) - min(arrival_s) from $jobs",
    }.items():
        assert cells[column] == pytest.approx(number(bundle, query), abs=1e-5), column
    used = "select sum(duration_s * workers * gpus_per_worker) from $jobs"
    whole = number(bundle, "select sum(gpus) from $nodes") * cells["makespan_s"]
    line = points(shown, "utilisation", run)
    mean = sum(part(y) for _, y in line) / len(line)
    assert mean == pytest.approx(number(bundle, used) / whole, abs=1e-3)
    assert cells["gpu_utilisation"] == pytest.approx(number(bundle, used) / whole, abs=1e-5)
    most = max(number(bundle_of(folder, each), f"select max({wait}) from $jobs") for each in RUNS)
    x, y = points(shown, "waits", run)[150]
    assert part(y) == pytest.approx(0.75, abs=1e-3)
    drawn = 10 ** ((x - LEFT) / (RIGHT - LEFT) * math.log10(most))
    expected = max(number(bundle, f"select quantile_cont({wait}, 0.75) from $jobs"), 1.0)
    assert math.log(drawn) == pytest.approx(math.log(expected), abs=0.01)
    dot = re.search(rf'data-group="{run}" data-team="[^"]*" data-value="([^"]+)"', shown.html)
    assert dot is not None
    assert float(dot[1]) == pytest.approx(cells["wait_mean_s"])


def test_mean_of_the_parts_is_the_number_of_the_table(folder: Path) -> None:
    """The waiting time of all jobs is the area below the line of waiting jobs."""
    for bundle in bundles_in(folder):
        run = series_of_run(bundle)
        waited = sum(value or 0.0 for value in run.waiting) * run.seconds / len(run.waiting)
        assert waited == pytest.approx((run.cells["wait_mean_s"] or 0.0) * bundle.tables.jobs.num_rows, rel=1e-3)


def test_runs_have_different_names(folder: Path) -> None:
    """A run is named after its policy, and after its folder if another one has the same settings."""
    bundles = bundles_in(folder)
    assert names_of(bundles) == [*RUNS]
    twice = names_of([bundles[0], bundles[0]])
    assert twice == [f"default ({bundles[0].folder})"] * 2


def test_too_large_a_report_is_an_error(folder: Path) -> None:
    """More runs than fit into 2 MB are refused in one line."""
    (one, *_) = bundles_in(folder)
    runs: list[RunSeries] = [series_of_run(one)] * 1000
    with pytest.raises(
        ConfigError, match=r"of 1000 runs would have [\d,]+ bytes, more than 2,000,000; give fewer runs"
    ):
        page_of(Group(name="x", runs=runs))


def test_waits_of_unfinished_jobs_are_lower_bounds(folder: Path) -> None:
    """With a line below the table; a report of runs that finished all jobs has neither."""
    done = series_of_run(next(iter(bundles_in(folder))))
    why = Unfinished(outcome="never_ran", reason="NoReason", jobs=1, message="")
    pages = [
        page_of(Group(name="x", runs=[one])).decode() for one in (done, msgspec.structs.replace(done, unfinished=[why]))
    ]
    cells = [re.findall(r'data-value="[^"]+">(&gt;)?', each) for each in pages]
    assert [[*map(len, found)].count(4) for found in cells] == [0, 4]
    assert [each.count("a lower bound, because jobs that did not finish") for each in pages] == [0, 1]


def test_text_of_bundles_is_escaped(folder: Path, tmp_path: Path) -> None:
    """A name with markup is shown, and never read as markup."""
    (one, *_) = bundles_in(folder)
    name = "</script><script>console.error('x')</script>"
    file = tmp_path / "page.html"
    file.write_bytes(page_of(Group(name=name, runs=[series_of_run(one)]), title=name))
    browser()
    assert show(file, tmp_path / "profile").console == []


def test_seeds_of_a_policy_share_a_colour(seeds_shown: Shown) -> None:
    """Each chart has a thin line for each seed, in the colour of its policy; a button hides all seeds of a policy."""
    assert seeds_shown.console == []
    lines = re.findall(
        r'<path class="(series[^"]*)"[^>]*stroke="([^"]*)"[^>]*data-group="(\d)" data-seed="(\d)"', seeds_shown.html
    )
    assert sorted(lines) == sorted(
        ("series thin", f"var(--run-{group})", str(group), str(seed))
        for group in range(2)
        for seed in range(SEEDS)
        for _chart in range(4)
    )
    noted = seen(seeds_shown)
    assert (noted["before"], noted["after"], noted["again"]) == (4 * 2 * SEEDS, 4 * SEEDS, 4 * 2 * SEEDS)
    assert re.findall(r"</svg>(\w+ \(\d seeds\))</button>", seeds_shown.html) == [
        f"fifo ({SEEDS} seeds)",
        f"default ({SEEDS} seeds)",
    ]
    assert [noted["tip"].count(f"{name}: ") for name in ("fifo", "default")] == [1, 1]


def test_table_over_seeds_is_that_of_the_terminal(seeds_folder: Path, seeds_shown: Shown) -> None:
    """It has the same order of policies, means, intervals, marks and legend."""
    html = seeds_shown.html
    printed = seeds_folder.with_name("terminal.txt").read_text(encoding="utf-8").splitlines()
    begin = next(at for at, line in enumerate(printed) if line.split() == ["fifo", "default"])
    end = printed.index("", begin)
    rows = [re.findall(r">([^<>]+)</t[hd]>", row) for row in html.split("<tr")]
    shown_rows = [" ".join(unescape(" ".join(row)).split()) for row in rows]
    marked = [line for line in printed[begin + 1 : end] if "±" in line]
    assert len(marked) > 20
    assert any(line.endswith(("=", "≈")) for line in marked)
    for line in marked:
        assert " ".join(line.split()) in shown_rows
    for line in [next(line for line in printed if line.startswith("mean of")), *printed[begin + 1 + len(marked) : end]]:
        assert line in unescape(html)


def test_means_are_those_of_the_bundles(seeds_folder: Path, seeds_shown: Shown) -> None:
    """DuckDB finds in the Parquet files of all seeds the mean that the table shows."""
    row = seeds_shown.html.partition('<tr data-column="wait_mean_s">')[2].partition("</tr>")[0]
    for group, name in enumerate(("fifo", "default")):
        waits = [
            number(bundle, "select avg(started_s - arrival_s) from $jobs")
            for bundle in bundles_in(seeds_folder)
            if bundle.run.settings.policy == name
        ]
        assert len(waits) == SEEDS
        shown = re.search(rf'data-group="{group}" data-value="([^"]+)"', row)
        assert shown is not None
        assert float(shown[1]) == pytest.approx(sum(waits) / SEEDS, abs=1e-5)


def test_only_runs_that_differ_in_their_seed_are_a_group(folder: Path, seeds_folder: Path) -> None:
    """A second run with a seed, another setting and other code each begin another group."""
    zero, one, *_ = bundles_in(seeds_folder / "fifo")

    def other(**changes: object) -> Bundle:
        return attrs.evolve(one, run=msgspec.structs.replace(one.run, **changes))

    def sizes(*bundles: Bundle) -> list[int]:
        return [len(each.runs) for each in groups_of(bundles)]

    assert sizes(zero, one) == [2]
    assert sizes(zero, one, zero, one) == [2, 2]
    assert sizes(zero, other(settings=msgspec.structs.replace(one.run.settings, jobs=59))) == [1, 1]
    assert sizes(zero, other(local_code={"mine": "1"})) == [1, 1]
    assert sizes(zero, other(plugin_files={"tasks.csv": "1"})) == [1, 1]
    assert [(each.name, len(each.runs)) for each in groups_of(bundles_of(folder))] == [(name, 1) for name in RUNS]


def test_groups_have_different_lines(folder: Path, tmp_path: Path) -> None:
    """32 groups each have a colour and dashes that no other one has."""
    run = series_of_run(next(iter(bundles_in(folder))))
    file = tmp_path / "page.html"
    file.write_bytes(page_of(*(Group(name=f"x{number}", runs=[run]) for number in range(32))))
    keys = re.findall(r'stroke="([^"]*)" stroke-width="3" stroke-dasharray="([^"]*)"', show(file, tmp_path / "b").html)
    assert (len(keys), len({*keys})) == (32, 32)


def test_broken_comparison_is_an_error(seeds_folder: Path, tmp_path: Path) -> None:
    """The message names the file."""
    shutil.copytree(seeds_folder / "fifo" / "seed-0", tmp_path / "seed-0")
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"comparison\.json: not a comparison: "):
        bundles_of(tmp_path)


def test_mistakes_exit_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As those of the other commands of the lab."""
    with pytest.raises(SystemExit) as ended:
        main(("lab", "report", str(tmp_path / "none")))
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_lines_contrast_with_both_backgrounds() -> None:
    """Each colour of a run has a contrast of at least 3 with both backgrounds (WCAG 2, 1.4.11)."""
    text = (Path(page.__file__).parent / "page.css").read_text(encoding="utf-8")
    colours = re.findall(r"--run-\d: (#\w{6})", text)
    papers = re.findall(r"--paper: (#\w{6})", text)
    assert (len(colours), len(papers)) == (8, 2)
    for paper in papers:
        for colour in colours:
            dark, light = sorted((luminance(paper), luminance(colour)))
            assert (light + 0.05) / (dark + 0.05) >= 3, (colour, paper)
