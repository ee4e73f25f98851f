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
from typing import TYPE_CHECKING

import public_api
from sphinx import addnodes
from sphinx.util import logging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils import nodes
    from sphinx.application import Sphinx

_log = logging.getLogger(__name__)


def add_modules(_app: Sphinx, docname: str, content: list[str]) -> None:
    """Append a section for each module that a page names."""
    if docname.startswith(f"{public_api.FOLDER}/"):
        for name in public_api.modules_of(content[0]):
            content[0] += "\n".join(["", f"\n## `{name}`\n", "```{eval-rst}", *directives(name), "```", ""])


def directives(module_name: str) -> Iterator[str]:
    """Yield the lines that make Sphinx describe a module and its public names."""
    module = import_module(module_name)
    yield from (f".. automodule:: {module_name}", "   :no-members:", "")
    paths = [path for path, home in public_api.homes().items() if home == module_name]
    if not paths:
        _log.warning("%s has no public name that no other module describes", module_name)
    for path in paths:
        name = path.rpartition(".")[2]
        value = getattr(module, name)
        if inspect.isclass(value):
            kind = "exception" if issubclass(value, BaseException) else "class"
        elif public_api.is_function(value):
            kind = "function"
        else:
            yield from (f".. autodata:: {module_name}.{name}", "")  # its comment is in this module
            continue
        yield from (f".. auto{kind}:: {path}", "")


def link_types(_app: Sphinx, doctree: nodes.document) -> None:
    """Link the types in signatures to the public name; remove links to other types.

    Sphinx would search for a longer name with the same end, and link `object` to an attribute of this name.
    """
    paths = paths_of_names()
    for reference in list(doctree.findall(addnodes.pending_xref)):
        if reference.get("refdomain") == "py":
            path = paths.get(reference["reftarget"].rpartition(".")[2])
            if path is None:
                shown = next(iter(reference.findall(addnodes.pending_xref_condition)), reference)
                reference.replace_self(shown.children)
            else:
                reference["reftarget"], reference["refspecific"] = path, False


@cache
def paths_of_names() -> dict[str, str]:
    """Return the import paths of all public names, without names that have several."""
    counts = Counter(path.rpartition(".")[2] for path in public_api.homes())
    return {name: path for path in public_api.homes() if counts[name := path.rpartition(".")[2]] == 1}


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
