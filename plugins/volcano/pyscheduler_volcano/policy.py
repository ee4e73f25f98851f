"""The base class for Volcano's plugins, and functions that read the plugins' arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from pyscheduler_batch.contract import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler_batch.contract import Session
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["VolcanoPolicy", "number_argument"]

_N = TypeVar("_N", int, float)


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


def number_argument(arguments: Mapping[str, object], key: str, default: _N) -> _N:
    """Return an argument as a number of the type of the default; the default if it is missing or is no such number."""
    value = arguments.get(key, default)
    try:
        return type(default)(str(value))
    except ValueError:
        return default
