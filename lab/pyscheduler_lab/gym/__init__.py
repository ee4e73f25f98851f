"""A Gymnasium environment of scheduling decisions, and a plugin that lets a learned policy score nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler import lazy_names

if TYPE_CHECKING:
    from pyscheduler_lab.gym.environment import SchedulingEnv as SchedulingEnv
    from pyscheduler_lab.gym.observation import (
        NODE_FEATURES as NODE_FEATURES,
        POD_FEATURES as POD_FEATURES,
        split as split,
    )
    from pyscheduler_lab.gym.policy import PolicyScore as PolicyScore

#: The module of each name.
_MODULES = {
    "NODE_FEATURES": "pyscheduler_lab.gym.observation",
    "POD_FEATURES": "pyscheduler_lab.gym.observation",
    "PolicyScore": "pyscheduler_lab.gym.policy",
    "SchedulingEnv": "pyscheduler_lab.gym.environment",
    "split": "pyscheduler_lab.gym.observation",
}

__all__ = list(_MODULES)

if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = lazy_names(__name__, _MODULES)
