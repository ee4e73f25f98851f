"""Describe missing resources: the pod's request, the most that one node has free, and the size of the largest node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.framework import Nodes

__all__ = ["amount", "shortages"]

_BYTES: Final = frozenset({"memory", "ephemeral-storage"})
_UNITS: Final = ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)


def shortages(requests: Iterable[tuple[str, int]], nodes: Nodes, everywhere: Nodes) -> str:
    """Return a sentence for each resource that a rejected node of `nodes` lacks; `everywhere` are all nodes."""
    texts = []
    full = nodes.pod_counts() >= nodes.allowed_pods()
    if full.any():
        row = int(np.argmax(full))
        text = f"1 pod; {nodes.name(row)} has {int(nodes.pod_counts()[row])} of {int(nodes.allowed_pods()[row])}"
        texts.append(f"{text}, the largest node takes {int(everywhere.allowed_pods().max())}")
    for name, request in requests:
        free = nodes.allocatable(name) - nodes.requested(name)
        if not (request > free).any():
            continue
        row, most = int(np.argmax(free)), int(np.argmax(everywhere.allocatable(name)))
        largest = int(everywhere.allocatable(name)[most])
        text = f"{amount(name, request)} {name}; most free {amount(name, int(free[row]))} on {nodes.name(row)}"
        text += f", largest node {amount(name, largest)}"
        if nodes.index(everywhere.name(most)) is None:  # another plugin rejects it
            text += f" ({everywhere.name(most)})"
        texts.append(f"{text}: never fits" if request > largest else text)
    return "; ".join(texts)


def amount(name: str, value: int) -> str:
    """Return an amount of a resource for people; cpu is in thousandths."""
    if name == "cpu":
        return f"{value / 1000:g}"
    if name in _BYTES:
        for unit, bits in _UNITS:
            if abs(value) >= 1 << bits:
                return f"{value / (1 << bits):.4g}{unit}"
    return str(value)
