"""The two ways to schedule a group: one member at a time, which then waits for the others, or all members at once."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Strategy", "strategy_problems"]


class Strategy(StrEnum):
    """The values of the arg `strategy` of group plugins."""

    #: Members that find a node wait at Permit until enough members have one.
    PERMIT = "permit"
    #: All members are placed in one cycle, which holds no node before it has decided: `GroupCyclePlugin`.
    GROUP_CYCLE = "groupCycle"


def strategy_problems(strategy: str) -> Iterator[str]:
    """Yield the error for an unknown value."""
    if strategy not in set(Strategy):
        supported = ", ".join(f'"{each}"' for each in Strategy)
        yield f'strategy: Unsupported value: "{strategy}": supported values: {supported}'
