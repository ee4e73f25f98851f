"""Traces of jobs and the clusters they are replayed on, as read from files and from the command line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.simulation.job_traces import Job, NodePool, Shape, read_jobs, read_pool

HEAD = "job_id,vc,arrival_s,duration_s,workers,gpu_per_worker,cpu_milli_per_worker,memory_mib_per_worker"
PACKED = "nodepack_workers,nodepack_gpu_per_worker"


def write(path: Path, *lines: str) -> str:
    """Write a trace; return its path as it is typed."""
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        pytest.param("24x8gpu", NodePool(count=24), id="as in the documentation"),
        pytest.param("3", NodePool(count=3), id="a number of nodes"),
        pytest.param("2x4gpu,32cpu", NodePool(count=2, gpus=4, cpu_milli=32_000), id="with CPUs"),
        pytest.param("2x4gpu,32cpu,512Gi", NodePool(count=2, gpus=4, cpu_milli=32_000, memory_mib=524_288), id="all"),
        pytest.param("1x0gpu,2Ti", NodePool(count=1, gpus=0, memory_mib=2_097_152), id="with memory"),
    ],
)
def test_clusters_are_read(text: str, pool: NodePool) -> None:
    """A node has 8 GPUs, 96 CPUs and 1 Ti unless something else is said."""
    assert read_pool(text) == pool
    assert (NodePool(count=1).gpus, NodePool(count=1).cpu_milli, NodePool(count=1).memory_mib) == (8, 96_000, 1 << 20)


@pytest.mark.parametrize("text", ["", "x8gpu", "0x8gpu", "-1", "24x8", "24x8gpu,", "8gpux24", "24x8gpu,1Ti,96cpu", "²"])
def test_invalid_nodes_are_rejected(text: str) -> None:
    """With an example of what does."""
    with pytest.raises(ConfigError, match=r"--nodes: .* must be like 24x8gpu"):
        read_pool(text)


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
    trace = write(tmp_path / "t.csv", f"{HEAD},{PACKED}", "j,a,3,40,16,1,8000,32768,2,8")
    (job,) = read_jobs(trace, shape=shape)
    assert (job.workers, job.gpus, job.cpu_milli, job.memory_mib) == worker
    assert (job.name, job.arrival, job.duration, job.gpu_count, job.is_gang) == ("j", 3, 40, 16, True)


def test_a_file_may_have_one_shape_and_no_virtual_clusters(tmp_path: Path) -> None:
    """Then there is nothing to choose; jobs come by arrival, and the file need not be compressed."""
    head = HEAD.replace(",vc", "")
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(f"{head}\nb,7.5,1,1,0,100,1\na,2,1,3,4,100,1\n".encode()))
    assert read_jobs(str(path)) == [
        Job(name="a", arrival=2, duration=1, workers=3, gpus=4, cpu_milli=100, memory_mib=1),
        Job(name="b", arrival=7.5, duration=1, workers=1, gpus=0, cpu_milli=100, memory_mib=1),
    ]


def test_teams_are_optional(tmp_path: Path) -> None:
    """All jobs of a file without the column are of one team, so that policies can be compared."""
    trace = write(tmp_path / "t.csv", HEAD.replace(",vc", ""), "j,3,40,16,1.0,8000,32768")
    assert [(job.team, job.gpus) for job in read_jobs(trace, all_vcs=True)] == [("default", 1)]


ROW = "j,a,3,40,16,1,8000,32768"


@pytest.mark.parametrize(
    ("lines", "options", "complaint"),
    [
        pytest.param(["sn,cpu"], {}, "not a trace of jobs: missing columns: job_id, arrival_s", id="columns"),
        pytest.param([HEAD], {}, "the trace has no jobs", id="empty"),
        pytest.param([HEAD, ROW, "k,b,0,1,1,1,1,1"], {}, "choose one with --vc: a, b", id="which vc"),
        pytest.param([HEAD, ROW], {"vc": "c"}, 'no virtual cluster "c" in the trace; it has a', id="unknown vc"),
        pytest.param([HEAD, ROW], {"shape": "nodepack"}, "no columns for this shape", id="shape"),
        pytest.param([HEAD, ROW.replace("40", "long")], {}, "duration_s of job j is 'long'", id="word"),
        pytest.param([HEAD, ROW.replace("40", "-1")], {}, "duration_s of job j is '-1'", id="negative"),
        pytest.param([HEAD, ROW.replace("40", "inf")], {}, "duration_s of job j is 'inf'", id="endless"),
        pytest.param([HEAD, "j,a,3"], {}, "line 2 has no duration_s, workers", id="short row"),
        pytest.param(
            [f"{HEAD.replace(',vc', '')},vc", "j,3,40,16,1,1,1,a", "k,3,40,16,1,1,1,b", "l,3,40,16,1,1,1"],
            {},
            "line 4 has no vc",
            id="short row of several vcs",
        ),
        pytest.param([HEAD, ROW.replace("16", "100001")], {}, "workers of job j is '100001'", id="too many workers"),
        pytest.param([HEAD, ROW.replace("16", "1e300")], {}, "must be a number from 0 to 100000", id="1e300 workers"),
        pytest.param([HEAD, ROW.replace("40", "1e300")], {}, "duration_s of job j is '1e300'", id="ages"),
        pytest.param([HEAD, ROW.replace(",3,", ",1e12,")], {}, "arrival_s of job j is '1e12'", id="far future"),
        pytest.param([HEAD, ROW.replace("j,", "J_1,")], {}, "'J_1' cannot be the name", id="name"),
        pytest.param([HEAD, ROW, ROW], {}, "two jobs have the same job_id", id="twice"),
        pytest.param([HEAD, ROW.replace("16", "0")], {}, "job j has no workers", id="nobody"),
        pytest.param([HEAD, ROW.replace("16", "0.5")], {}, "line 2: workers of job j is '0.5'; it must be", id="half"),
        pytest.param(
            [HEAD, ROW, ROW.replace("j,", "k,").replace(",1,", ",1.5,")],
            {},
            "line 3: gpu_per_worker of job k is '1.5'; it must be a whole number",
            id="one and a half",
        ),
        pytest.param([HEAD, ROW.replace("8000", "0.1")], {}, "cpu_milli_per_worker of job j is '0.1'", id="cpu"),
        pytest.param(
            [f"{HEAD},{PACKED}", f"{ROW},2.5,8"], {}, "line 2: nodepack_workers of job j is '2.5'", id="packed"
        ),
    ],
)
def test_mistakes_in_a_trace_are_reported(
    tmp_path: Path, lines: list[str], options: dict[str, str], complaint: str
) -> None:
    """In one line that names the file."""
    trace = write(tmp_path / "t.csv", *lines)
    with pytest.raises(ConfigError) as raised:
        read_jobs(trace, vc=options.get("vc"), shape="nodepack" if "shape" in options else None)
    assert raised.value.source == trace
    assert complaint in " ".join(raised.value.problems)


def test_unreadable_trace_is_reported(tmp_path: Path) -> None:
    """Names that nobody knows, directories, and files that break off."""
    with pytest.raises(ConfigError, match='no file "nobody", and no trace of that name; known are philly'):
        read_jobs("nobody")
    with pytest.raises(ConfigError, match="is a directory"):
        read_jobs(str(tmp_path))
    whole = gzip.compress(f"{HEAD}\n{ROW}\n".encode())
    (tmp_path / "broken.gz").write_bytes(whole[:-12])
    with pytest.raises(ConfigError, match="cannot be read: "):
        read_jobs(str(tmp_path / "broken.gz"))
