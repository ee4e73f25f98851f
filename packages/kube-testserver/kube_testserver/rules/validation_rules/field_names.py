"""Check the `fieldPath` of a CEL rule against the rule's schema, and return the path as errors show it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kube_testserver.store import Object

__all__ = ["relative_path"]

_STEP: Final = re.compile(r"\.(?P<plain>[A-Za-z_][A-Za-z0-9_]*)|\['(?P<quoted>(?:[^'\\]|\\.)+)'\]")


def relative_path(schema: Object, text: str | None) -> str | None:
    """Return a path like ``.spec['a.b']`` as errors show it; None if it is none, or leads out of the schema."""
    text = text or ""
    shown, place, known = "", 0, schema
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None:
            return None
        name = step["plain"] or re.sub(r"\\(.)", r"\1", step["quoted"])
        properties, values = known.get("properties") or {}, known.get("additionalProperties")
        if name in properties:
            known, shown = properties[name], f"{shown}.{name}" if shown else name
        elif isinstance(values, dict):
            known, shown = values, f"{shown}[{name}]"
        else:
            return None
        place = step.end()
    return shown
