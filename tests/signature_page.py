"""docs/reference/signatures.md: the methods that plugin authors call or define, made from the code.

`python -m tests.signature_page --write` writes it anew; a test compares it with the code.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pyscheduler import api, framework
from pyscheduler.framework import interfaces, scoring
from pyscheduler.framework.namespace_usage import NamespaceUsage
from pyscheduler.framework.node_memo import NodeMemo

__all__ = ["PAGE", "text"]

PAGE: Final = Path(__file__).parents[1] / "docs/reference/signatures.md"
_HEAD: Final = """\
# Signatures

The methods that a plugin calls or defines, with the first sentence of their docstrings. Parameters after `*` are passed
by name. A test compares this page with the code. [The framework API](framework-api.md) explains the names, and [the API
pages](api/plugins.md) have the full docstrings.
"""
#: What a plugin calls, by heading.
_CALLED: Final[Sequence[tuple[str, Sequence[type]]]] = (
    ("The handle", (framework.Handle, framework.Client, framework.Lister, framework.EventRecorder)),
    ("The cluster in a cycle", (framework.Nodes, framework.Snapshot, framework.NodeInfo, framework.Resource)),
    ("State and answers", (framework.CycleState, framework.Status, framework.NodeStatuses, framework.Trial)),
    ("Groups and waiting", (framework.WaitingPod, framework.WaitingIndex, framework.Nominator)),
    ("What-ifs and preemption", (framework.WhatIf, framework.Statement, framework.Preemptor)),
    ("Metrics and time", (framework.PluginMetrics, framework.Clock)),
    ("Helpers", (NamespaceUsage, NodeMemo)),
)
_FUNCTIONS: Final = (
    api.pod_requests,
    api.pod_limits,
    api.container_requests,
    api.non_zero_requests,
    api.amounts_of,
    api.qos_class,
    api.parse_quantity,
    api.quantity_value,
    api.quantity_milli,
    api.compile_label_selector,
    api.required_node_affinity,
    api.tolerates,
    api.find_untolerated,
    api.kind_of,
    framework.event_resource,
    scoring.default_normalize,
    scoring.divide,
)


def text() -> str:
    """Return the page."""
    parts = [_HEAD]
    for heading, classes in _CALLED:
        parts.append(f"\n## {heading}\n")
        parts += [table for cls in classes if (table := _table(cls))]
    parts.append("\n## Functions\n\n| function | |\n|---|---|\n")
    parts += [f"{_row(function.__name__, function)}\n" for function in _FUNCTIONS]
    parts.append("\n## Methods that a plugin defines\n")
    parts += [table for name in interfaces.__all__ if (table := _table(getattr(interfaces, name)))]
    parts.append(_table(framework.PreemptionRules))
    return "".join(parts)


def _table(cls: type) -> str:
    rows = [*_rows(cls)]
    if not rows:
        return ""
    return f"\n### {cls.__name__}\n\n| member | |\n|---|---|\n" + "".join(f"{row}\n" for row in rows)


def _rows(cls: type) -> Iterator[str]:
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"| `{name}` | {_sentence(value)} |"
        elif inspect.isfunction(function := getattr(value, "__func__", value)):
            yield _row(name, function, is_method=not isinstance(value, staticmethod))


def _row(name: str, function: object, *, is_method: bool = False) -> str:
    assert callable(function)
    signature = inspect.signature(function)
    parameters = [*signature.parameters.values()][is_method:]
    # A set has another order in each process.
    parameters = [each.replace(default=...) if isinstance(each.default, frozenset) else each for each in parameters]
    # Annotations are texts, because they are not evaluated.
    shown = (
        re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature.replace(parameters=parameters)))
        .replace("= Ellipsis", "= ...")
        .replace("|", "\\|")
    )
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    return f"| `{prefix}{name}{shown}` | {_sentence(function)} |"


def _sentence(documented: object) -> str:
    """Return the first sentence of a docstring."""
    paragraph = (inspect.getdoc(documented) or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.])\s", paragraph, maxsplit=1)[0].replace("|", "\\|")


if __name__ == "__main__" and "--write" in sys.argv:
    PAGE.write_text(text(), encoding="utf-8")
