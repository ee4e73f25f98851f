"""Append the signatures and docstrings of modules to the pages of `docs/reference/api` that list these modules.

A name has the shortest path for importing it: `pyscheduler.Status`, not `pyscheduler.framework.status.Status`.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from enum import Enum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

import attrs
import msgspec
import public_api
from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sphinx.application import Sphinx

_log = logging.getLogger(__name__)
#: The longest value, in characters, that the page shows.
_LONGEST_VALUE: Final = 60


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
            yield f".. autodata:: {module_name}.{name}"  # its comment is in this module
            yield from ([] if is_short(value) else ["   :no-value:"])
            yield ""
            continue
        yield from (f".. auto{kind}:: {path}", "")


def is_short(value: object) -> bool:
    """Return True if a value reads well on the page: short, and without objects that have no text of their own."""
    return len(repr(value)) <= _LONGEST_VALUE and "<" not in repr(value)


def show_defaults(
    _app: Sphinx, _what: str, _name: str, cls: object, _options: object, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Write the default of each field into the signature of its class: `{}` instead of `NOTHING` or `<factory>`.

    Protocols have no signature, because nobody calls them.
    """
    if not inspect.isclass(cls) or signature is None:
        return signature, result
    if getattr(cls, "_is_protocol", False):
        return "", result
    if attrs.has(cls):
        texts = {field.alias: default_text(field.default) for field in attrs.fields(cls)}
        signature = re.sub(r"attr_dict\['(\w+)'\]\.default", lambda found: texts[found[1].lstrip("_")], signature)
        signature = re.sub(
            r"(\w+)(: [^=:]*= )NOTHING\b", lambda found: found[1] + found[2] + texts[found[1]], signature
        )
    elif issubclass(cls, msgspec.Struct):
        fields = msgspec.structs.fields(cls)
        made = iter([each.default_factory for each in fields if each.default_factory is not msgspec.NODEFAULT])
        signature = re.sub("<factory>", lambda _: factory_text(next(made)), signature)
    return signature, result


def default_text(default: object) -> str:
    """Return the default of an attrs field as code, or `...` if the code would be long."""
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return factory_text(default.factory) if not default.takes_self else "..."
    if isinstance(default, Enum):
        return f"{type(default).__name__}.{default.name}"
    return repr(default) if is_short(default) else "..."


def factory_text(factory: Callable[..., object]) -> str:
    """Return what a factory makes, as code: `{}` for `dict`."""
    made = repr(factory()) if factory in {dict, list, set, frozenset, tuple} else "..."
    return f"{factory.__name__}()" if inspect.isclass(factory) and made == "..." else made


def drop_noise(_app: Sphinx, doctree: nodes.document) -> None:
    """Remove lines that say only that a class has no base class."""
    for paragraph in list(doctree.findall(nodes.paragraph)):
        if paragraph.astext() == "Bases: object":
            paragraph.parent.remove(paragraph)


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


def docstring_to_rst(_app: Sphinx, what: str, _name: str, value: object, _options: object, lines: list[str]) -> None:
    """Convert a docstring, which is plain text with code between backticks, to reStructuredText.

    Drop docstrings that describe the type of a value, such as `int`, or the field of a tuple by its number.
    """
    text = "\n".join(lines).strip()
    own = inspect.getdoc(type(value))
    if (what in {"data", "attribute"} and text == own) or text.startswith("Alias for field number"):
        lines.clear()
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
    app.connect("doctree-read", drop_noise)
    app.connect("autodoc-process-signature", show_defaults)
    app.connect("autodoc-process-docstring", docstring_to_rst)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
