"""Show the fair shares of queues before and after a change of queue objects, as a table, JSON or YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_testserver.printing.columns import NONE, UNKNOWN
from pyscheduler.cli.podgroup.view import padded
from pyscheduler.cli.terminal import printable_cells
from pyscheduler_batch.cli.queue.view import dialect_of, indented_name, tree_of
from pyscheduler_batch.model.amounts import amount_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyscheduler_batch.cli.queue.model import DialectModel
    from pyscheduler_batch.cli.queue.view import FairShares

__all__ = ["ShareChange", "change_lines", "changes_data", "share_changes"]

_HEADER: Final = ("QUEUE", "DIALECT", "RESOURCE", "BEFORE", "AFTER", "CHANGE")


@attrs.frozen
class ShareChange:
    """The share of one resource, in the texts of the table."""

    model: DialectModel
    queue: str
    #: How many queues are above it.
    depth: int
    resource: str
    before: str
    after: str
    change: str


def share_changes(
    models: Iterable[DialectModel], before: FairShares, after: FairShares, *, edited: Collection[tuple[str, str]]
) -> list[ShareChange]:
    """Return the changes by queue and resource, queues in the order of the tree.

    Resources without a share before and after are left out, except those of the queues in `edited`: (dialect, name).
    An edited queue whose share is not known has one change, without a resource.
    """
    found: list[ShareChange] = []
    for model in models:
        old, new = before.get(model.name, {}), after.get(model.name, {})
        for queue, depth in tree_of(model):
            is_edited = (model.specs[queue].dialect, queue) in edited
            if is_edited and not new.get(queue):
                found.append(ShareChange(model, queue, depth, NONE, UNKNOWN, UNKNOWN, UNKNOWN))
            for resource, second in new.get(queue, {}).items():
                first = old.get(queue, {}).get(resource, 0.0)
                if first or second or is_edited:
                    texts = (amount_text(resource, first), amount_text(resource, second))
                    sign = "+" if second > first else ""
                    change = "0" if first == second else sign + amount_text(resource, second - first)
                    found.append(ShareChange(model, queue, depth, resource, *texts, change))
    return found


def change_lines(changes: Iterable[ShareChange]) -> list[str]:
    """Return the table as lines; children are indented below their parent."""
    rows = [
        (
            indented_name(each.queue, each.depth),
            dialect_of(each.model, each.queue),
            each.resource,
            each.before,
            each.after,
            each.change,
        )
        for each in changes
    ]
    cells = printable_cells([_HEADER, *rows])
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADER))]
    return [padded(row, widths) for row in cells]


def changes_data(changes: Sequence[ShareChange]) -> dict[str, Any]:
    """Return the comparison for JSON and YAML."""
    items = [
        {
            "queue": each.queue,
            "dialect": each.model.specs[each.queue].dialect,
            "preset": each.model.name,
            "resource": each.resource,
            "before": each.before,
            "after": each.after,
            "change": each.change,
        }
        for each in changes
    ]
    return {"apiVersion": "pyscheduler.io/v1", "kind": "FairShareComparison", "items": items}
