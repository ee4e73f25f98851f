"""Append signatures and docstrings to the pages of `docs/reference/api`, whose tables list modules.

A name appears under the shortest path from which it can be imported: `pyscheduler.Status`, not
`pyscheduler.framework.status.Status`.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import public_api
from sphinx import addnodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from docutils import nodes
    from sphinx.application import Sphinx


def add_modules(app: Sphinx, docname: str, content: list[str]) -> None:
    """Append a section for each module that a page names."""
    if docname.startswith(f"{public_api.FOLDER}/"):
        homes = homes_of_names(Path(app.srcdir))
        for name in public_api.modules_of(content[0]):
            content[0] += "\n".join(["", f"\n## `{name}`\n", "```{eval-rst}", *directives(name, homes), "```", ""])


@cache
def homes_of_names(root: Path) -> Mapping[str, str]:
    """Return the module below which each import path is described: the first that offers it."""
    homes: dict[str, str] = {}
    for module in public_api.all_modules(root):
        for name in public_api.public_names(import_module(module)):
            homes.setdefault(public_api.import_path(module, name), module)
    return homes


def directives(module_name: str, homes: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that make Sphinx describe a module and its public names."""
    module = import_module(module_name)
    yield from (f".. automodule:: {module_name}", "   :no-members:", "")
    for name in public_api.public_names(module):
        value, path = getattr(module, name), public_api.import_path(module_name, name)
        if homes[path] != module_name:
            continue
        if inspect.isclass(value):
            kind = "exception" if issubclass(value, BaseException) else "class"
        elif inspect.isfunction(value):
            kind = "function"
        else:
            yield from (f".. autodata:: {module_name}.{name}", "")  # its comment is in this module
            continue
        yield from (f".. auto{kind}:: {path}", "")


def link_types(app: Sphinx, doctree: nodes.document) -> None:
    """Link the types in signatures to the public name; remove links to other types.

    Sphinx would search for a longer name with the same end, and link `object` to an attribute of this name.
    """
    paths = public_paths(Path(app.srcdir))
    for reference in list(doctree.findall(addnodes.pending_xref)):
        if reference.get("refdomain") == "py":
            path = paths.get(reference["reftarget"].rpartition(".")[2])
            if path is None:
                shown = next(iter(reference.findall(addnodes.pending_xref_condition)), reference)
                reference.replace_self(shown.children)
            else:
                reference["reftarget"], reference["refspecific"] = path, False


@cache
def public_paths(root: Path) -> Mapping[str, str]:
    """Return the import paths of all public names, without names that several modules define."""
    paths = homes_of_names(root)
    counts = Counter(path.rpartition(".")[2] for path in paths)
    return {name: path for path in paths if counts[name := path.rpartition(".")[2]] == 1}


def docstring_to_rst(_app: Sphinx, _what: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    """Convert a docstring, which is plain text with code between backticks, to reStructuredText."""
    lines[:] = rst("\n".join(lines)).split("\n")


def rst(text: str) -> str:
    """Return a docstring in which asterisks and final underscores outside of code are no markup."""
    parts = re.split(r"(`+[^`]+`+)", text)
    for number in range(0, len(parts), 2):
        plain = re.sub(r"(?<!^)(?<!\n)\*|(?<=\w)_\b", r"\\\g<0>", parts[number])
        # Inline code ends only before a space or punctuation.
        parts[number] = f"\\ {plain}" if number and re.match(r"\w", plain) else plain
    return "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", add_modules)
    app.connect("doctree-read", link_types)
    app.connect("autodoc-process-docstring", docstring_to_rst)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
