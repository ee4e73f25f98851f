"""Read traces of jobs with arrival, size and duration, such as the published traces Philly, Kalos and Alibaba 2017."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.traces.found import checked, found_in_table
from pyscheduler_lab.traces.job import LONGEST_SECONDS, MOST_WORKERS, Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_lab.data.tables import Row, Table
    from pyscheduler_lab.traces.found import Found, Shape

__all__ = ["is_gang_table", "read_gang_table"]

_JOB: Final = ("job_id", "arrival_s", "duration_s", "workers", "cpu_milli_per_worker")
_NODEPACK: Final = ("nodepack_workers", "nodepack_gpu_per_worker")
_MEMORY, _MEMORY_PART = "memory_mib_per_worker", "memory_norm_per_worker"
#: The memory of the largest machine of a trace that has only parts of it: that of a node of `--nodes`.
_LARGEST_MIB: Final = 1_048_576
_READ: Final = frozenset((*_JOB, *_NODEPACK, _MEMORY, "gpu_per_worker", "vc", "job_class", "task_id"))


def is_gang_table(columns: Sequence[str]) -> bool:
    """Return True for a table in this form, also if columns are missing."""
    return "arrival_s" in columns


def read_gang_table(table: Table, shape: Shape | None) -> Found:
    """Return the jobs; without `shape`, as few workers as the file has a shape for."""
    has_part = _MEMORY_PART in table.columns
    needed = (*_JOB, *(() if has_part else (_MEMORY, "gpu_per_worker")))
    table.require(needed, "a trace of jobs")
    has_nodepack = all(column in table.columns for column in _NODEPACK)
    if shape == "nodepack" and not has_nodepack:
        raise ConfigError("shape: the trace has no columns for nodepack; use worker", source=table.source)
    packed = has_nodepack and shape != "worker"
    return found_in_table(table, lambda row, _: _job(row, packed=packed), known=_READ | {_MEMORY_PART})


def _job(row: Row, *, packed: bool) -> Job:
    workers = row.whole("workers", least=1, most=MOST_WORKERS)
    gpus = row.whole("gpu_per_worker", 0)
    factor = 1
    if packed:
        # The trace gives requests per worker of the first shape; they are scaled with the GPUs of a worker.
        workers = row.whole(_NODEPACK[0], least=1, most=MOST_WORKERS)
        packed_gpus = row.whole(_NODEPACK[1])
        if gpus and packed_gpus % gpus:
            raise row.mistake(_NODEPACK[1], f"the value is {packed_gpus}, no multiple of gpu_per_worker ({gpus})")
        factor, gpus = packed_gpus // gpus if gpus else 1, packed_gpus
    job = Job(
        name="-".join(filter(None, (row.text("job_id"), row.text("task_id")))),
        arrival=row.seconds("arrival_s", most=LONGEST_SECONDS),
        duration=row.seconds("duration_s", most=LONGEST_SECONDS),
        workers=workers,
        gpus=gpus,
        cpu_milli=row.whole("cpu_milli_per_worker") * factor,
        memory_mib=_memory(row) * factor,
        team=row.text("vc"),
        job_class=row.text("job_class"),
        columns=row.others(_READ),
    )
    return checked(job, row, name="job_id")


def _memory(row: Row) -> int:
    if _MEMORY in row.values:
        return row.whole(_MEMORY)
    return round(row.number(_MEMORY_PART, most=1.0) * _LARGEST_MIB)
