"""Format queues as a table, JSON or YAML, as kubectl does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kube_testserver.printing.columns import NONE, UNKNOWN
from pyscheduler.api import format_time
from pyscheduler.cli.podgroup.view import padded
from pyscheduler.cli.terminal import printable_cells
from pyscheduler.framework.errors import ConfigError
from pyscheduler_batch.cli.queue.model import WAITING
from pyscheduler_batch.model.amounts import amount_text
from pyscheduler_batch.model.axis import CPU, GPU
from pyscheduler_batch.model.tasks import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler_batch.cli.queue.model import DialectModel
    from pyscheduler_batch.model.axis import Amounts

    #: By dialect and name of the queue, its fair share by resource.
    FairShares: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]

__all__ = ["data_of", "dialect_of", "footer", "indented_name", "queue_lines", "table_lines", "tree_of"]

_INDENT: Final = "  "
_LEAST: Final = 3
_COLUMNS: Final = (
    "QUEUE",
    "DIALECT",
    "STATE",
    "RESOURCE",
    "QUOTA",
    "LIMIT",
    "FAIR-SHARE",
    "ALLOCATED",
    "PENDING",
    "JOBS",
    "WAITING",
)
_WIDE: Final = ("GUARANTEE", "WEIGHT", "PRIORITY", "RECLAIMABLE", "WARNINGS")


def tree_of(model: DialectModel, names: Sequence[str] = ()) -> list[tuple[str, int]]:
    """Return the queues in the order of a tree, with their depth: children below their parent, siblings by name.

    Unusable queues come last. With `names`, only these queues and those below them.
    """
    found: list[tuple[str, int]] = []

    def walk(top: str) -> None:
        ahead = [(top, 0)]
        while ahead:
            queue, depth = ahead.pop()
            if queue in model.specs:
                found.append((queue, depth))
            ahead += [(child, depth + 1) for child in reversed(model.children(queue))]

    if names:
        for name in dict.fromkeys(names):
            if name in model.specs and name not in {queue for queue, _ in found}:
                walk(name)
        return found
    for top in model.children(""):
        walk(top)
    found += [(name, 0) for name in sorted(model.specs) if name not in model.queues.index]
    return found


def table_lines(
    models: Iterable[DialectModel],
    shares: FairShares,
    *,
    names: Sequence[str] = (),
    resource: str = "",
    wide: bool = False,
    headers: bool = True,
) -> list[str]:
    """Return the table of queues: a row for each queue, or with `wide` for each queue and resource.

    `resource`: what the amounts are of; "" means GPUs, or cpu where no node has any, and other resources whose limit
    holds pods of the queue. Raises `ConfigError` for a resource that no queue and no node has.
    """
    header = (*_COLUMNS, *(_WIDE if wide else ()), "PROBLEM")
    rows = [header] if headers else []
    models = [*models]
    if resource and not any(_resource_named(resource, model.axis.names) for model in models):
        known = ", ".join(dict.fromkeys(name for model in models for name in model.axis.names))
        raise ConfigError(f'--resource: no queue and no node has the resource "{resource}"; choose one of {known}')
    for model in models:
        shown = _shown(model, resource, wide=wide)
        for queue, depth in tree_of(model, names):
            limits = [] if resource or wide else _limited(model, queue)
            of_queue = dict.fromkeys([*shown, *limits])
            rows += queue_lines(model, shares.get(model.name, {}), queue, depth, of_queue, wide=wide)
    cells = printable_cells(rows)
    widths = [max(_LEAST, *(len(row[column]) for row in cells)) for column in range(len(header))] if cells else []
    return [padded(row, widths) for row in cells]


def _shown(model: DialectModel, resource: str, *, wide: bool) -> list[str]:
    """Return the resources of the rows of a queue."""
    axis = model.axis
    if resource:
        name = _resource_named(resource, axis.names)
        return [name] if name else []
    if wide:
        return [name for name in axis.names if name in _mentioned(model)]
    return [GPU] if GPU in axis.index and model.capacity[axis.index[GPU]] > 0 else [CPU]


def _limited(model: DialectModel, queue: str) -> list[str]:
    """Return the resources whose limit is lower than what the pods of a queue request: the limit holds some pods."""
    row = model.queues.index.get(queue, -1)
    if row < 0:
        return []
    requested = model.queues.allocated[row] + model.pending[row]
    limits = model.specs[queue].limit
    return [name for name, column in model.axis.index.items() if requested[column] > limits.get(name, math.inf)]


def _mentioned(model: DialectModel) -> set[str]:
    """Return the resources that queues set, besides cpu."""
    return {CPU, *(name for spec in model.specs.values() for name in (*spec.quota, *spec.limit, *spec.guarantee))}


def queue_lines(
    model: DialectModel,
    shares: Mapping[str, Mapping[str, float]],
    queue: str,
    depth: int,
    resources: Iterable[str],
    *,
    wide: bool,
) -> list[tuple[str, ...]]:
    """Return the cells of a queue, one row for each resource; further rows have the amounts only."""
    spec, row = model.specs[queue], model.queues.index.get(queue, -1)
    lines: list[tuple[str, ...]] = []
    reasons = list(dict.fromkeys(each.reason for each in model.problems_of(queue)))
    reasons += sorted({entry.job.queue_error for entry in model.jobs_of(queue) if entry.job.queue_error} - {*reasons})
    for resource in resources:
        amounts = (
            _said(resource, spec.quota),
            amount_text(resource, spec.limit.get(resource, math.inf)),
            amount_text(resource, shares[queue].get(resource, math.nan)) if queue in shares else UNKNOWN,
            _cell(model, model.queues.allocated, row, resource),
            _cell(model, model.pending, row, resource),
        )
        more: tuple[str, ...] = (_said(resource, spec.guarantee),) if wide else ()
        if lines:
            blank = ("",) * (len(_WIDE) - 1 if wide else 0)
            lines.append(("", "", "", resource, *amounts, "", "", *more, *blank, ""))
            continue
        if wide:
            weight = model.system.reports.weight(spec, resource)
            reclaimable = "true" if spec.reclaimable else "false"
            more += (f"{weight:g}", f"{spec.priority:g}", reclaimable, str(len(spec.warnings)))
        counts = [str(count) for count in model.job_counts[row].tolist()] if row >= 0 else [NONE, NONE]
        first = (indented_name(queue, depth), dialect_of(model, queue), str(spec.state), resource)
        lines.append((*first, *amounts, *counts, *more, ",".join(reasons)))
    return lines


def indented_name(queue: str, depth: int) -> str:
    """Return the name of a queue, indented for the queues above it."""
    return _INDENT * depth + queue


def dialect_of(model: DialectModel, queue: str) -> str:
    """Return the dialect of a queue, followed by the preset that reads it if that has another name."""
    dialect = model.specs[queue].dialect
    return dialect if dialect == model.name else f"{dialect} ({model.name})"


def _said(resource: str, amounts: Mapping[str, float]) -> str:
    return amount_text(resource, amounts[resource]) if resource in amounts else NONE


def _cell(model: DialectModel, column: Amounts, row: int, resource: str) -> str:
    return amount_text(resource, float(column[row, model.axis.index[resource]])) if row >= 0 else NONE


def footer(models: Iterable[DialectModel]) -> list[str]:
    """Return the problems of queues and jobs, one line each, below a heading; nothing if there are none."""
    problems = [str(problem) for model in models for problem in model.problems]
    return ["", "Problems:", *(f"{_INDENT}{text}" for text in problems)] if problems else []


# --- JSON and YAML ------------------------------------------------------------------------------


def data_of(model: DialectModel, shares: FairShares, queue: str) -> dict[str, Any]:
    """Return a queue in one form for all dialects; unlimited and unset amounts are the texts of the table."""
    spec, row = model.specs[queue], model.queues.index.get(queue, -1)
    share = shares.get(model.name, {}).get(queue)
    entries = model.jobs_of(queue)
    return {
        "apiVersion": "pyscheduler.io/v1",
        "kind": "QueueSummary",
        "metadata": {
            "name": queue,
            "uid": spec.uid,
            "creationTimestamp": format_time(spec.created) if spec.created else None,
        },
        "dialect": spec.dialect,
        "preset": model.name,
        "spec": {
            "parent": spec.parent,
            "displayName": spec.display_name,
            "quota": _quantities(spec.quota),
            "limit": _quantities(spec.limit),
            "guarantee": _quantities(spec.guarantee),
            "overQuotaWeight": dict(spec.over_quota_weight),
            "weight": spec.weight,
            "priority": spec.priority,
            "reclaimable": spec.reclaimable,
            "preemptMinRuntimeSeconds": spec.preempt_min_runtime,
            "reclaimMinRuntimeSeconds": spec.reclaim_min_runtime,
        },
        "status": {
            "state": str(spec.state),
            "isLeaf": bool(row >= 0 and model.queues.is_leaf[row]),
            "fairShare": None if share is None else _quantities(share),
            "allocated": _sums(model, model.queues.allocated, row),
            "pending": _sums(model, model.pending, row),
            "jobs": [
                {
                    "namespace": entry.spec.namespace,
                    "name": entry.spec.name,
                    "phase": entry.spec.phase,
                    "minMember": entry.spec.min_member,
                    "active": entry.job.count(ACTIVE),
                    "waiting": entry.job.count(WAITING),
                }
                for entry in entries
            ],
        },
        "warnings": list(spec.warnings),
        "problems": [{"reason": each.reason, "message": each.message} for each in model.problems_of(queue)],
    }


def _quantities(amounts: Mapping[str, float]) -> dict[str, str]:
    return {name: amount_text(name, value) for name, value in amounts.items()}


def _sums(model: DialectModel, column: Amounts, row: int) -> dict[str, str] | None:
    if row < 0:
        return None
    return {name: amount_text(name, value) for name, value in model.axis.mapping(column[row]).items() if value}


def _resource_named(text: str, names: Sequence[str]) -> str | None:
    """Return the resource that a user means, or None; `gpu` is short for a resource that ends with `/gpu`."""
    if text in names:
        return text
    if text == "gpu" and GPU in names:
        return GPU
    return next((name for name in names if name.endswith(f"/{text}")), None)
