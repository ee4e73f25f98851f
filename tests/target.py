"""The shape that the packages are to get, as rules with exceptions that may only become fewer.

Each rule says who must not import what, or whose text must not name a batch system. `target_exceptions.txt` lists what
breaks them today. `python -m tests.target` writes that list anew after a cut; the tests compare it with the last tag,
so a new exception is never taken. A rule that nothing breaks any more becomes a contract in `pyproject.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import grimp

from tests import processes
from tests.distributions import BESIDE, ROOT, package_of

LIST: Final = Path(__file__).with_name("target_exceptions.txt")

#: Every import package of ours.
OURS: Final = tuple(map(package_of, (ROOT, *BESIDE)))
SYSTEMS: Final = ("pyscheduler_batch.kai", "pyscheduler_batch.volcano", "pyscheduler_batch.kube_batch")
#: What strangers import who add a batch system.
DOOR: Final = (
    "kube_objects",
    "pyscheduler.api",
    "pyscheduler.framework",
    "pyscheduler.podgroup",
    "pyscheduler.testing",
    "pyscheduler.batch.contract",
    "pyscheduler.batch.dialects",
    "pyscheduler.batch.queue_problems",
    "pyscheduler_batch.disruption_budgets",
    "pyscheduler_batch.status",
    "pyscheduler_batch.system",
)
#: What a system may use besides: one on which it is built, and its own objects, which still lie in the core. They are
#: counted by the rule that the core names no system.
FOUNDATIONS: Final = {
    "pyscheduler_batch.kai": ("pyscheduler.batch.kai_objects", "pyscheduler.batch.topology"),
    "pyscheduler_batch.kube_batch": ("pyscheduler.batch.volcano_objects", "pyscheduler_batch.volcano"),
    "pyscheduler_batch.volcano": ("pyscheduler.batch.hyper_nodes", "pyscheduler.batch.volcano_objects"),
}
_NAME: Final = re.compile(r"kai|volcano|kube[-_ ]?batch", re.IGNORECASE)


def _lies_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _imports(
    graph: grimp.ImportGraph,
    importers: tuple[str, ...],
    is_allowed: Callable[[str], bool],
    left_out: tuple[str, ...] = (),
) -> list[str]:
    """Return the imports by modules of some packages that are not allowed."""
    return [
        f"{importer} -> {imported}"
        for importer in sorted(graph.modules)
        if _lies_in(importer, importers) and not _lies_in(importer, left_out)
        for imported in sorted(graph.find_modules_directly_imported_by(importer))
        if not is_allowed(imported)
    ]


def _names_of_systems() -> Iterator[str]:
    for path in sorted((ROOT / "pyscheduler").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if count := len(_NAME.findall(path.read_text(encoding="utf-8"))):
            yield f"{name} {count}"


def exceptions() -> dict[str, list[str]]:
    """Return what breaks each rule now: imports as `importer -> imported`, names as `path count`."""
    graph = grimp.build_graph(*OURS, cache_dir=None)

    def beside(importers: tuple[str, ...], *allowed: str) -> list[str]:
        return _imports(graph, importers, lambda imported: _lies_in(imported, (*importers, *allowed)))

    def of(forbidden: tuple[str, ...], by: str) -> list[str]:
        return _imports(graph, (by,), lambda imported: not _lies_in(imported, forbidden), left_out=forbidden)

    return {
        "what is common to batch imports no system": of(SYSTEMS, by="pyscheduler_batch"),
        "a batch system uses the public door": [
            line for system in SYSTEMS for line in beside((system,), *DOOR, *FOUNDATIONS.get(system, ()))
        ],
        "the core names no batch system": [*_names_of_systems()],
    }


def read(text: str) -> dict[str, list[str]]:
    """Return the exceptions by rule of a list as `write` writes it."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("    "):
            lines.append(line.strip())
        elif line:
            lines = found[line.removesuffix(":")] = []
    return found


def write(found: dict[str, list[str]]) -> str:
    """Return the exceptions as text: a line for each rule, and below it a line for each exception."""
    return "\n".join(f"{rule}:\n" + "".join(f"    {line}\n" for line in lines) for rule, lines in found.items())


def at_last_tag() -> dict[str, list[str]] | None:
    """Return the exceptions as the last tag has them; None where git, the tag or the list in it are missing."""
    tag = processes.run("git", "describe", "--tags", "--abbrev=0", cwd=ROOT)
    if tag.returncode:
        return None
    shown = processes.run("git", "show", f"{tag.stdout.strip()}:{LIST.relative_to(ROOT).as_posix()}", cwd=ROOT)
    return None if shown.returncode else read(shown.stdout)


def added(before: dict[str, list[str]], now: dict[str, list[str]]) -> list[str]:
    """Return the exceptions that `before` does not have, or has with a smaller count."""

    def count(line: str) -> tuple[str, int]:
        name, _, number = line.rpartition(" ")
        return (name, int(number)) if number.isdigit() else (line, 1)

    return [
        f"{rule}: {line}"
        for rule, lines in now.items()
        if rule in before
        for line in lines
        if count(line)[1] > dict(map(count, before[rule])).get(count(line)[0], 0)
    ]


if __name__ == "__main__":
    LIST.write_text(write(exceptions()), encoding="utf-8")
