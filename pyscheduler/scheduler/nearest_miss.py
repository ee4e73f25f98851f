"""Get details for `pyscheduler explain`, such as the CPU that a node lacks, from the plugins that rejected a pod."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from kube_objects.durations import format_duration
from pyscheduler.framework.interfaces import FilterPlugin, PreFilterPlugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.status import Status
    from pyscheduler.scheduler.evaluation import Evaluation

__all__ = ["Miss", "closest_nodes", "nearest_misses", "said"]

#: About so many of the rejected nodes `why` is called, and so many are named.
_ASKED: Final = 3
#: So many plugins are needed for a choice among them.
_SEVERAL: Final = 2


@attrs.frozen(kw_only=True)
class Miss:
    """The rejections of one plugin: on how many nodes, kube-scheduler's words, and the plugin's own text or "".

    `examples` are names of rejected nodes; none if the plugin rejected the pod at PreFilter.
    """

    plugin: str
    nodes: int
    examples: Sequence[str]
    reasons: str
    text: str


def nearest_misses(found: Evaluation, notes: list[str]) -> list[Miss]:
    """Return a miss for each plugin that rejected nodes, and add failures to `notes`.

    Plugins that reject all nodes come first, then those with the most nodes. Call it while the snapshot of the
    evaluation is locked.
    """
    misses = []
    rejected = _rejected(found)
    for plugin, (nodes, reasons) in rejected.items():
        text = _text(found, found.state, plugin, nodes, notes)
        names = () if found.pre_filter is not None else _first_names(nodes)
        misses.append(Miss(plugin=plugin, nodes=len(nodes), examples=names, reasons=", ".join(reasons), text=text))
    if found.obstacles is None:
        return sorted(misses, key=lambda miss: (-miss.nodes, miss.plugin))
    everywhere = found.obstacles.everywhere
    misses.sort(key=lambda miss: (miss.plugin not in everywhere, -miss.nodes, miss.plugin))
    hidden = []
    for plugin in everywhere:
        # A plugin without a text would say nothing new, such as one more about the same claim.
        text = _text(found, found.obstacles.state, plugin, found.all_nodes, []) if plugin not in rejected else ""
        if text:
            hidden.append(Miss(plugin=plugin, nodes=len(found.all_nodes), examples=(), reasons="", text=text))
    place = sum(miss.plugin in everywhere for miss in misses)
    return [*misses[:place], *hidden, *misses[place:]]


def closest_nodes(found: Evaluation) -> str:
    """Return which plugins alone keep the pod from the nodes where the fewest do; "" if the misses say it."""
    obstacles = found.obstacles
    if obstacles is None or len(obstacles.rejected) < _SEVERAL:
        return ""
    everywhere = obstacles.everywhere
    texts = []
    for plugins, nodes in obstacles.closest(found.all_nodes):
        names = ", ".join(_first_names(nodes))
        names += f" and {len(nodes) - _ASKED} more" if len(nodes) > _ASKED else ""
        if not plugins:
            verb = "rejects" if len(everywhere) == 1 else "reject"
            texts.append(f"{' and '.join(everywhere)} {verb} all nodes; nothing else rejects {names}")
            continue
        told = {miss.plugin for miss in found.misses if miss.nodes == len(nodes) and len(plugins) == 1}
        whys = [_text(found, obstacles.state, plugin, nodes, []) for plugin in plugins if plugin not in told]
        why = "; ".join(filter(None, whys))
        besides = f"besides {' and '.join(everywhere)}, " if everywhere else ""
        verb = "rejects" if len(plugins) == 1 else "reject"
        texts.append(f"{besides}only {' and '.join(plugins)} {verb} {names}{f': {why}' if why else ''}")
    return "; ".join(texts)


def _first_names(nodes: Nodes) -> list[str]:
    return [nodes.name(row) for row in range(min(_ASKED, len(nodes)))]


def _rejected(found: Evaluation) -> dict[str, tuple[Nodes, list[str]]]:
    """Return by plugin the nodes that it rejected, and its reasons."""
    if found.pre_filter is not None:
        return {found.pre_filter.plugin: (found.all_nodes, [said(found.pre_filter)])}
    if found.filtered is None or found.statuses is None:
        return {}
    by_plugin: dict[str, list[tuple[int, Status]]] = {}
    # `np.unique` imports `numpy.ma`, which takes longer than all else here.
    for reason_id in sorted({*found.statuses.reason_ids.tolist()} - {0}):
        status = found.statuses.table[reason_id]
        by_plugin.setdefault(status.plugin, []).append((reason_id, status))
    rejected = {}
    for plugin, entries in by_plugin.items():
        rows = np.flatnonzero(np.isin(found.statuses.reason_ids, [reason_id for reason_id, _ in entries]))
        reasons = dict.fromkeys(reason for _, status in entries for reason in _reasons(status))
        rejected[plugin] = (found.filtered.take(rows), [*reasons])
    return rejected


def _reasons(status: Status) -> Sequence[str]:
    """Return the reasons one by one, because statuses may share some; as a whole if there is a time for a retry."""
    text = said(status)
    return status.reasons if text == status.message else [text]


def said(status: Status) -> str:
    """Return the message of a rejection, and after how many seconds the plugin wants the pod to be retried."""
    after = status.retry_after_seconds
    retry = f" (retry after {format_duration(max(after, 0.0))})" if after is not None and isfinite(after) else ""
    return status.message + retry


def _text(found: Evaluation, state: CycleState, name: str, nodes: Nodes, notes: list[str]) -> str:
    plugin = found.profile.plugins.get(name)
    if not isinstance(plugin, FilterPlugin | PreFilterPlugin):
        return ""
    try:
        text = plugin.why_nodes(state, found.pod, nodes)
        if text or not isinstance(plugin, FilterPlugin):
            return str(text)
        texts = (plugin.why(found.pod, nodes[row]) for row in range(min(_ASKED, len(nodes))))
        return "; ".join(dict.fromkeys(str(each) for each in texts if each))
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything, and its status stands without a text
        notes.append(f"plugin {name} failed to say why it rejected nodes: {type(error).__name__}: {error}")
        return ""
