"""The public names of each distribution with their signatures, one per line, and the files that record them.

A distribution records its names in `tests/public_api.txt` of its folder; a name that it has from another distribution
is described in the list of that one. `python -m tests.public_api --write` records all of them anew. What that changes
is a change of the plugin API: see docs/reference/compatibility.md for the version number that it raises.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from tests import distributions

__all__ = ["MODULES", "lines", "names_of", "owner_of", "record_of"]

#: By folder of a distribution, the modules that docs/reference/framework-api.md or its README names.
MODULES: Final = {
    distributions.ROOT / "packages/kube-cel": ("kube_cel",),
    distributions.ROOT / "packages/kube-objects": ("kube_objects", "kube_objects.clock", "kube_objects.errors"),
    distributions.ROOT / "packages/kube-testserver": (
        "kube_testserver",
        "kube_testserver.serving.faults",
        "kube_testserver.virtual_time",
    ),
    distributions.ROOT: (
        "pyscheduler.api",
        "pyscheduler.framework",
        "pyscheduler",
        "pyscheduler.framework.namespace_usage",
        "pyscheduler.framework.node_matching",
        "pyscheduler.framework.node_memo",
        "pyscheduler.framework.plugin_args",
        "pyscheduler.framework.scoring",
        "pyscheduler.framework.work_sources",
        "pyscheduler.podgroup",
        "pyscheduler.testing",
    ),
    distributions.ROOT / "lab": ("pyscheduler_lab",),
    distributions.ROOT / "plugins/batch": (
        "pyscheduler_batch.contract",
        "pyscheduler_batch.dialects",
        "pyscheduler_batch.status.reports",
        "pyscheduler_batch.system",
    ),
    distributions.ROOT / "plugins/podgrouper": ("pyscheduler_podgrouper.contract",),
}


def record_of(folder: Path) -> Path:
    """Return the file that records the names of the distribution in a folder."""
    return folder / "tests/public_api.txt"


def lines(folder: Path) -> Iterator[str]:
    """Return `module.name(parameters)` for each public name, and a line for each public member of a class.

    A class has no lines for what it inherits from another public class, nor for what it overrides with the same
    parameters. `=` marks an optional parameter. If a module offers all names of another one that is recorded,
    `module.* = other.*` says so.
    """
    package = distributions.package_of(folder)
    seen: set[int] = set()
    for module_name in MODULES[folder]:
        names = names_of(module_name)
        contained = _contained(module_name)
        yield from (f"{module_name}.* = {other}.*" for other in contained)
        for name in sorted(names.keys() - {name for other in contained for name in names_of(other)}):
            value = names[name]
            where = f"{module_name}.{name}"
            # A name that several modules offer is described once, and by the distribution that it comes from.
            is_new = owner_of(value) == package and id(value) not in seen
            seen.add(id(value))
            yield f"{where}{_parameters(value)}" if is_new else where
            if is_new and inspect.isclass(value):
                yield from (f"{where}.{text}" for text in _members(value))


def owner_of(value: object) -> str:
    """Return the package that a class or function comes from; "" for other values."""
    return value.__module__.partition(".")[0] if inspect.isclass(value) or inspect.isfunction(value) else ""


def _contained(module_name: str) -> list[str]:
    """Return the modules recorded before one all of whose names it offers; none of them is part of another."""
    own = names_of(module_name).items()
    modules = [each for group in MODULES.values() for each in group]
    found = [each for each in modules[: modules.index(module_name)] if names_of(each).items() <= own]
    return [each for each in found if not any(names_of(each).items() < names_of(other).items() for other in found)]


@cache
def names_of(module_name: str) -> dict[str, object]:
    """Return the public names of a module with their values."""
    module = importlib.import_module(module_name)
    return {name: getattr(module, name) for name in _exported(module)}


@cache
def _public_classes() -> frozenset[type]:
    values = (value for group in MODULES.values() for each in group for value in names_of(each).values())
    return frozenset(value for value in values if inspect.isclass(value))


def _exported(module: ModuleType) -> Iterable[str]:
    """Return what `__all__` lists or, in a package without it, what is imported as `name as name` or with a star."""
    listed: Iterable[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return listed
    source = inspect.getsource(module)
    stars = re.findall(r"^from ([\w.]+) import \*", source, re.MULTILINE)
    names = re.findall(r"\b(\w+) as \1\b", source)
    return [*names, *(name for each in stars for name in _exported(importlib.import_module(each)))]


def _members(cls: type) -> Iterator[str]:
    if issubclass(cls, Enum):
        yield from cls.__members__
        return
    ours = [each for each in cls.__mro__ if each.__module__.startswith(("kube_", "pyscheduler"))]
    bases = [each for each in ours if each is not cls and each in _public_classes()]
    inherited = {text for each in bases for text in _texts(each, [each])}
    yield from sorted(_texts(cls, [each for each in ours if each not in bases]) - inherited)


def _texts(cls: type, owners: Iterable[type]) -> set[str]:
    """Return the public members that some bases of a class, or it itself, define, with their parameters."""
    names = {name for each in owners for name in (*vars(each), *vars(each).get("__annotations__", {}))}
    members = {name: inspect.getattr_static(cls, name, None) for name in names if not name.startswith("_")}
    return {f"{name}{_parameters(getattr(member, '__func__', member))}" for name, member in members.items()}


def _parameters(value: object) -> str:
    """Return the names of the parameters in parentheses; "" for what others do not call, or not by name."""
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return ""
    if inspect.isclass(value) and (issubclass(value, Enum) or getattr(value, "_is_protocol", False)):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    empty = inspect.Parameter.empty
    plain = [
        each.replace(annotation=empty, default=empty if each.default is empty else _OPTIONAL)
        for each in signature.parameters.values()
    ]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


class _Optional:
    def __repr__(self) -> str:
        return ""


_OPTIONAL: Final = _Optional()


def _main() -> None:
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.public_api --write")
    for folder in MODULES:
        record_of(folder).write_text("".join(f"{line}\n" for line in lines(folder)), encoding="utf-8")


if __name__ == "__main__":
    _main()
