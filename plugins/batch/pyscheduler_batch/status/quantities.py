"""Format amounts of resources as Kubernetes quantities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pyscheduler_batch.model.axis import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["resource_list"]

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def resource_list(amounts: Mapping[str, float]) -> dict[str, str]:
    """Return the ResourceList of amounts by resource: `cpu` in millicores, all others in units."""
    return {name: _quantity(name, amount) for name, amount in sorted(amounts.items())}


def _quantity(name: str, amount: float) -> str:
    if not math.isfinite(amount):
        return "0"
    if name == MEMORY:
        return _bytes(round(amount))
    millis = round(amount) if name == CPU else round(amount * 1000)
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def _bytes(amount: int) -> str:
    """Return bytes with the largest binary suffix that loses nothing."""
    power = 0
    while amount and amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY[power]}"
