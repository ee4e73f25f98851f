"""Find the installed packages for batch systems such as KAI, and read these systems' queues and pod groups."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from pyscheduler.framework import ConfigError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_batch.system import System

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.framework.extensions import Extensions
    from pyscheduler_batch.dialects import JobDialect, QueueDialect
    from pyscheduler_batch.preset import Preset

__all__ = [
    "JOB_DIALECTS",
    "QUEUE_DIALECTS",
    "job_dialects",
    "presets",
    "queue_dialects",
    "system_of",
    "systems",
    "systems_by_dialect",
]

#: What each system has to say of itself.
_PARTS: Final = ("preset", "jobs", "queues", "reports")

T = TypeVar("T")

_log = logging.getLogger(__name__)


def system_of(name: str, extensions: Extensions) -> type[System]:
    """Return the class of the batch system of a preset; raise `ConfigError` if no distribution offers it."""
    offer = extensions.systems.get(name)
    if offer is None:
        raise ConfigError(f'no distribution that is installed offers the batch system "{name}"; install one that does')
    whose = f'batch system "{name}"'
    found: type[System] = offer.load(whose, System)
    if missing := [part for part in _PARTS if not hasattr(found, part)]:
        raise ConfigError(f"{whose} of {offer.distribution} ({offer.target}) has no {' and no '.join(missing)}")
    return found


class _Systems(Mapping[str, T]):
    """The systems by the name of their preset, or a part of each. A look-up imports that system only.

    It raises `ConfigError` for a system that cannot be imported. An iteration imports all, and leaves such systems out:
    they concern only the profile that names them. Those come first whose files need not name them.
    """

    def __init__(self, extensions: Extensions, part: Callable[[type[System]], T]) -> None:
        self._extensions = extensions
        self._part = part

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise KeyError(name)
        return self._part(system_of(name, self._extensions))

    def __contains__(self, name: object) -> bool:
        return name in self._extensions.systems

    def __iter__(self) -> Iterator[str]:
        found: dict[str, type[System]] = {}
        for name in self._extensions.systems:
            try:
                found[name] = system_of(name, self._extensions)
            except ConfigError as error:
                _warn_once(str(error))
        return iter(sorted(found, key=lambda name: (not found[name].preset.is_told_by_names, name)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=256)
def _warn_once(error: str) -> None:
    _log.warning('Batch system is left out err="%s"', error)


def systems(extensions: Extensions | None = None) -> Mapping[str, type[System]]:
    """Return all batch systems by the name of their preset; by default those that are installed."""
    return _Systems(extensions or _installed(tuple(sys.path)), lambda system: system)


def presets(extensions: Extensions | None = None) -> Mapping[str, Preset]:
    """Return the presets of all systems by name."""
    return _Systems(extensions or _installed(tuple(sys.path)), lambda system: system.preset)


def systems_by_dialect(extensions: Extensions | None = None) -> dict[str, type[System]]:
    """Return the systems by the dialect of their jobs; of several that read the same groups, the one of its name."""
    return _by_dialect(extensions, lambda system: system.jobs.name)


def job_dialects(extensions: Extensions | None = None) -> tuple[JobDialect, ...]:
    """Return how groups are read, one row for each dialect."""
    return tuple(system.jobs for system in systems_by_dialect(extensions).values())


def queue_dialects(extensions: Extensions | None = None) -> tuple[QueueDialect, ...]:
    """Return how queues are read, one row for each dialect."""
    found = _by_dialect(extensions, lambda system: system.queues.name)
    return tuple(system.queues for system in found.values())


def _by_dialect(extensions: Extensions | None, dialect_of: Callable[[type[System]], str]) -> dict[str, type[System]]:
    found: dict[str, type[System]] = {}
    for name, system in systems(extensions).items():
        dialect = dialect_of(system)
        if name == dialect or dialect not in found:
            found[dialect] = system
    return found


@lru_cache(maxsize=4)
def _installed(path: tuple[str, ...]) -> Extensions:  # noqa: ARG001 - the cache's key
    return discover().extensions()


if TYPE_CHECKING:
    #: The dialects of all installed systems.
    JOB_DIALECTS: tuple[JobDialect, ...]
    QUEUE_DIALECTS: tuple[QueueDialect, ...]
else:

    def __getattr__(name: str) -> tuple[JobDialect, ...] | tuple[QueueDialect, ...]:
        if name == "JOB_DIALECTS":
            return job_dialects()
        if name == "QUEUE_DIALECTS":
            return queue_dialects()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
