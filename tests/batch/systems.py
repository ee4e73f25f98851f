"""The batch systems by the names of their presets, as their distributions offer them."""

from __future__ import annotations

from typing import Final

from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_batch.presets import system_of
from pyscheduler_batch.system import System

__all__ = ["SYSTEM_OF"]

_OFFERS = discover().batch_extensions()
SYSTEM_OF: Final[dict[str, type[System]]] = {name: system_of(name, _OFFERS) for name in _OFFERS.systems}
