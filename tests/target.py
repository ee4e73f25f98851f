"""The shape that the packages are to get, as rules with exceptions that may only become fewer.

Each rule says who must not import what, or whose text must not name a batch system. `target_exceptions.txt` lists what
breaks them today. `python -m tests.target` writes that list anew after a cut; the tests compare it with the last tag,
so a new exception is never taken. A rule that nothing breaks any more becomes a contract in `pyproject.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grimp

from tests import processes
from tests.distributions import BESIDE, ROOT, package_of

LIST: Final = Path(__file__).with_name("target_exceptions.txt")

#: Every import package of ours.
OURS: Final = tuple(map(package_of, (ROOT, *BESIDE)))
SYSTEMS: Final = ("pyscheduler_batch.kai", "pyscheduler_batch.volcano", "pyscheduler_batch.kube_batch")
#: From the word to the end of the paragraph.
_SOURCES: Final = re.compile(r"\bSources?\b.*?(?:\n\n|\"\"\")", re.DOTALL)
_NAME: Final = re.compile(r"kai|volcano|kube[-_ ]?batch", re.IGNORECASE)


def _lies_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _imports_of_systems(graph: grimp.ImportGraph) -> Iterator[str]:
    for importer in sorted(graph.modules):
        if _lies_in(importer, ("pyscheduler_batch",)) and not _lies_in(importer, SYSTEMS):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                if _lies_in(imported, SYSTEMS):
                    yield f"{importer} -> {imported}"


def _names_of_systems(folder: Path, *left_out: str) -> Iterator[str]:
    """Yield the modules with such names, apart from the sources of a rule: they have to be named."""
    for path in sorted(folder.rglob("*.py")):
        count = len(_NAME.findall(_SOURCES.sub("", path.read_text(encoding="utf-8"))))
        if count and path.relative_to(folder).parts[0] not in left_out:
            yield f"{path.relative_to(ROOT).as_posix()} {count}"


def exceptions() -> dict[str, list[str]]:
    """Return what breaks each rule now: imports as `importer -> imported`, names as `path count`."""
    batch = ROOT / "plugins" / "batch" / "pyscheduler_batch"
    systems = [name.rpartition(".")[2] for name in SYSTEMS]
    return {
        "what is common to batch imports no system": [*_imports_of_systems(grimp.build_graph(*OURS, cache_dir=None))],
        "what is common to batch names no system": [*_names_of_systems(batch, *systems)],
        # The dialects of pod groups are rows for the objects of these systems, whichever plugin serves the groups.
        "the core names no batch system": [*_names_of_systems(ROOT / "pyscheduler", "podgroup")],
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
