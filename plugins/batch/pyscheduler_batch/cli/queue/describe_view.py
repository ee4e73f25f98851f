"""Format the description of one queue and its jobs as lines, for `pyscheduler queue describe`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kube_testserver.printing.columns import NONE, UNKNOWN, human_duration
from pyscheduler.cli.podgroup.view import indented
from pyscheduler_batch.cli.queue.model import WAITING, missing_pods
from pyscheduler_batch.model.amounts import amount_text, amounts_text
from pyscheduler_batch.model.tasks import ACTIVE, TaskState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler_batch.cli.queue.model import DialectModel, JobEntry
    from pyscheduler_batch.cli.queue.view import FairShares
    from pyscheduler_batch.model.queue_spec import QueueSpec

__all__ = ["described"]

_JOB_HEADER: Final = ("Job", "Phase", "Min", "Active", "Waiting", "Gated", "Ended", "Requests", "Message")


def described(
    model: DialectModel, shares: FairShares, queue: str, *, reasons: Mapping[str, str], now: float
) -> list[str]:
    """Return the description of a queue as lines.

    `reasons`: by key of a job why it waits, from an offline pass; `now`: seconds since 1970.
    """
    spec, row = model.specs[queue], model.queues.index.get(queue, -1)
    system = model.systems[spec.dialect]
    preset = "" if spec.dialect == model.name else f", read by the preset {model.name}"
    path = [model.queues.names[each] for each in model.queues.paths[row].tolist()] if row >= 0 else []
    fields = [
        ("Name", queue),
        *((("Display name", spec.display_name),) if spec.display_name != queue else ()),
        ("Dialect", f"{spec.dialect} ({system}){preset}"),
        ("Age", human_duration(now - spec.created) if spec.created else UNKNOWN),
        ("State", str(spec.state)),
        ("Parent", spec.parent or NONE),
        ("Path", "/".join(reversed(path)) or NONE),
        ("Children", ", ".join(model.children(queue)) or NONE),
        ("Priority", f"{spec.priority:g}"),
        *model.system.reports.queue_fields(spec),
        *(("Problem", f"{each.reason}: {each.message}") for each in model.problems_of(queue)),
        *(("Warning", text) for text in spec.warnings),
    ]
    width = max(len(name) for name, _ in fields) + 3
    lines = [f"{name}:".ljust(width) + value for name, value in fields]
    lines += _amounts(model, shares.get(model.name, {}).get(queue), spec, row)
    return lines + _jobs(model, queue, reasons)


def _amounts(model: DialectModel, share: Mapping[str, float] | None, spec: QueueSpec, row: int) -> list[str]:
    reports = model.system.reports
    cells = [("Resource", "Quota", "Limit", reports.further_amount, "Fair share", "Allocated", "Pending")]
    for column, name in enumerate(model.axis.names):
        allocated = float(model.queues.allocated[row, column]) if row >= 0 else math.nan
        pending = float(model.pending[row, column]) if row >= 0 else math.nan
        if not (name in spec.quota or name in spec.limit or name in spec.guarantee or allocated > 0 or pending > 0):
            continue
        cells.append(
            (
                name,
                amount_text(name, spec.quota.get(name, math.nan)),
                amount_text(name, spec.limit.get(name, math.inf)),
                reports.further_amount_of(spec, name),
                UNKNOWN if share is None else amount_text(name, share.get(name, math.nan)),
                amount_text(name, allocated),
                amount_text(name, pending),
            )
        )
    return ["Amounts:", *indented(cells)] if len(cells) > 1 else [f"Amounts:  {NONE}"]


def _jobs(model: DialectModel, queue: str, reasons: Mapping[str, str]) -> list[str]:
    entries = model.jobs_of(queue)
    if not entries:
        return [f"Jobs:  {NONE}"]
    return ["Jobs:", *indented([_JOB_HEADER, *(_job_cells(model, entry, reasons) for entry in entries)])]


def _job_cells(model: DialectModel, entry: JobEntry, reasons: Mapping[str, str]) -> tuple[str, ...]:
    job, spec = entry.job, entry.spec
    total = model.axis.zeros()
    for task in job.tasks.values():
        if task.state in ACTIVE or task.state in WAITING:
            total += task.request
    requests = {name: value for name, value in model.axis.mapping(total).items() if value}
    return (
        job.key,
        spec.phase or NONE,
        str(spec.min_member),
        str(job.count(ACTIVE)),
        str(job.counts[TaskState.PENDING]),
        str(job.counts[TaskState.GATED]),
        str(job.counts[TaskState.SUCCEEDED] + job.counts[TaskState.FAILED]),
        amounts_text(requests),
        _message(model, entry, reasons),
    )


def _message(model: DialectModel, entry: JobEntry, reasons: Mapping[str, str]) -> str:
    """Return why a job waits: what is wrong with its description, or what a pass, or the API, says."""
    job, spec = entry.job, entry.spec
    wrong = [text for text in (spec.error, job.queue_error) if text]
    wrong += [f"{each.reason}: {each.message}" for each in model.malformed_pods(job)]
    if not entry.is_waiting or wrong:
        return ", ".join(wrong)
    missing = missing_pods(model.system, entry)
    if missing:
        return "; ".join(missing)
    return " ".join(reasons.get(job.key, "").split())
