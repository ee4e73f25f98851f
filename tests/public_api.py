"""The public names with their signatures, one per line, and `public_api.txt`, which records them.

`python -m tests.public_api --write` records them anew. What that changes is a change of the plugin API: see
docs/reference/compatibility.md for the version number that it raises.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["RECORDED", "lines"]

#: The modules that docs/reference/framework-api.md names.
MODULES: Final = (
    "pyscheduler",
    "pyscheduler.api",
    "pyscheduler_batch.contract",
    "pyscheduler_batch.dialects",
    "pyscheduler.framework",
    "pyscheduler.framework.affinity_terms",
    "pyscheduler.framework.namespace_usage",
    "pyscheduler.framework.node_matching",
    "pyscheduler.framework.node_memo",
    "pyscheduler.framework.plugin_args",
    "pyscheduler.framework.scoring",
    "pyscheduler.framework.work_sources",
    "pyscheduler.podgroup",
    "pyscheduler.testing",
)
RECORDED: Final = Path(__file__).with_name("public_api.txt")


def lines() -> Iterator[str]:
    """Return `module.name(parameters)` for each public name, and a line for each public member of a class.

    A class has no lines for what it inherits from another public class. `=` marks an optional parameter.
    """
    modules = {name: importlib.import_module(name) for name in MODULES}
    found = (getattr(module, name) for module in modules.values() for name in _exported(module))
    public = {value for value in found if inspect.isclass(value)}
    seen: set[int] = set()
    for module_name, module in modules.items():
        for name in sorted(_exported(module)):
            value = getattr(module, name)
            where = f"{module_name}.{name}"
            # A name that several modules offer is described once.
            is_new = (inspect.isclass(value) or inspect.isfunction(value)) and id(value) not in seen
            seen.add(id(value))
            yield f"{where}{_parameters(value)}" if is_new else where
            if is_new and inspect.isclass(value):
                yield from (f"{where}.{text}" for text in _members(value, public))


def _exported(module: ModuleType) -> Iterable[str]:
    """Return what `__all__` lists or, in a package without it, what is imported as `name as name` or with a star."""
    listed: Iterable[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return listed
    source = inspect.getsource(module)
    stars = re.findall(r"^from ([\w.]+) import \*", source, re.MULTILINE)
    names = re.findall(r"\b(\w+) as \1\b", source)
    return [*names, *(name for each in stars for name in _exported(importlib.import_module(each)))]


def _members(cls: type, public: set[type]) -> Iterator[str]:
    if issubclass(cls, Enum):
        yield from cls.__members__
        return
    own = [
        each
        for each in cls.__mro__
        if each.__module__.startswith(("kube_", "pyscheduler")) and (each is cls or each not in public)
    ]
    names = {name for each in own for name in (*vars(each), *vars(each).get("__annotations__", {}))}
    for name in sorted(name for name in names if not name.startswith("_")):
        member = inspect.getattr_static(cls, name, None)
        if isinstance(member, (staticmethod, classmethod)):
            member = member.__func__
        yield f"{name}{_parameters(member)}"


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
    RECORDED.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")


if __name__ == "__main__":
    _main()
