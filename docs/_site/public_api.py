"""Which names the API reference describes: those of the modules in the tables of `docs/reference/api`."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

#: The folder of the pages.
FOLDER: Final = "docs/reference/api"
#: A row of the table of a page.
_ROW: Final = re.compile(r"^\| \[`(pyscheduler[\w.]*)`\]", re.MULTILINE)
#: Packages that export names of their modules, the preferred one first.
PACKAGES: Final = (
    "pyscheduler",
    "pyscheduler.framework",
    "pyscheduler.api",
    "pyscheduler.testing",
    "pyscheduler.podgroup",
)


def modules_of(page: str) -> list[str]:
    """Return the modules in the table of a page."""
    return _ROW.findall(page)


def exported_names() -> Iterator[tuple[str, object]]:
    """Yield package and name, joined by a dot, and the object for all names that the packages export."""
    for package in PACKAGES:
        module = import_module(package)
        for name in getattr(module, "__all__", None) or exports(module):
            yield f"{package}.{name}", getattr(module, name)


def exports(package: ModuleType) -> Iterator[str]:
    """Yield the names that a package without `__all__` exports; it writes `import X as X`."""
    for name in re.findall(r"^    (\w+) as \1,?$| import (\w+) as \2\b", inspect.getsource(package), re.MULTILINE):
        yield name[0] or name[1]


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module offers; without `__all__`, these are the names that its package exports."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    exported = vars(import_module(module.__name__.rpartition(".")[0]))
    return [name for name, value in vars(module).items() if exported.get(name) is value and defines(module, name)]


def defines(module: ModuleType, name: str) -> bool:
    """Return True if a module does not import a name, but defines it."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return bool(value.__module__ == module.__name__)
    return re.search(rf"^{name}\b.* = ", inspect.getsource(module), re.MULTILINE) is not None


def import_path(module_name: str, name: str) -> str:
    """Return the shortest path from which a public name of a module can be imported."""
    value = getattr(import_module(module_name), name)
    for package in PACKAGES:
        exported = import_module(package)
        if name in getattr(exported, "__all__", dir(exported)) and getattr(exported, name) is value:
            return f"{package}.{name}"
    return f"{module_name}.{name}"


def all_modules(root: Path) -> list[str]:
    """Return the modules in the tables of all pages."""
    return [
        name for page in sorted((root / FOLDER).glob("*.md")) for name in modules_of(page.read_text(encoding="utf-8"))
    ]
