"""Read the task lists of openb, Alibaba's trace of a production cluster where pods share GPUs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pyscheduler_lab.traces.found import checked, found_in_table
from pyscheduler_lab.traces.job import LONGEST_SECONDS, Job
from pyscheduler_lab.traces.schema import gpu_milli, models_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_lab.data.tables import Row, Table
    from pyscheduler_lab.traces.found import Found

__all__ = ["is_openb_table", "read_openb_table"]

_TASK: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIMES: Final = ("creation_time", "deletion_time", "scheduled_time")
_READ: Final = frozenset((*_TASK, *_TIMES, "gpu_spec", "qos"))


def is_openb_table(columns: Sequence[str]) -> bool:
    """Return True for a task list of openb, with or without times."""
    return all(column in columns for column in _TASK)


def read_openb_table(table: Table) -> Found:
    """Return the tasks, each as a job of one worker."""
    has_times = all(column in table.columns for column in _TIMES)
    return found_in_table(table, lambda row, number: _job(row, None if has_times else number), known=_READ)


def _job(row: Row, number: int | None) -> Job:
    arrival, duration = _times(row) if number is None else (float(number), math.inf)
    gpus = row.whole("num_gpu")
    job = Job(
        name=row.text("name"),
        arrival=arrival,
        duration=duration,
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        gpus=gpus,
        gpu_milli=gpu_milli(row, gpus),
        gpu_models=models_of(row, "gpu_spec"),
        job_class=row.text("qos"),
        columns=row.others(_READ),
    )
    return checked(job, row)


def _times(row: Row) -> tuple[float, float]:
    arrival = row.seconds("creation_time", most=LONGEST_SECONDS)
    deleted = row.seconds("deletion_time", most=LONGEST_SECONDS)
    scheduled = row.seconds("scheduled_time", most=LONGEST_SECONDS) if row.text("scheduled_time") else arrival
    if deleted < scheduled:
        raise row.mistake("deletion_time", f"the value is {deleted:g}, before scheduled_time ({scheduled:g})")
    return arrival, deleted - scheduled
