"""The args of `GangSort`."""

from __future__ import annotations

import attrs

from pyscheduler.podgroup import QueueOrder

__all__ = ["GangSortArgs"]

_ORDERS = tuple(str(order) for order in QueueOrder)


def _check_order(_instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    if value not in _ORDERS:
        supported = ", ".join(f'"{order}"' for order in _ORDERS)
        raise ValueError(f'{attribute.name}: Unsupported value: "{value}": supported values: {supported}')


@attrs.frozen(kw_only=True)
class GangSortArgs:
    """Which order, and whether a group that has begun to leave the queue leaves it as a whole."""

    #: `coscheduling` or `gang`.
    order: str = attrs.field(default=QueueOrder.COSCHEDULING.value, validator=_check_order)
    #: Once a pod was popped, the others of its group that are ready follow, before anybody who came meanwhile.
    back_to_back: bool = False
