"""Read job traces: when each job arrived, how long it ran, what it requested, and the cluster on which the jobs ran.

A trace is a CSV file, gzipped or not, with a row for each job: arrival, duration, number of workers and the requests of
a worker. `data/philly` contains `philly`; its README names the source. Another file with these columns is
given by its path.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["SHAPES", "TRACES", "Job", "NodePool", "Shape", "read_jobs", "read_pool"]

#: The number of a line, and its values by column.
_Row: TypeAlias = tuple[int, dict[str, str]]
Shape: TypeAlias = Literal["worker", "nodepack"]
#: How the GPUs of a job are divided into workers: as in the trace, or into as few workers as possible.
SHAPES: Final[tuple[Shape, ...]] = ("nodepack", "worker")

_DATA: Final = Path(__file__).parents[1] / "data"
#: The traces in this repository, by name.
TRACES: Final[Mapping[str, Path]] = {"philly": _DATA / "philly" / "philly_jobs.csv.gz"}

_GZIP: Final = b"\x1f\x8b"
_JOB: Final = ("job_id", "arrival_s", "duration_s", "workers", "gpu_per_worker")
_REQUESTS: Final = ("cpu_milli_per_worker", "memory_mib_per_worker")
_NODEPACK: Final = ("nodepack_workers", "nodepack_gpu_per_worker")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#: The team of all jobs of a trace without the column `vc`.
_ONE_TEAM: Final = "default"
_QUEUE: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")
#: More pods than any pool has room for, and a hundred years; a replay of more would use up the memory, or not end.
_MOST: Final = {
    "workers": 100_000,
    "nodepack_workers": 100_000,
    "arrival_s": 3_155_760_000,
    "duration_s": 3_155_760_000,
}


@attrs.frozen(kw_only=True)
class Job:
    """One job. Arrival and duration in seconds, arrival since the beginning of the trace; requests of one worker."""

    name: str
    arrival: float
    duration: float
    workers: int
    gpus: int
    cpu_milli: int
    memory_mib: int
    #: The virtual cluster that the job belongs to; "" if the file has none.
    team: str = ""

    @property
    def gpu_count(self) -> int:
        """Return the number of GPUs of all workers."""
        return self.workers * self.gpus

    @property
    def is_gang(self) -> bool:
        """Return True if the job has several workers, which must run at the same time."""
        return self.workers > 1


@attrs.frozen(kw_only=True)
class NodePool:
    """A number of equal nodes."""

    count: int
    gpus: int = 8
    cpu_milli: int = 96_000
    memory_mib: int = 1_048_576


_POOL: Final = re.compile(
    r"(?P<count>[1-9]\d{0,4})"
    r"(?:x(?P<gpus>\d{1,4})gpu(?:,(?P<cpu>\d{1,5})cpu)?(?:,(?P<memory>\d{1,9})(?P<unit>[GT])i)?)?"
)


def read_pool(text: str) -> NodePool:
    """Read `24x8gpu`, `24x8gpu,96cpu,1Ti`, or `24`; raise `ConfigError` for anything else."""
    found = _POOL.fullmatch(text)
    if found is None:
        raise ConfigError(
            f'--nodes: "{text}" must be like 24x8gpu, or 24x8gpu,96cpu,1Ti with a node\'s CPUs and memory'
        )
    said = {name: int(found[group]) * factor for name, (group, factor) in _FACTORS.items() if found[group]}
    if found["memory"]:
        said["memory_mib"] = int(found["memory"]) * (1024 if found["unit"] == "G" else 1_048_576)
    return NodePool(**said)


_FACTORS: Final = {"count": ("count", 1), "gpus": ("gpus", 1), "cpu_milli": ("cpu", 1000)}


def read_jobs(trace: str, *, vc: str | None = None, shape: Shape | None = None, all_vcs: bool = False) -> Sequence[Job]:
    """Return the jobs of a trace, by arrival; `trace` is a name in `TRACES` or the path of a file.

    `vc` names one of the virtual clusters, where the file has several; `all_vcs` allows to name none, and each must be
    a name of a queue. Without `shape`, the first of `SHAPES` that the file has. Raises `ConfigError` for what cannot be
    read, and for a virtual cluster or shape that is not there.
    """
    path = TRACES.get(trace) or Path(trace)
    if not path.is_file():
        raise ConfigError(_missing(trace, path))
    rows = list(_rows(path))
    if vc is not None or not all_vcs or not rows:
        rows = _of_vc(rows, vc, str(path))
    has_nodepack = _NODEPACK[0] in rows[0][1]
    if shape == "nodepack" and not has_nodepack:
        raise ConfigError("--shape nodepack: the trace has no columns for this shape; use worker", source=str(path))
    packed = has_nodepack and shape != "worker"
    team = _ONE_TEAM if all_vcs else ""
    jobs = [_job(str(path), line, row, packed=packed, team=team) for line, row in rows]
    odd = next((job for job in jobs if all_vcs and not _QUEUE.fullmatch(job.team)), None)
    if odd is not None:
        text = f"vc of job {odd.name} is {odd.team!r}; with --compare, it must be the name of a queue, such as vc1"
        raise ConfigError(text, source=str(path))
    names = {job.name for job in jobs}
    if len(names) < len(jobs):
        raise ConfigError("two jobs have the same job_id", source=str(path))
    return sorted(jobs, key=lambda job: (job.arrival, job.name))


def _missing(trace: str, path: Path) -> str:
    if trace in TRACES:
        return f"trace {trace} comes with the source, and {path} is not there; name the file with --trace PATH"
    if path.is_dir():
        return f"--trace: {trace} is a directory; name the file in it"
    return f'--trace: there is no file "{trace}", and no trace of that name; known are {", ".join(TRACES)}'


def _rows(path: Path) -> Iterator[_Row]:
    """Yield the rows with the numbers of their lines."""
    try:
        with path.open("rb") as file:
            opener = gzip.open if file.read(2) == _GZIP else open
        with opener(path, "rt", encoding="utf-8", newline="") as text:
            reader = csv.DictReader(text)
            missing = [name for name in (*_JOB, *_REQUESTS) if name not in (reader.fieldnames or ())]
            if missing:
                raise ConfigError(f"not a trace of jobs: missing columns: {', '.join(missing)}", source=str(path))
            for row in reader:
                short = [name for name, value in row.items() if value is None]
                if short:
                    raise ConfigError(f"line {reader.line_num} has no {', '.join(short)}", source=str(path))
                yield reader.line_num, row
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"cannot be read: {why.lower()}", source=str(path)) from error


def _of_vc(rows: list[_Row], vc: str | None, source: str) -> list[_Row]:
    """Return the rows of one virtual cluster; times begin with its first job."""
    if not rows:
        raise ConfigError("the trace has no jobs", source=source)
    known = list(dict.fromkeys(row["vc"] for _, row in rows)) if "vc" in rows[0][1] else []
    if vc is None:
        if len(known) > 1:
            raise ConfigError(
                f"the trace has several virtual clusters; choose one with --vc: {', '.join(known)}", source=source
            )
        return rows
    if vc not in known:
        raise ConfigError(
            f'--vc: no virtual cluster "{vc}" in the trace; it has {", ".join(known) or "none"}', source=source
        )
    return [(line, row) for line, row in rows if row["vc"] == vc]


def _job(source: str, line: int, row: dict[str, str], *, packed: bool, team: str) -> Job:
    """Return the job of a row; `team`: if the file has no column for it. A fraction would lose work in silence."""

    def mistake(text: str) -> ConfigError:
        return ConfigError(f"line {line}: {text}", source=source)

    def number(column: str, *, is_whole: bool = False) -> float:
        text = row[column]
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        most = _MOST.get(column, math.inf)
        if not 0 <= value <= most or math.isinf(value):
            form = "of 0 or more" if math.isinf(most) else f"from 0 to {most}"
            raise mistake(f"{column} of job {row['job_id']} is {text!r}; it must be a number {form}")
        if is_whole and not value.is_integer():
            raise mistake(f"{column} of job {row['job_id']} is {text!r}; it must be a whole number")
        return value

    name = row["job_id"]
    if not _NAME.fullmatch(name):
        raise mistake(f"job_id {name!r} cannot be the name of an object")
    worker = {column: int(number(column, is_whole=True)) for column in (*_JOB[3:], *_REQUESTS)}
    workers, gpus = worker["workers"], worker["gpu_per_worker"]
    factor = 1
    if packed:
        # The trace gives requests per worker of the first shape; they are scaled with the GPUs of a worker.
        packed_workers, packed_gpus = (int(number(column, is_whole=True)) for column in _NODEPACK)
        factor = packed_gpus // gpus if gpus else 1
        workers, gpus = packed_workers, packed_gpus
    if not workers:
        raise mistake(f"job {name} has no workers")
    return Job(
        name=name,
        arrival=number("arrival_s"),
        duration=number("duration_s"),
        workers=workers,
        gpus=gpus,
        cpu_milli=worker["cpu_milli_per_worker"] * factor,
        memory_mib=worker["memory_mib_per_worker"] * factor,
        team=row.get("vc", team),
    )
