"""The presets by name: where their actions, tiers and policies are. Nothing is imported until it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

__all__ = ["PRESETS", "preset"]

#: By name the module with `ACTIONS`, `POLICIES`, `SESSION`, `DEFAULT_ACTIONS` and `DEFAULT_TIERS`.
PRESETS: Final[Mapping[str, str]] = {
    "kube-batch": "pyscheduler_batch.kube_batch.preset",
    "volcano": "pyscheduler_batch.volcano.preset",
}


def preset(name: str) -> ModuleType:
    """Return the tables of a preset; raise `KeyError` if there is none of that name."""
    return import_module(PRESETS[name])
