"""The names in the API reference: public names of the modules that are listed in `docs/reference/api`."""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

_ROOT: Final = Path(__file__).parents[2]
#: The folder of the pages.
FOLDER: Final = "docs/reference/api"
#: A row of the table of a page.
_ROW: Final = re.compile(r"^\| \[`((?:kube_|pyscheduler)[\w.]*)`\]", re.MULTILINE)
#: Packages that export names of their modules, the preferred one first.
_PACKAGES: Final = (
    "pyscheduler",
    "pyscheduler.framework",
    "pyscheduler.api",
    "pyscheduler.testing",
    "pyscheduler.podgroup",
    "kube_cel",
    "kube_testserver",
)


@cache
def recorded() -> frozenset[str]:
    """Return all public names and their members, with the package or module from which they can be imported."""
    files = [_ROOT / "tests/public_api.txt", *_ROOT.glob("p*/*/tests/public_api.txt")]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    paths = {line.partition("(")[0] for line in lines if "*" not in line.partition("(")[0]}
    # Lines such as `pyscheduler.api.* = kube_objects.*`; the one of the module on the right comes first.
    for line in (line for line in lines if " = " in line):
        module, _, other = line.replace(".*", "").partition(" = ")
        paths |= {module + path.removeprefix(other) for path in paths if path.startswith(f"{other}.")}
    return frozenset(paths)


def modules_of(page: str) -> list[str]:
    """Return the modules in the table of a page."""
    return _ROW.findall(page)


def all_modules() -> list[str]:
    """Return the modules in the tables of all pages."""
    pages = sorted((_ROOT / FOLDER).glob("*.md"))
    return [name for page in pages for name in modules_of(page.read_text(encoding="utf-8"))]


@cache
def homes() -> dict[str, str]:
    """Return the module below which each public name is described: the first that offers it, by import path."""
    found: dict[str, str] = {}
    for name in all_modules():
        module = import_module(name)
        for path in (import_path(module, each) for each in offered(module)):
            if path in recorded():
                found.setdefault(path, name)
    return found


def offered(module: ModuleType) -> list[str]:
    """Return the names that a module offers: its `__all__`, or else all names that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [name for name in vars(module) if not name.startswith("_") and defines(module, name)]


def defines(module: ModuleType, name: str) -> bool:
    """Return True if a module does not import a name, but defines it."""
    value = getattr(module, name)
    if inspect.isclass(value) or is_function(value):
        return bool(value.__module__ == module.__name__)
    return re.search(rf"^{name}\b.* = ", inspect.getsource(module), re.MULTILINE) is not None


def is_function(value: object) -> bool:
    """Return True for functions, with decorators too."""
    return callable(value) and inspect.isfunction(inspect.unwrap(value))


def import_path(module: ModuleType, name: str) -> str:
    """Return the shortest path from which a public name of a module can be imported."""
    value = getattr(module, name)
    for package in _PACKAGES:
        exported = import_module(package)
        if name in getattr(exported, "__all__", vars(exported)) and getattr(exported, name) is value:
            return f"{package}.{name}"
    return f"{module.__name__}.{name}"
