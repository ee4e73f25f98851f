"""The scheduler and what batch systems share name no batch system: one that a stranger adds is like KAI and Volcano."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BATCH = ROOT / "plugins" / "batch" / "pyscheduler_batch"
_NAME = re.compile(r"kai|volcano|kube[-_ ]?batch", re.IGNORECASE)
#: A source of a rule has to be named; it goes from the word to the end of the paragraph.
_SOURCES = re.compile(r"\bSources?\b.*?(?:\n\n|\"\"\")", re.DOTALL)


def names_in_text(path: Path) -> list[str]:
    """Return the names of batch systems in a module, apart from sources of a rule."""
    return _NAME.findall(_SOURCES.sub("", path.read_text(encoding="utf-8")))


def names_in_code(path: Path) -> list[str]:
    """Return the names in the code alone: a comment may say that only one system has a field."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None  # a docstring
    return _NAME.findall(ast.unparse(tree))


def test_the_core_names_no_batch_system() -> None:
    """But for the dialects of pod groups, rows for the objects of these systems that any plugin may serve."""
    modules = [path for path in (ROOT / "pyscheduler").rglob("*.py") if path.parent.name != "podgroup"]
    assert len(modules) > 300
    assert {path.relative_to(ROOT).as_posix(): names for path in modules if (names := names_in_text(path))} == {}


def test_what_batch_systems_share_names_none() -> None:
    """But for BindRequests, shares of GPUs and past use, whose forms are KAI's."""
    apart = {"binder", "gpu_sharing", "usage"}
    modules = [path for path in BATCH.rglob("*.py") if path.relative_to(BATCH).parts[0] not in apart]
    assert len(modules) > 80
    assert {path.relative_to(BATCH).as_posix(): names for path in modules if (names := names_in_code(path))} == {}


@pytest.mark.parametrize(
    ("text", "in_text", "in_code"),
    [
        ('"""Ask.\n\nSource: KAI-Scheduler, `a.go`.\n"""\n', 0, 0),
        ('"""As in Volcano."""\n', 1, 0),
        ("x = 1  # KAI\n", 1, 0),
        ('if preset == "kube-batch":\n    volcano_queue()\n', 2, 2),
    ],
)
def test_names_are_found(tmp_path: Path, text: str, in_text: int, in_code: int) -> None:
    """In words, in identifiers and in strings."""
    path = tmp_path / "module.py"
    path.write_text(text, encoding="utf-8")
    assert (len(names_in_text(path)), len(names_in_code(path))) == (in_text, in_code)
