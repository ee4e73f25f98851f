"""Print pip constraints for the oldest dependencies that the given pyproject.toml files allow."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FLOOR = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*>=\s*(?P<version>[^,;\s]+)")


def requirements(project: dict[str, Any]) -> Iterator[str]:
    """Yield what a user of the project installs; the tools of its developers may be as new as they like."""
    yield from project["dependencies"]
    for extra in project.get("optional-dependencies", {}).values():
        yield from extra


def main(paths: list[str]) -> None:
    """Write one `name==version` line per floor; a requirement without one is left to pip."""
    for path in paths:
        for requirement in requirements(tomllib.loads(Path(path).read_text(encoding="utf-8"))["project"]):
            if floor := FLOOR.match(requirement):
                sys.stdout.write(f"{floor['name']}=={floor['version']}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
