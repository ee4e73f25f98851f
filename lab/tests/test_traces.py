"""Traces: the schema, the readers of other forms, and the messages about wrong values."""

from __future__ import annotations

import gzip
import hashlib
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.traces import Job, Trace
from pyscheduler_lab.traces.catalog import TRACES
from pyscheduler_lab.traces.found import Shape
from pyscheduler_lab.traces.schema import COLUMNS, REQUIRED

HEAD = "name,arrival,duration,workers,gpu,cpu,memory"
ROW = "j,3,40,16,1,8,32Gi"
OLD_HEAD = "job_id,vc,arrival_s,duration_s,workers,gpu_per_worker,cpu_milli_per_worker,memory_mib_per_worker"
OLD_ROW = "j,a,3,40,16,1,8000,32768"
PACKED = "nodepack_workers,nodepack_gpu_per_worker"


def write(path: Path, *lines: str) -> str:
    """Write a trace; return its path as it is typed."""
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_every_column_of_the_schema_is_read(tmp_path: Path) -> None:
    """Columns that the schema does not know are kept for the results."""
    values = {
        "name": "j",
        "arrival": "3.5",
        "duration": "inf",
        "workers": "4",
        "min_workers": "2",
        "cpu": "1500m",
        "memory": "32Gi",
        "gpu": "1",
        "gpu_milli": "460",
        "gpu_model": "A100|T4",
        "vc": "a",
        "priority": "-5",
        "class": "LS",
        "node_selector": "zone=a;rack=3",
        "user": "u7",
    }
    assert [*values][:-1] == [column.name for column in COLUMNS]
    (job,) = Trace.read(write(tmp_path / "t.csv", ",".join(values), ",".join(values.values()))).jobs
    assert job == Job(
        name="j",
        arrival=3.5,
        duration=math.inf,
        workers=4,
        min_workers=2,
        cpu_milli=1500,
        memory_mib=32768,
        gpus=1,
        gpu_milli=460,
        gpu_models=("A100", "T4"),
        team="a",
        priority=-5,
        job_class="LS",
        node_selector={"zone": "a", "rack": "3"},
        columns={"user": "u7"},
    )
    assert (job.gpu_count, job.shares_gpus, job.is_gang, job.is_endless) == (1.84, True, True, True)


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    """Numbers may be of any type; a mistake names the row."""
    columns = {"name": ["a", "b"], "arrival": [0, 5], "duration": [1.5, 2.0], "gpu": [8.0, 1.0], "cpu": [0.5, 4.0]}
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({**columns, "memory": [1 << 30, 1 << 20]}), path)
    assert Trace.read(path).jobs == (
        Job(name="a", arrival=0, duration=1.5, gpus=8, cpu_milli=500, memory_mib=1024),
        Job(name="b", arrival=5, duration=2, gpus=1, cpu_milli=4000, memory_mib=1),
    )
    parquet.write_table(pa.table({**columns, "gpu": [8.0, 0.5]}), path)
    with pytest.raises(ConfigError, match=r"row 2, column gpu: the value is '0\.5'; it must be a whole number"):
        Trace.read(path)
    parquet.write_table(pa.table({**columns, "duration": [8, None]}), path)
    with pytest.raises(ConfigError, match="row 2, column duration: the value is missing"):
        Trace.read(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ConfigError, match="cannot be read"):
        Trace.read(path)


def test_missing_columns_have_defaults(tmp_path: Path) -> None:
    """Only arrival and duration are required; rows without names are numbered."""
    path = tmp_path / "mine.csv.gz"
    path.write_bytes(gzip.compress(b"arrival,duration\n7.5,1\n2,1\n"))
    trace = Trace.read(path)
    assert [(job.name, job.arrival) for job in trace.jobs] == [("job-2", 2), ("job-1", 7.5)]
    first = trace.jobs[0]
    assert (first.workers, first.min_workers, first.gpus, first.cpu_milli, first.gpu_milli) == (1, 1, 0, 0, 1000)
    assert (trace.name, trace.source) == ("mine", str(path))
    assert trace.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_empty_cells_have_defaults(tmp_path: Path) -> None:
    """As files of pandas have them: an empty cell of an optional column is as if the file had no such column."""
    names = [column.name for column in COLUMNS]
    path = write(tmp_path / "mine.csv", ",".join(names) + "\n" + ",".join("5" if n in REQUIRED else "" for n in names))
    (job,) = Trace.read(path).jobs
    assert job == Job(name="job-1", arrival=5, duration=5)


@pytest.mark.parametrize(
    ("text", "passed_on"),
    [
        ("arrival,duration,gpu,gpu_mili,owner\n0,1,1,500,x\n", "gpu_mili (did you mean gpu_milli?), owner"),
        ("arrival,duration,GPU\n0,1,1\n", "GPU (did you mean gpu?)"),
        ("arrival,duration,est_duration,gpus,gpu\n0,1,2,1,1\n", "est_duration, gpus"),
        ("arrival,duration,gpu\n0,1,1\n", None),
        (
            "job_id,arrival_s,duration_s,workers,cpu_milli_per_worker,memory_norm_per_worker,jobclass\na,0,1,1,1,1,x\n",
            "jobclass (did you mean job_class?)",
        ),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpuspec\na,1,1,1,1000,x\n", "gpuspec (did you mean gpu_spec?)"),
    ],
    ids=["schema", "case", "not missing", "none", "gangs", "openb"],
)
def test_columns_that_are_not_read_are_noted(text: str, passed_on: str | None, tmp_path: Path) -> None:
    """With the missing name that is near, because a misspelt column changes the jobs."""
    trace = Trace.read(write(tmp_path / "mine.csv", text))
    assert trace.notes == ({} if passed_on is None else {"columns passed on": passed_on})


@pytest.mark.parametrize("name", ["openb", "openb-gpuspec33", "openb-multigpu50", "kalos"])
def test_written_trace_is_read_as_equal_jobs(name: str, tmp_path: Path) -> None:
    """`write` uses the schema, whatever form the trace was read from."""
    trace = Trace.read(name).first(500)
    trace.write(tmp_path / "copy.csv")
    assert Trace.read(tmp_path / "copy.csv").jobs == trace.jobs


def test_trace_made_in_python() -> None:
    """Jobs are sorted by arrival; equal jobs have an equal hash; jobs that cannot be replayed are refused."""
    one, two = Job(name="b", arrival=0, duration=60, gpus=8), Job(name="a", arrival=0, duration=60)
    trace = Trace(jobs=[one, two])
    assert trace.jobs == (two, one)
    assert (len(trace), len(trace.first(1))) == (2, 1)
    assert trace.sha256 == Trace(jobs=[two, one]).sha256 != trace.first(1).sha256
    with pytest.raises(ConfigError, match="two jobs have the name b"):
        Trace(jobs=[one, one])
    for wrong, text in (
        ({"name": "B_1"}, "job B_1: name 'B_1' cannot be the name of an object"),
        ({"duration": -1}, "duration is -1; it must be from 0"),
        ({"workers": 2, "min_workers": 3}, "min_workers is 3; it must be from 1 to workers"),
        ({"gpus": 1001}, "gpus is 1001; it must be from 0 to 1000"),
        ({"gpus": 1, "gpu_milli": 0}, "gpu_milli is 0; it must be from 1 to 1000"),
        ({"gpu_milli": 500}, "gpu_milli is 500, but a worker has 0 GPUs; a part of a GPU is 1 GPU"),
    ):
        with pytest.raises(ConfigError) as raised:
            Trace(jobs=[Job(**{"name": "b", "arrival": 0, "duration": 60, **wrong})])
        assert text in str(raised.value)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        pytest.param(["sn,cpu"], "not a trace of jobs: missing columns: arrival, duration", id="columns"),
        pytest.param(
            ["arrival_time,Duraton,vc"],
            "missing columns: arrival, duration; did you mean arrival_time, Duraton? "
            "Then use --trace-columns arrival=arrival_time,duration=Duraton",
            id="columns with similar names",
        ),
        pytest.param(
            [HEAD.replace(",", ";")],
            'missing columns: arrival, duration; line 1 has ";" between columns, and must have a comma',
            id="semicolons",
        ),
        pytest.param([HEAD.replace(",", "\t")], "line 1 has a tab between columns, and must have a comma", id="tabs"),
        pytest.param([HEAD], "the trace has no jobs", id="empty"),
        pytest.param([f"{HEAD},gpu", f"{ROW},1"], "the columns have no names of their own: gpu", id="column twice"),
        pytest.param([HEAD, ROW, "k,,1,1,1,1,1"], "line 3, column arrival: the value is missing", id="missing"),
        pytest.param([HEAD, ROW.replace("40", "long")], "line 2, column duration: the value is 'long'", id="word"),
        pytest.param([HEAD, ROW.replace("40", "-1")], "line 2, column duration: the value is '-1'", id="negative"),
        pytest.param([HEAD, ROW.replace("40", "nan")], "column duration: the value is 'nan'", id="no number"),
        pytest.param([HEAD, ROW.replace(",3,", ",inf,")], "column arrival: the value is 'inf'", id="never arrives"),
        pytest.param([HEAD, ROW.replace("40", "1_0")], "column duration: the value is '1_0'", id="underscore"),
        pytest.param([HEAD, ROW.replace("40", "٤")], "column duration: the value is '٤'", id="other digits"),
        pytest.param([HEAD, ROW.replace("40", "1e300")], "column duration: the value is '1e300'", id="ages"),
        pytest.param([HEAD, ROW.replace(",3,", ",1e12,")], "column arrival: the value is '1e12'", id="far future"),
        pytest.param([HEAD, "j,a,3"], "line 2 has no workers, gpu, cpu, memory", id="short row"),
        pytest.param([HEAD, f"{ROW},9"], "line 2 has more values than there are columns", id="long row"),
        pytest.param([HEAD, ROW.replace("16", "0.5")], "line 2, column workers: the value is '0.5'", id="half"),
        pytest.param(
            [HEAD, ROW.replace("16", "0")], "column workers: the value is '0'; it must be a number from 1", id="nobody"
        ),
        pytest.param([HEAD, ROW.replace("16", "100001")], "must be a number from 1 to 100000", id="too many workers"),
        pytest.param(
            [HEAD, ROW, ROW.replace("j,", "k,").replace(",1,", ",1.5,")],
            "line 3, column gpu: the value is '1.5'; it must be a whole number",
            id="part of a GPU",
        ),
        pytest.param(
            [HEAD, ROW.replace(",8,", ",-8,")], "column cpu: the value is '-8'; it must be a number of CPUs", id="cpu"
        ),
        pytest.param(
            [HEAD, ROW.replace("32Gi", "32GB")],
            "column memory: the value is '32GB'; it must be an amount of memory",
            id="memory",
        ),
        pytest.param(
            [HEAD, ROW.replace("j,", "J_1,")], "line 2, column name: name 'J_1' cannot be the name", id="name"
        ),
        pytest.param(
            [HEAD, ROW, ROW.replace("j,", "k,"), ROW], "two jobs have the name j: line 2 and line 4", id="twice"
        ),
        pytest.param(
            [f"{HEAD},gpu_milli", f"{ROW.replace(',1,', ',0,')},500"],
            "line 2, column gpu_milli: gpu_milli is 500, but a worker has 0 GPUs",
            id="part of no GPU",
        ),
        pytest.param([f"{HEAD},gpu_milli", f"{ROW},0"], "column gpu_milli: the value is '0'", id="nothing of a GPU"),
        pytest.param(
            ["name,cpu_milli,memory_mib,num_gpu,gpu_milli", "a,1,1,0,500"],
            "line 2, column gpu_milli: gpu_milli is 500, but a worker has 0 GPUs",
            id="part of no GPU in openb",
        ),
        pytest.param(
            [f"{HEAD},priority", f"{ROW},3000000000"],
            "column priority: the value is '3000000000'; it must be a number from -2147483648 to 1000000000",
            id="priority",
        ),
        pytest.param([f"{HEAD},gpu_milli", f"{ROW},1001"], "column gpu_milli: the value is '1001'", id="over one GPU"),
        pytest.param(
            [f"{HEAD},min_workers", f"{ROW},17"],
            "column min_workers: the value is '17'; it must be a number from 1 to 16",
            id="minimum",
        ),
        pytest.param(
            [f"{HEAD},node_selector", f"{ROW},zone"],
            "column node_selector: the value is 'zone'; it must be labels",
            id="selector",
        ),
        pytest.param(
            [f"{HEAD},node_selector", f"{ROW},zone=a/b"],
            "column node_selector: the value is 'zone=a/b'; it must be labels",
            id="selector's value",
        ),
        pytest.param(
            [f"{HEAD},gpu_model", f"{ROW},A 100"],
            "column gpu_model: 'A 100' cannot be the value of a label",
            id="model",
        ),
        pytest.param(
            [OLD_HEAD, OLD_ROW.replace("16", "0.5")], "line 2, column workers: the value is '0.5'", id="other form"
        ),
        pytest.param(
            [OLD_HEAD, OLD_ROW.replace("8000", "0.1")],
            "column cpu_milli_per_worker: the value is '0.1'",
            id="other form, cpu",
        ),
        pytest.param(
            [OLD_HEAD, OLD_ROW.replace(",1,", ",0.5,")],
            "column gpu_per_worker: the value is '0.5'",
            id="other form, half a GPU",
        ),
        pytest.param(
            [f"{OLD_HEAD},{PACKED}", f"{OLD_ROW},2.5,8"], "column nodepack_workers: the value is '2.5'", id="packed"
        ),
        pytest.param(
            [f"{OLD_HEAD},{PACKED}", f"{OLD_ROW.replace(',1,', ',3,')},2,8"],
            "column nodepack_gpu_per_worker: the value is 8, no multiple",
            id="packed rest",
        ),
        pytest.param(
            [OLD_HEAD.replace(",workers", ""), "j,a,3,40,1,1,1"],
            "not a trace of jobs: missing columns: workers",
            id="other form, columns",
        ),
    ],
)
def test_mistakes_in_a_trace_are_reported(tmp_path: Path, lines: list[str], complaint: str) -> None:
    """In one line that names the file, the line and the column."""
    trace = write(tmp_path / "t.csv", *lines)
    with pytest.raises(ConfigError) as raised:
        Trace.read(trace)
    assert raised.value.source == trace
    assert complaint in " ".join(raised.value.problems)


def test_mistakes_of_ten_lines_are_reported_at_once(tmp_path: Path) -> None:
    """The first mistake of each line, also before a line with too few values."""
    wrong = ROW.replace("40", "long").replace("32Gi", "32GB")
    trace = write(tmp_path / "t.csv", HEAD, wrong, ROW, ROW.replace("16", "0"), "j,a,3")
    with pytest.raises(ConfigError) as raised:
        Trace.read(trace)
    assert [problem.partition(":")[0] for problem in raised.value.problems] == [
        "line 2, column duration",
        "line 4, column workers",
        "line 5 has no workers, gpu, cpu, memory",
    ]
    with pytest.raises(ConfigError) as raised:
        Trace.read(write(tmp_path / "many.csv", HEAD, *[wrong] * 30))
    *first, last = raised.value.problems
    assert (len(first), last) == (10, "nothing after line 11 was read")


def test_unreadable_trace_is_reported(tmp_path: Path) -> None:
    """Unknown names, directories, files that break off, and text in another encoding."""
    with pytest.raises(ConfigError, match='no file "nobody", and no trace of that name; known are philly, kalos'):
        Trace.read("nobody")
    with pytest.raises(ConfigError, match="the directory has no recordings"):
        Trace.read(tmp_path)
    whole = gzip.compress(f"{HEAD}\n{ROW}\n".encode())
    (tmp_path / "broken.gz").write_bytes(whole[:-12])
    with pytest.raises(ConfigError, match="cannot be read: "):
        Trace.read(tmp_path / "broken.gz")
    (tmp_path / "latin.csv").write_bytes(f"{HEAD}\n{ROW}\n".replace("j", "ü").encode("latin-1"))
    with pytest.raises(ConfigError, match="line 2: not UTF-8 text"):
        Trace.read(tmp_path / "latin.csv")


def test_virtual_clusters_are_never_merged_without_a_word(tmp_path: Path) -> None:
    """One is chosen, or all share the nodes because the user says so."""
    trace = write(tmp_path / "t.csv", f"{HEAD},vc", f"{ROW},a", f"{ROW.replace('j,', 'k,')},b")
    with pytest.raises(ConfigError, match=r"choose one with vc .*: a, b; or let all of them .* merge_vcs=True"):
        Trace.read(trace)
    assert [job.name for job in Trace.read(trace, vc="b").jobs] == ["k"]
    assert [job.name for job in Trace.read(trace, merge_vcs=True).jobs] == ["j", "k"]
    with pytest.raises(ConfigError, match='no virtual cluster "c" in the trace; it has a, b'):
        Trace.read(trace, vc="c")


@pytest.mark.parametrize(
    ("shape", "worker"),
    [
        pytest.param("worker", (16, 1, 8000, 32768), id="a worker per GPU"),
        pytest.param("nodepack", (2, 8, 64000, 262144), id="whole nodes"),
        pytest.param(None, (2, 8, 64000, 262144), id="whole nodes by default"),
    ],
)
def test_both_shapes_request_the_same_total(
    tmp_path: Path, shape: Shape | None, worker: tuple[int, int, int, int]
) -> None:
    """CPU and memory go with a worker's GPUs."""
    trace = write(tmp_path / "t.csv", f"{OLD_HEAD},{PACKED}", f"{OLD_ROW},2,8")
    (job,) = Trace.read(trace, shape=shape).jobs
    assert (job.workers, job.gpus, job.cpu_milli, job.memory_mib) == worker
    assert (job.name, job.arrival, job.duration, job.gpu_count, job.is_gang) == ("j", 3, 40, 16, True)


@pytest.mark.parametrize("lines", [[HEAD, ROW], [OLD_HEAD, OLD_ROW]], ids=["schema", "other form"])
def test_shape_that_a_file_has_not_is_refused(tmp_path: Path, lines: list[str]) -> None:
    """The message names the shape that the file has."""
    with pytest.raises(ConfigError, match="shape: the trace has no columns for nodepack; use worker"):
        Trace.read(write(tmp_path / "t.csv", *lines), shape="nodepack")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "figures"),
    [
        # Jobs, workers, jobs with parts of GPUs, jobs that need models: from the notices of the data.
        ("philly", {"merge_vcs": True}, (10_879, None, 0, 0)),
        ("kalos", {}, (319, None, 0, 0)),
        ("alibaba-2017", {}, (31_756, 2_551_075, 0, 0)),
        ("openb", {}, (8152, 8152, 3078, 0)),
        ("openb-cpu050", {}, (7439, 7439, None, 0)),
        ("openb-gpushare100", {}, (8152, 8152, None, 0)),
        ("openb-gpuspec33", {}, (8152, 8152, None, 2388)),
        ("openb-multigpu50", {}, (9061, 9061, None, 0)),
    ],
)
def test_traces_of_the_lab_agree_with_their_notices(
    name: str, options: dict[str, Any], figures: tuple[int | None, ...]
) -> None:
    """Each can be read by its name, with its terms."""
    trace = Trace.read(name, **options)
    jobs = trace.jobs
    found = (
        len(jobs),
        sum(job.workers for job in jobs),
        sum(job.shares_gpus for job in jobs),
        sum(bool(job.gpu_models) for job in jobs),
    )
    assert [one for one, wanted in zip(found, figures, strict=True) if wanted is not None] == [
        wanted for wanted in figures if wanted is not None
    ]
    assert trace.licence
    assert trace.origin
    assert TRACES[name].file in TRACES[name].notice
    if name == "openb":
        assert sum(job.gpu_count for job in jobs) == pytest.approx(6086.8)
        assert max(job.arrival + job.duration for job in jobs) <= 12_902_960
    if name == "kalos":
        assert sum(job.gpu_count * job.duration for job in jobs) / 3600 == pytest.approx(456_843, abs=1)


SWF = """\
; MaxNodes: 4
; MaxProcs: 32
; Note: a comment
  1 0 10 100 16 -1 2048 16 200 -1 1 3 1 5 1 -1 -1 -1
  2 5 -1 50.5 -1 -1 -1 4 -1 1024 0 4 1 -1 2 -1 1 -1
  3 7 -1 -1 8 -1 -1 -1 -1 -1 5 4 1 -1 2 -1 -1 -1
  4 9 -1 20 -1 -1 -1 -1 -1 -1 1 4 1 -1 2 -1 -1 -1
"""


def test_swf_is_read(tmp_path: Path) -> None:
    """-1 is unknown: such jobs are left out and counted where they could not run; memory is per processor."""
    trace = Trace.read(write(tmp_path / "log.swf", SWF.rstrip()))
    assert [
        (job.name, job.arrival, job.duration, job.workers, job.cpu_milli, job.memory_mib) for job in trace.jobs
    ] == [
        ("swf-1", 0, 100, 2, 8000, 16),
        ("swf-2", 5, 50.5, 1, 4000, 4),
    ]
    assert trace.notes == {"jobs left out: run time unknown": 1, "jobs left out: number of processors unknown": 1}
    assert trace.jobs[0].columns["user"] == "3"
    uneven = Trace.read(write(tmp_path / "uneven.swf", SWF.replace(" 2048 16 ", " 2048 33 ")))
    assert (uneven.jobs[0].workers, uneven.jobs[0].cpu_milli) == (5, 7000)
    assert uneven.notes["jobs with more CPUs than processors, because all pods of a job are equal"] == 1
    apart = Trace.read(tmp_path / "log.swf", shape="worker").jobs[0]
    assert (apart.workers, apart.cpu_milli, apart.memory_mib) == (16, 1000, 2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (SWF.replace(" 50.5 ", " -7 "), "line 5, column run_time: the value is '-7'; it must be a number of -1"),
        (SWF.replace(" 50.5 ", " -0.5 "), "column run_time: the value is '-0.5'; it must be 0 or more, or -1"),
        (SWF + "5 9 -1 20\n", "line 8 has 4 fields, not 18"),
        (SWF.replace("  2 5 ", "  2 x "), "line 5, column submit: the value is 'x'"),
    ],
)
def test_mistakes_in_swf_are_reported(text: str, complaint: str, tmp_path: Path) -> None:
    """With line and field."""
    with pytest.raises(ConfigError) as raised:
        Trace.read(write(tmp_path / "log.swf", text.rstrip()))
    assert complaint.split(";", maxsplit=1)[0] in " ".join(raised.value.problems)


def test_gpu_milli_without_gpus(tmp_path: Path) -> None:
    """A part of a GPU is one of 1 GPU if the column `gpu` is empty or missing; 0 says that there is none."""
    lines = ["arrival,duration,gpu,gpu_milli", "0,1,,500", "1,1,,1000", "2,1,,0", "3,1,0,0", "4,1,0,1000", "5,1,,"]
    jobs = Trace.read(write(tmp_path / "both.csv", *lines)).jobs
    assert [(job.gpus, job.gpu_milli) for job in jobs] == [
        *((1, 500), (1, 1000)),
        *((0, 1000), (0, 1000), (0, 1000), (0, 1000)),
    ]
    (job,) = Trace.read(write(tmp_path / "one.csv", "arrival,duration,gpu_milli", "0,1,250")).jobs
    assert (job.gpus, job.gpu_milli) == (1, 250)


def test_fields_of_swf_become_columns(tmp_path: Path) -> None:
    """Users, groups and queues can be teams and classes, which share the cluster; an unknown number has a name, too."""
    log = write(
        tmp_path / "log.swf", SWF.replace(" 1 3 1 5 ", " 1 300000 1 5 ").replace(" -1 2 -1 1 ", " -1 -1 -1 1 ").rstrip()
    )
    trace = Trace.read(log, columns={"vc": "user", "class": "queue", "priority": "queue"})
    assert [(job.team, job.job_class, job.priority) for job in trace.jobs] == [
        ("user-300000", "queue-1", 1),
        ("user-4", "queue-unknown", 0),
    ]
    assert [job.columns.keys() & {"user", "queue", "group"} for job in trace.jobs] == [{"group"}] * 2
    assert [job.name for job in Trace.read(log, vc="user-4", columns={"vc": "user"}).jobs] == ["swf-2"]


def test_columns_of_a_table_have_other_names(tmp_path: Path) -> None:
    """A column of the file takes the place of one of the schema; it is not passed on under its old name."""
    lines = ["submitted,seconds,owner,vc", "0,60,a,x", "5,60,b,x"]
    columns = {"arrival": "submitted", "duration": "seconds", "vc": "owner"}
    trace = Trace.read(write(tmp_path / "t.csv", *lines), columns=columns, merge_vcs=True)
    assert [(job.arrival, job.duration, job.team, job.columns) for job in trace.jobs] == [
        (0, 60, "a", {}),
        (5, 60, "b", {}),
    ]
    assert trace.notes == {}


@pytest.mark.parametrize(
    ("name", "columns", "complaint"),
    [
        ("t.csv", {"vcc": "owner"}, 'trace_columns: traces have no column "vcc"; known are name, arrival'),
        ("t.csv", {"vc": "team"}, 'vc would be the column "team", which is not there; there are arrival, duration'),
        ("log.swf", {"vc": "owner"}, 'trace_columns: SWF has no field "owner"; its fields are job, submit'),
        ("log.swf", {"gpu": "user"}, "trace_columns: of SWF, fields can become vc, class, priority, but not gpu"),
    ],
)
def test_mistakes_in_names_of_columns(name: str, columns: dict[str, str], complaint: str, tmp_path: Path) -> None:
    """The message has the names that there are."""
    write(tmp_path / "t.csv", "arrival,duration,owner", "0,1,a")
    write(tmp_path / "log.swf", SWF.rstrip())
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        Trace.read(tmp_path / name, columns=columns)
