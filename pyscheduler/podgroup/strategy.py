"""The two ways of scheduling a group: member by member, waiting at Permit, or all of them in one cycle."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Strategy", "strategy_problems"]


class Strategy(StrEnum):
    """What the arg `strategy` of a group plugin may say."""

    #: Members that find a node hold it at Permit until enough of them have one.
    PERMIT = "permit"
    #: All members are placed in one cycle, which holds nothing until it has decided: `GroupCyclePlugin`.
    GROUP_CYCLE = "groupCycle"


def strategy_problems(strategy: str) -> Iterator[str]:
    """Yield what is wrong with the arg."""
    if strategy not in set(Strategy):
        supported = ", ".join(f'"{each}"' for each in Strategy)
        yield f'strategy: Unsupported value: "{strategy}": supported values: {supported}'
