"""Check whether the cluster has a group's `minResources`, before a member of the group is tried.

By default, the check is an estimate: it sums free amounts over nodes, although a pod must fit on one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import QuantityError, format_quantity, parse_quantity, pod_requests

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pyscheduler.api import Pod, RawQuantity
    from pyscheduler.framework import Nodes

__all__ = ["format_nanos", "resource_gap", "room_text"]

_PODS: Final = "pods"
_CPU: Final = "cpu"
_NANO: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6


def resource_gap(
    min_resources: Mapping[str, RawQuantity],
    minimum: int,
    nodes: Nodes,
    own: Iterable[tuple[Pod, str]],
    *,
    one_node: bool = False,
) -> str:
    """Return the message about what is missing; "" if nothing is.

    `own` are the group's members that hold a node, with its name; all of them must be in the snapshot. The number of
    pods is `minimum`, whatever `min_resources` says. With `one_node`, one node must have all of it; the message then
    says what the best node misses.
    """
    wanted = {name: parse_quantity(raw) for name, raw in min_resources.items()}
    wanted[_PODS] = minimum * _NANO
    wanted = {name: nanos for name, nanos in wanted.items() if nanos > 0}
    held = _held(own, nodes)
    free = {name: _free(name, nodes, held.get(name, {})) for name in wanted}
    if one_node:
        missing = _missing_on_best(wanted, free, len(nodes))
    else:
        missing = {name: nanos - int(free[name].sum()) * _unit(name) for name, nanos in wanted.items()}
    gap = sorted((name, nanos) for name, nanos in missing.items() if nanos > 0)
    if not gap:
        return ""
    shown = " ".join(f"{name}:{format_nanos(nanos, like=min_resources.get(name, ''))}" for name, nanos in gap)
    return f"resource gap: map[{shown}]"


def room_text(min_resources: Mapping[str, RawQuantity], nodes: Nodes, own: Iterable[tuple[Pod, str]]) -> str:
    """Return by resource what a group asks for, what is free for it, and whether the cluster could ever have it."""
    held = _held(own, nodes)
    texts = []
    for name, raw in min_resources.items():
        wanted = parse_quantity(raw)
        free = int(_free(name, nodes, held.get(name, {})).sum()) * _unit(name)
        if name == _PODS or wanted <= free:
            continue
        whole = int(nodes.allocatable(name).sum()) * _unit(name)
        amounts = [format_nanos(amount, like=raw) if amount else "0" for amount in (wanted, free, whole)]
        text = "minResources ask for {1} {0}; free {2}, all nodes together {3}".format(name, *amounts)
        texts.append(f"{text}: never fits" if wanted > whole else text)
    return "; ".join(texts)


def _unit(name: str) -> int:
    """Return the value of a column's unit, in nanos."""
    return _NANOS_PER_MILLI if name == _CPU else _NANO


def _held(own: Iterable[tuple[Pod, str]], nodes: Nodes) -> dict[str, dict[int, int]]:
    """Return the amounts that members hold, by resource and row."""
    held: dict[str, dict[int, int]] = {}
    for pod, node_name in own:
        row = nodes.index(node_name)
        if row is None:
            continue
        try:
            requests = pod_requests(pod)
        except QuantityError:
            continue
        for name, amount in (*requests.items(), (_PODS, 1)):
            rows = held.setdefault(name, {})
            rows[row] = rows.get(row, 0) + amount
    return held


def _free(name: str, nodes: Nodes, held: Mapping[int, int]) -> NDArray[np.int64]:
    if name == _PODS:
        free = nodes.allowed_pods() - nodes.pod_counts()
    else:
        free = nodes.allocatable(name) - nodes.requested(name)
    for row, amount in held.items():
        free[row] += amount
    clamped: NDArray[np.int64] = np.maximum(free, 0)
    return clamped


def _missing_on_best(wanted: Mapping[str, int], free: Mapping[str, NDArray[np.int64]], count: int) -> dict[str, int]:
    """Return what the best node misses: the first with the smallest sum of missing shares."""
    shares = np.zeros(count)
    for name, nanos in wanted.items():
        shares += np.maximum(1.0 - free[name] * (_unit(name) / nanos), 0.0)
    # Shares are floats and only choose the node; what is missing is computed in integers.
    fits = np.ones(count, dtype=np.bool_)
    for name, nanos in wanted.items():
        fits &= free[name] >= -(-nanos // _unit(name))
    best = int(np.argmax(fits)) if fits.any() else int(np.argmin(shares))
    return {name: nanos - int(free[name][best]) * _unit(name) for name, nanos in wanted.items()}


def format_nanos(nanos: int, *, like: RawQuantity = "") -> str:
    """Return an amount above 0 in Kubernetes' notation, with the kind of suffix of `like`: `1500m`, `2k`, `3Gi`."""
    return format_quantity(nanos, is_binary=isinstance(like, str) and like.endswith("i"))
