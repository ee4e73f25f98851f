"""The base class for Volcano's plugins, and functions that read the plugins' arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyscheduler_batch.contract import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler_batch.contract import Session
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["VolcanoPolicy", "float_argument", "int_argument"]


class VolcanoPolicy(Policy):
    """A policy that works in a `VolcanoSession`."""

    session: VolcanoSession

    def open_session(self, session: Session) -> None:
        """Remember the session and prepare."""
        self.session = cast("VolcanoSession", session)
        self.prepare()

    def prepare(self) -> None:
        """Prepare for the pass; `session` is set."""

    def close_session(self, session: Session) -> None:
        """Forget nothing: what was computed stays readable until the next pass."""


def int_argument(arguments: Mapping[str, object], key: str, default: int) -> int:
    """Return a whole-number argument, or the default if it is missing or is no number."""
    value = arguments.get(key, default)
    try:
        return int(str(value))
    except ValueError:
        return default


def float_argument(arguments: Mapping[str, object], key: str, default: float) -> float:
    """Return a number argument, or the default if it is missing or is no number."""
    value = arguments.get(key, default)
    try:
        return float(str(value))
    except ValueError:
        return default
