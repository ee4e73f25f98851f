"""What tests of the deployment share: its files, and the Dockerfile taken apart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "deploy"


def manifests() -> list[dict[str, Any]]:
    """Return all objects of the deployment, file by file."""
    return [
        document for path in sorted(FOLDER.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text("utf-8"))
    ]


def manifest(kind: str) -> dict[str, Any]:
    """Return the one object of a kind."""
    (found,) = [each for each in manifests() if each["kind"] == kind]
    return found


class Instruction(NamedTuple):
    """One instruction of a Dockerfile, continuation lines joined."""

    word: str
    rest: str


def instructions(text: str) -> Iterator[Instruction]:
    """Take a Dockerfile apart."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        yield Instruction(word, re.sub(r"\s+", " ", rest).strip())


def shell_commands(page: Path) -> Iterator[str]:
    """Yield the commands in a page's shell blocks."""
    for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        yield from filter(None, block.replace("\\\n", " ").splitlines())


def shell_lines(page: Path) -> Iterator[list[str]]:
    """Yield the commands in a page's shell blocks, as words."""
    for line in shell_commands(page):
        yield shlex.split(line, comments=True)
