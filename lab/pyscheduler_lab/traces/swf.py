"""Read the Standard Workload Format of the Parallel Workloads Archive.

A processor counts as one CPU.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.data.tables import Row
from pyscheduler_lab.traces.found import Found, checked
from pyscheduler_lab.traces.job import LONGEST_SECONDS, MOST_WORKERS, Job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyscheduler_lab.traces.found import Shape

__all__ = ["is_swf", "read_swf"]

_FIELDS: Final = (
    "job",
    "submit",
    "wait",
    "run_time",
    "allocated_processors",
    "cpu_time",
    "used_memory",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)
_COUNTS: Final = ("requested_processors", "allocated_processors")
_MEMORY: Final = ("requested_memory", "used_memory")
#: The other fields are passed on to the results.
_READ: Final = frozenset(("job", "submit", "run_time", *_COUNTS, *_MEMORY))
#: What a field can become if the user says so.
_CHOSEN: Final = ("vc", "class", "priority")
_HEADER: Final = re.compile(r";\s*(?P<key>MaxProcs|MaxNodes)\s*:\s*(?P<value>\d+)")
_LINE: Final = re.compile(rb"[-+0-9.eE]+(\s+[-+0-9.eE]+){17}\s*")
_UNKNOWN: Final = -1.0


def is_swf(content: bytes) -> bool:
    """Return True if the first line that is no comment has 18 numbers."""
    for line in content.splitlines():
        if line.strip() and not line.lstrip().startswith(b";"):
            return _LINE.fullmatch(line.strip()) is not None
    return False


def read_swf(content: bytes, source: str, shape: Shape | None, columns: Mapping[str, str] | None = None) -> Found:
    """Return the jobs; those whose run time or processors are unknown are left out, and counted.

    `columns`: the field that becomes the `vc`, `class` or `priority` of a job. A user 3 is the text `user-3`. All jobs
    share the cluster.
    """
    columns = columns or {}
    _check(columns, source)
    header: dict[str, int] = {}
    jobs: list[Job] = []
    places: list[str] = []
    notes: Counter[str] = Counter()
    rows = [*_rows(content, source, header)]
    processors = _processors_per_node(header)
    if shape == "nodepack" and processors is None:
        text = (
            "shape: the file does not say how many processors a node has (MaxProcs and MaxNodes), as nodepack needs; "
            "use worker"
        )
        raise ConfigError(text, source=source)
    per_worker = 1 if shape == "worker" or processors is None else processors
    for row in rows:
        count = next((value for value in map(row.whole_or_unknown, _COUNTS) if value > 0), 0)
        run_time = row.known("run_time")
        if run_time is None:
            notes["jobs left out: run time unknown"] += 1
        elif not count:
            notes["jobs left out: number of processors unknown"] += 1
        else:
            job = _job(row, count, run_time, per_worker, columns)
            if job.workers * job.cpu_milli != count * 1000:
                notes["jobs with more CPUs than processors, because all pods of a job are equal"] += 1
            jobs.append(job)
            places.append(row.place)
    return Found(jobs=jobs, places=places, is_one_cluster=True, notes=notes)


class _Line(Row):
    """A line; -1 stands for an unknown number."""

    def known(self, field: str) -> float | None:
        """Return a number of 0 or more, or None for -1."""
        value = self.number(field, least=_UNKNOWN, most=LONGEST_SECONDS)
        if _UNKNOWN < value < 0:
            raise self.mistake(field, f"the value is {self.text(field)!r}; it must be 0 or more, or -1 for unknown")
        return None if value == _UNKNOWN else value

    def name_of(self, field: str | None) -> str:
        """Return a number as a name such as `user-3`, or `user-unknown`; "" without a field."""
        if field is None:
            return ""
        number = self.whole(field, least=-1)
        name = field.replace("_", "-")
        return f"{name}-{number}" if number >= 0 else f"{name}-unknown"

    def whole_or_unknown(self, field: str) -> int:
        """Return a whole number, -1 for unknown."""
        return self.whole(field, least=-1, most=MOST_WORKERS)


def _rows(content: bytes, source: str, header: dict[str, int]) -> Iterator[_Line]:
    for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), start=1):
        text = line.strip()
        if text.startswith(";"):
            found = _HEADER.match(text)
            if found is not None:
                header[found["key"]] = int(found["value"])
        elif text:
            values = text.split()
            if len(values) != len(_FIELDS):
                raise ConfigError(f"line {number} has {len(values)} fields, not {len(_FIELDS)}", source=source)
            yield _Line(source, f"line {number}", dict(zip(_FIELDS, values, strict=True)))


def _processors_per_node(header: Mapping[str, int]) -> int | None:
    processors, nodes = header.get("MaxProcs", 0), header.get("MaxNodes", 0)
    return max(processors // nodes, 1) if processors and nodes else None


def _check(columns: Mapping[str, str], source: str) -> None:
    for name, field in columns.items():
        if name not in _CHOSEN:
            text = f"trace_columns: of SWF, fields can become {', '.join(_CHOSEN)}, but not {name}"
            raise ConfigError(text, source=source)
        if field not in _FIELDS:
            text = f'trace_columns: SWF has no field "{field}"; its fields are {", ".join(_FIELDS)}'
            raise ConfigError(text, source=source)


def _job(row: _Line, processors: int, run_time: float, per_worker: int, columns: Mapping[str, str]) -> Job:
    workers = math.ceil(processors / per_worker)
    cpus = math.ceil(processors / workers)
    # Kilobytes per processor.
    memory = next(filter(None, map(row.known, _MEMORY)), 0.0)
    job = Job(
        name=f"swf-{row.whole('job')}",
        arrival=row.number("submit", most=LONGEST_SECONDS),
        duration=run_time,
        workers=workers,
        cpu_milli=cpus * 1000,
        memory_mib=math.ceil(memory * cpus / 1024),
        team=row.name_of(columns.get("vc")),
        job_class=row.name_of(columns.get("class")),
        priority=max(row.whole(columns["priority"], least=-1), 0) if "priority" in columns else 0,
        columns=row.others(_READ.union(columns.values())),
    )
    return checked(job, row)
