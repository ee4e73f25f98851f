"""A trace: jobs in order of arrival, with the source of the data."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.data.objects import is_objects
from pyscheduler_lab.data.tables import read_bytes, table_of, with_columns
from pyscheduler_lab.traces.catalog import TRACES
from pyscheduler_lab.traces.gang_tables import is_gang_table, read_gang_table
from pyscheduler_lab.traces.objects import read_objects
from pyscheduler_lab.traces.openb import is_openb_table, read_openb_table
from pyscheduler_lab.traces.schema import COLUMNS, read_jobs, row_of
from pyscheduler_lab.traces.swf import is_swf, read_swf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyscheduler_lab.traces.found import Found, Shape
    from pyscheduler_lab.traces.job import Job

__all__ = ["Trace"]

#: The name of a trace that was made in Python.
_UNNAMED: str = "jobs"


def _by_arrival(jobs: Iterable[Job]) -> tuple[Job, ...]:
    return tuple(sorted(jobs, key=lambda job: (job.arrival, job.name)))


@attrs.frozen(kw_only=True)
class Trace:
    """Jobs by arrival, then by name; raises `ConfigError` for jobs that cannot be replayed."""

    jobs: Sequence[Job] = attrs.field(converter=_by_arrival, repr=lambda jobs: f"<{len(jobs)} jobs>")
    name: str = _UNNAMED
    #: The path of the file; "" for jobs that were made in Python.
    source: str = ""
    #: The SHA-256 of the file as it is; of jobs that were made in Python, of the CSV file that `write` makes.
    sha256: str = ""
    #: Terms of use of the data, and where the data comes from.
    licence: str = ""
    origin: str = ""
    #: Numbers of jobs that the reader left out or changed, by reason.
    notes: Mapping[str, int | str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        where = self.source or None
        for job in self.jobs:
            problem = next(job.problems(), None)
            if problem is not None:
                raise ConfigError(f"job {job.name}: {problem}", source=where)
        for job, _ in _same_names(self.jobs):
            raise ConfigError(f"two jobs have the name {job.name}", source=where)
        if not self.sha256:
            object.__setattr__(self, "sha256", hashlib.sha256(self.as_csv().encode()).hexdigest())

    def __len__(self) -> int:
        return len(self.jobs)

    @classmethod
    def read(
        cls,
        source: str | Path,
        *,
        vc: str | None = None,
        merge_vcs: bool = False,
        shape: Shape | None = None,
        columns: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    ) -> Trace:
        """Return the trace of this name in `TRACES`, or in this file; raise `ConfigError` if it cannot be read.

        Virtual clusters are clusters of their own. If the trace has several, `vc` chooses one, or `merge_vcs` lets
        their jobs share one cluster. `shape` divides jobs into workers, where the trace has several ways to do so.
        `columns` names a column of the file for columns of the schema, as in `{"vc": "team"}`; of SWF, a field for
        `vc`, `class` or `priority`, as in `{"vc": "user"}`.
        """
        entry = TRACES.get(str(source))
        path = entry.path if entry is not None else Path(source)
        found, digest = _read(path, str(source), shape, _of_schema(dict(columns)))
        jobs = _of_vc(found, vc, str(path), merge_vcs=merge_vcs)
        if not jobs:
            raise ConfigError("the trace has no jobs", source=str(path))
        _check_names(jobs, found, str(path))
        return cls(
            jobs=jobs,
            name=str(source) if entry is not None else path.name.partition(".")[0],
            source=str(path),
            sha256=digest,
            licence=entry.licence if entry is not None else "",
            origin=entry.origin if entry is not None else "",
            # The columns of the traces of the lab are as they should be.
            notes=found.notes if entry is None else {},
        )

    def first(self, count: int | None) -> Trace:
        """Return the trace of the first jobs; all of them for None."""
        return attrs.evolve(self, jobs=self.jobs[:count], sha256=self.sha256 if self.source else "")

    def as_csv(self) -> str:
        """Return the trace as a CSV file with the columns of the schema, and the other columns of the jobs."""
        names = [column.name for column in COLUMNS]
        others = dict.fromkeys(name for job in self.jobs for name in job.columns if name not in names)
        text = io.StringIO()
        writer = csv.DictWriter(text, [*names, *others], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(row_of, self.jobs))
        return text.getvalue()

    def write(self, path: str | Path) -> None:
        """Write `as_csv` to a file, which `read` reads as equal jobs."""
        Path(path).write_text(self.as_csv(), encoding="utf-8", newline="")

    @property
    def shares_gpus(self) -> bool:
        """Return True if a job requests parts of GPUs."""
        return any(job.shares_gpus for job in self.jobs)


def _same_names(jobs: Iterable[Job]) -> Iterator[tuple[Job, Job]]:
    """Yield each job that has the name of an earlier one, after the earlier one."""
    seen: dict[str, Job] = {}
    for job in jobs:
        if job.name in seen:
            yield seen[job.name], job
        seen[job.name] = job


def _check_names(jobs: Iterable[Job], found: Found, source: str) -> None:
    """Raise `ConfigError` with the places of two jobs of the file that have the same name."""
    if found.places:
        for one, other in _same_names(jobs):
            places = {id(job): place for job, place in zip(found.jobs, found.places, strict=True)}
            text = f"two jobs have the name {one.name}: {places[id(one)]} and {places[id(other)]}"
            raise ConfigError(text, source=source)


def _of_schema(columns: Mapping[str, str]) -> Mapping[str, str]:
    """Return the names of columns as they are; raise `ConfigError` for one that the schema does not have."""
    known = [column.name for column in COLUMNS]
    for name in columns:
        if name not in known:
            raise ConfigError(f'trace_columns: traces have no column "{name}"; known are {", ".join(known)}')
    return columns


def _read(path: Path, wanted: str, shape: Shape | None, columns: Mapping[str, str]) -> tuple[Found, str]:
    """Return the jobs of a file or folder, and the SHA-256 of what was read."""
    source = str(path)
    if path.is_dir():
        content, digest = _folder(path)
    elif path.is_file():
        content, digest = read_bytes(path)
    else:
        text = f'trace: there is no file "{wanted}", and no trace of that name; known are {", ".join(TRACES)}'
        raise ConfigError(text)
    if is_swf(content):
        return read_swf(content, source, shape, columns), digest
    if is_objects(content):
        if columns:
            raise ConfigError("trace_columns: the objects of a cluster have no columns", source=source)
        found = read_objects(content, source)
    else:
        table = with_columns(table_of(content, source), columns)
        if is_gang_table(table.columns):
            return read_gang_table(table, shape), digest
        found = read_openb_table(table) if is_openb_table(table.columns) else read_jobs(table)
    if shape == "nodepack":
        raise ConfigError("shape: the trace has no columns for nodepack; use worker", source=source)
    return found, digest


def _folder(path: Path) -> tuple[bytes, str]:
    """Return the changes of a folder of recordings as one list, and the SHA-256 of the files."""
    parts = sorted(path.glob("*.json")) + sorted(path.glob("*.jsonl"))
    if not parts:
        raise ConfigError("the directory has no recordings (*.json); name the file in it", source=str(path))
    contents = [read_bytes(part)[0].strip() for part in parts]
    whole = b"".join(contents)
    if not all(each.startswith(b"[") and each.endswith(b"]") for each in contents):
        return b"\n".join(contents), hashlib.sha256(whole).hexdigest()
    lists = [each[1:-1] for each in contents if each[1:-1].strip()]
    return b"[" + b",".join(lists) + b"]", hashlib.sha256(whole).hexdigest()


def _of_vc(found: Found, vc: str | None, source: str, *, merge_vcs: bool) -> Sequence[Job]:
    """Return the jobs of one virtual cluster, or of all if they share the nodes."""
    known = list(dict.fromkeys(job.team for job in found.jobs if job.team))
    if vc is not None:
        if vc not in known:
            text = f'vc: no virtual cluster "{vc}" in the trace; it has {", ".join(known) or "none"}'
            raise ConfigError(text, source=source)
        return [job for job in found.jobs if job.team == vc]
    if len(known) > 1 and not (merge_vcs or found.is_one_cluster):
        text = f"the trace has several virtual clusters; choose one with vc (option --vc): {', '.join(known)}"
        remedy = "or let all of them share the nodes with merge_vcs=True (option --merge-vcs, merge_vcs: true in files)"
        raise ConfigError(f"{text}; {remedy}", source=source)
    return found.jobs
