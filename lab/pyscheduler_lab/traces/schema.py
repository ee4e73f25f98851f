"""The schema of trace files: each row is one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.names import label_value_errors
from pyscheduler_lab.traces.found import checked, found_in_table
from pyscheduler_lab.traces.job import LONGEST_SECONDS, MOST_GPUS, MOST_WORKERS, WHOLE_GPU, Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_lab.data.tables import Row, Table
    from pyscheduler_lab.traces.found import Found

__all__ = ["COLUMNS", "REQUIRED", "Column", "read_jobs", "row_of"]


@attrs.frozen
class Column:
    """One column. `default` is the value without such a column or in an empty cell; None if there is no default."""

    name: str
    form: str
    default: str | None
    meaning: str


COLUMNS: Final[Sequence[Column]] = (
    Column("name", "a-z, 0-9, -", "`job-1`, `job-2`, ... by row", "name of the job, at most 52 characters"),
    Column("arrival", "seconds", None, "time from the beginning of the trace to the arrival of the job"),
    Column(
        "duration",
        "seconds, or `inf`",
        None,
        "time for which the job runs once it has started; `inf`: until the replay ends",
    ),
    Column("workers", "whole number", "1", "pods of the job"),
    Column("min_workers", "whole number", "`workers`", "the job starts when this many workers are bound"),
    Column("cpu", "CPUs: `8`, `500m`", "0", "CPU request of a worker; rounded up to thousandths"),
    Column("memory", "`32Gi`, or bytes", "0", "memory request of a worker; rounded up to MiB"),
    Column("gpu", "whole number", "0; 1 if `gpu_milli` is above 0", "GPUs of a worker"),
    Column(
        "gpu_milli",
        "1 to 1000; 0 without GPUs",
        "1000",
        "thousandths that a worker gets of each of its GPUs; below 1000, pods share the GPU",
    ),
    Column("gpu_model", "models between `\\|`", "any", "GPU models that a worker may have; empty for any"),
    Column("vc", "name", "none", "virtual cluster or team of the job"),
    Column(
        "priority",
        "whole number",
        "0",
        "priority of the job. Of the policies of `--compare`, [some ignore it](#priorities)",
    ),
    Column("class", "text", "none", "class of the job, by which results can be grouped"),
    Column("node_selector", "`zone=a;rack=3`", "none", "labels that a node must have"),
)
"""The columns in the order in which they are written."""

REQUIRED: Final = tuple(column.name for column in COLUMNS if column.default is None)
"""The columns that every file must have."""

_KNOWN: Final = frozenset(column.name for column in COLUMNS)
#: Priorities of pods that users may set.
_MOST_PRIORITY: Final = 1_000_000_000
_LEAST_PRIORITY: Final = -2_147_483_648


def read_jobs(table: Table) -> Found:
    """Return the jobs of a table with the columns of the schema; raise `ConfigError` for wrong values."""
    table.require(REQUIRED, "a trace of jobs", known=_KNOWN)
    return found_in_table(table, _job, known=_KNOWN)


def _job(row: Row, number: int) -> Job:
    workers = row.whole("workers", 1, least=1, most=MOST_WORKERS)
    gpus = row.whole("gpu", int(row.whole("gpu_milli", 0, most=WHOLE_GPU) > 0), most=MOST_GPUS)
    job = Job(
        name=row.text("name", f"job-{number + 1}"),
        arrival=row.seconds("arrival", most=LONGEST_SECONDS),
        duration=row.seconds("duration", most=LONGEST_SECONDS, may_be_endless=True),
        workers=workers,
        min_workers=row.whole("min_workers", workers, least=1, most=workers),
        cpu_milli=row.cpu_milli("cpu"),
        memory_mib=row.memory_mib("memory"),
        gpus=gpus,
        gpu_milli=gpu_milli(row, gpus),
        gpu_models=models_of(row, "gpu_model"),
        team=row.text("vc"),
        priority=row.whole("priority", 0, least=_LEAST_PRIORITY, most=_MOST_PRIORITY),
        job_class=row.text("class"),
        node_selector=row.labels("node_selector"),
        columns=row.others(_KNOWN),
    )
    return checked(job, row)


def gpu_milli(row: Row, gpus: int) -> int:
    """Return the column `gpu_milli` of a worker with so many GPUs; 0 is allowed if there are none."""
    return row.whole("gpu_milli", WHOLE_GPU, least=1 if gpus else 0, most=WHOLE_GPU) or WHOLE_GPU


def models_of(row: Row, column: str) -> tuple[str, ...]:
    """Return the GPU models of a cell, each once."""
    models = tuple(dict.fromkeys(each for each in row.text(column).split("|") if each))
    for model in models:
        if label_value_errors(model):
            raise row.mistake(column, f"{model!r} cannot be the value of a label")
    return models


def row_of(job: Job) -> dict[str, str]:
    """Return the row of a job, from which `read_jobs` makes an equal job."""
    cpus, rest = divmod(job.cpu_milli, 1000)
    return {
        "name": job.name,
        "arrival": _number(job.arrival),
        "duration": _number(job.duration),
        "workers": str(job.workers),
        "min_workers": str(job.min_workers),
        "cpu": f"{job.cpu_milli}m" if rest else str(cpus),
        "memory": f"{job.memory_mib}Mi",
        "gpu": str(job.gpus),
        "gpu_milli": str(job.gpu_milli),
        "gpu_model": "|".join(job.gpu_models),
        "vc": job.team,
        "priority": str(job.priority),
        "class": job.job_class,
        "node_selector": ";".join(f"{key}={value}" for key, value in job.node_selector.items()),
        **job.columns,
    }


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
