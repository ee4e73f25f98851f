"""Restart the process when the code of a plugin changes: `pyscheduler run --reload`, for development."""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from kube_objects.clock import Clock

__all__ = ["code_files", "has_changed", "restart", "stop_on_change"]

_log = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
#: About when this process began to load code.
_STARTED_NS: Final = time.time_ns()


def code_files() -> Mapping[Path, int]:
    """Return the modification time (ns) of each Python file of the loaded packages that are not installed copies.

    All files of such a package count, because a module that failed to load is not among the loaded modules.
    """
    installed = tuple(Path(path) for key, path in sysconfig.get_paths().items() if key in _LIBRARIES)
    found: dict[Path, int] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or name == "__main__" or not file:
            continue
        path = Path(file)
        if any(path.is_relative_to(folder) for folder in installed):
            continue
        for each in path.parent.rglob("*.py") if path.name == "__init__.py" else (path,):
            try:
                found[each] = each.stat().st_mtime_ns
            except OSError:
                continue  # it was deleted at this moment
    return found


_LIBRARIES: Final = frozenset({"stdlib", "platstdlib", "purelib", "platlib"})


def has_changed(before: Mapping[Path, int], now: Mapping[Path, int]) -> bool:
    """Return True if a file changed, or is gone, and all changed files can be compiled; log what changed.

    A file that was not known before has changed if it was written after the start of this process.
    """
    latest = time.time_ns()
    changed = [path for path, when in before.items() if now.get(path) != when]
    changed += [path for path, when in now.items() if path not in before and _STARTED_NS < when <= latest]
    for path in changed:
        try:
            if path in now:
                compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OSError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            _log.warning('Code is not reloaded file=%s line=%s err="%s"', path, line, error)
            return False
    if changed:
        _log.info("Code has changed; restarting files=%s", " ".join(map(str, changed)))
    return bool(changed)


async def stop_on_change(
    stop: asyncio.Event, clock: Clock, *, read: Callable[[], Mapping[Path, int]] = code_files
) -> bool:
    """Set `stop` when the code changes, and return True; return False when somebody else has set it."""
    before: Mapping[Path, int] = {}
    while not stop.is_set():
        await clock.sleep(POLL_SECONDS)
        now = read()
        if not stop.is_set() and has_changed(before, now):
            stop.set()
            return True
        before = now
    return False


def restart() -> NoReturn:
    """Execute the command line of this process again, in this process; return never."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very program
