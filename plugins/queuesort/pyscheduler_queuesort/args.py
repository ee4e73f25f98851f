"""The args of the plugin `GangSort` in the configuration file."""

from __future__ import annotations

from enum import StrEnum

import attrs

__all__ = ["GangSortArgs", "QueueOrder"]


class QueueOrder(StrEnum):
    """The name of an order."""

    COSCHEDULING = "coscheduling"
    GANG = "gang"


_ORDERS = tuple(str(order) for order in QueueOrder)


def _check_order(_instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    if value not in _ORDERS:
        supported = ", ".join(f'"{order}"' for order in _ORDERS)
        raise ValueError(f'{attribute.name}: Unsupported value: "{value}": supported values: {supported}')


@attrs.frozen(kw_only=True)
class GangSortArgs:
    """The order, and whether the members of a group are popped back to back."""

    #: `coscheduling` or `gang`.
    order: str = attrs.field(default=QueueOrder.COSCHEDULING.value, validator=_check_order)
    #: After a pod, pop the other ready pods of its group before pods that came meanwhile.
    back_to_back: bool = False
