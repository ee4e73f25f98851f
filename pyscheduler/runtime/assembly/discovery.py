"""Find the installed plugins: the entry points of the group `pyscheduler`, including pyscheduler's own plugins."""

from __future__ import annotations

import importlib.metadata
import inspect
import logging
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pluggy

from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.hooks import ENTRY_POINT_GROUP, hookspec
from pyscheduler.runtime.assembly.registry import Distribution, Registry, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
    from importlib.metadata import EntryPoint

    from pyscheduler.framework.hooks import PluginRegistry

__all__ = ["discover", "plugin_packages"]

_HOOK: Final = "pyscheduler_register"
#: The entry points of distributions that add commands; here, only their packages matter.
_COMMANDS: Final = "pyscheduler.commands"

_log = logging.getLogger(__name__)


class _Hooks:
    """The hooks, in their modules. pluggy calls them once, at start, with an object to add to."""

    @staticmethod
    @hookspec
    def pyscheduler_register(registry: PluginRegistry) -> None:
        """Add the distribution's plugins to `registry`, by name and as `module:Class`; import nothing heavy."""


def discover(*, blocked: Collection[str] = ()) -> Registry:
    """Return the plugins of all installed distributions.

    `blocked` names entry points or distributions to leave out. Never raises because of what it finds.
    """
    registry = Registry()
    called: set[object] = set()
    for name, version, entry_point in _installed():
        declared = f"{entry_point.name} = {entry_point.value}"
        distribution = Distribution(name=name, version=version, entry_point=declared)
        registry.distributions.append(distribution)
        if not {distribution.name, entry_point.name}.isdisjoint(blocked):
            distribution.blocked = True
            continue
        # pluggy's own loader would stop at the first entry point that fails.
        # SystemExit: a hook module that exits while it is imported is as broken as one that raises.
        try:
            module = entry_point.load()
            # Two entry points of one module are the same offers twice.
            if module not in called:
                _hook(module, f"{name}:{entry_point.name}", entry_point.value)(
                    registry=registry.registrar(distribution)
                )
                called.add(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - others' code, which may fail in any way
            distribution.errors.append(one_line(error))
            _warn_once(tuple(sys.path), str(distribution), distribution.entry_point, one_line(error))
            _log.debug('Distribution is broken distribution="%s"', distribution, exc_info=error)
    return registry


def plugin_packages() -> Sequence[str]:
    """Return the packages of installed distributions of plugins and of commands, `pyscheduler` among them."""
    return _packages(tuple(sys.path))


@lru_cache(maxsize=256)
def _warn_once(path: tuple[str, ...], distribution: str, entry_point: str, error: str) -> None:  # noqa: ARG001 - part of the key
    """Log that a distribution is broken, once in a process: its plugins may be of no concern to any profile."""
    _log.warning('Distribution is broken distribution="%s" entryPoint="%s" err="%s"', distribution, entry_point, error)


def _installed() -> Sequence[tuple[str, str, EntryPoint]]:
    """Return name and version of the distribution and each of its entry points, sorted by these names."""
    return _found(tuple(sys.path))[ENTRY_POINT_GROUP]


@lru_cache(maxsize=4)
def _found(path: tuple[str, ...]) -> Mapping[str, Sequence[tuple[str, str, EntryPoint]]]:  # noqa: ARG001 - the cache's key
    """Return the entry points of both groups, by group.

    Kept for each `path`, the value of `sys.path`: finding them reads a file of every installed distribution (4 ms).
    """
    every = importlib.metadata.entry_points()
    return {
        group: sorted(
            ((*_owner(each), each) for each in every.select(group=group)), key=lambda each: (each[0], each[2].name)
        )
        for group in (ENTRY_POINT_GROUP, _COMMANDS)
    }


@lru_cache(maxsize=4)
def _packages(path: tuple[str, ...]) -> Sequence[str]:
    """Return the packages of the entry points of both groups, each once: each logger asks."""
    return tuple(dict.fromkeys(each.module.partition(".")[0] for found in _found(path).values() for *_, each in found))


def _owner(entry_point: EntryPoint) -> tuple[str, str]:
    """Return name and version of the distribution; where it is unknown, the module of the entry point."""
    if entry_point.dist is None:
        return entry_point.module, ""
    metadata = entry_point.dist.metadata  # reads and parses a file each time
    return metadata["Name"], metadata["Version"]


def _hook_mistake(module: object) -> str:
    """Return what is wrong with the hooks of a module and how to mend it, "" if nothing is.

    pluggy finds most of it, too, but its messages do not say what to write.
    """
    marked = {
        options.get("specname") or name: found
        for name, found in vars(module).items()
        if (options := getattr(found, f"{ENTRY_POINT_GROUP}_impl", None)) is not None
    }
    if not marked:
        return f"implements no hook; mark a function {_HOOK} with @hookimpl"
    for name, hook in marked.items():
        # A misspelt hook is one that nobody would ever call.
        if name != _HOOK:
            return f"implements the hook {name}, which does not exist; rename it to {_HOOK}"
        if inspect.iscoroutinefunction(hook):
            return f"defines {_HOOK} with async; write def {_HOOK}(registry)"
        parameters = [*inspect.signature(hook).parameters]
        if parameters != ["registry"]:
            return f"defines {_HOOK}({', '.join(parameters)}); write def {_HOOK}(registry)"
    return ""


# To have pluggy find the hook takes ten times as long as to call it; a process that builds many schedulers calls the
# same hooks again.
@lru_cache(maxsize=256)
def _hook(module: Hashable, name: str, value: str) -> Callable[..., object]:
    """Return the function that calls the hook of a module; raise an error if the module has none, or a wrong one.

    `name` is that of the entry point in pluggy's messages, `value` what it names.
    """
    mistake = _hook_mistake(module)
    if mistake:
        raise PluginError(f"{value} {mistake}", plugin="")
    manager = pluggy.PluginManager(ENTRY_POINT_GROUP)
    manager.add_hookspecs(_Hooks)
    manager.register(module, name=name)
    manager.check_pending()
    return manager.hook.pyscheduler_register
