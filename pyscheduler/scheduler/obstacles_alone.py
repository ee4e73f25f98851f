"""For each node, find all plugins that reject a pod there, for `pyscheduler explain`.

A scheduling cycle finds only the first of these plugins. Here, each plugin judges the pod as if the others accepted it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.interfaces import FilterPlugin, PreFilterPlugin, PreFilterResult
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.status import Code, Status
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.extension_points.points import is_columnar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.profile import Profile

__all__ = ["Obstacles", "obstacles_alone"]

#: At most so many nodes of a set of plugins are named, and so many sets.
_NAMED: Final = 3


@attrs.frozen
class Obstacles:
    """The nodes that each plugin rejects: bool[n] by plugin; and the state that the plugins have written."""

    rejected: Mapping[str, NDArray[np.bool_]]
    state: CycleState

    @property
    def everywhere(self) -> Sequence[str]:
        """The plugins that reject all nodes."""
        return [plugin for plugin, rows in self.rejected.items() if rows.all()]

    def closest(self, nodes: Nodes) -> Sequence[tuple[Sequence[str], Nodes]]:
        """Return sets of plugins, each with the nodes that only these plugins reject; the smallest sets first.

        Plugins that reject all nodes do not count. A set that contains another is left out: more would have to change.
        """
        everywhere = self.everywhere
        partial = [plugin for plugin in self.rejected if plugin not in everywhere]
        rows: dict[tuple[str, ...], list[int]] = {}
        for row in range(len(nodes)):
            rows.setdefault(tuple(each for each in partial if self.rejected[each][row]), []).append(row)
        least = [each for each in rows if not any(set(other) < set(each) for other in rows)]
        least.sort(key=lambda each: (len(each), len(rows[each])))
        return [(each, nodes.take(np.array(rows[each], dtype=np.int64))) for each in islice(least, _NAMED)]


def obstacles_alone(profile: Profile, pod: Pod, nodes: Nodes) -> Obstacles:
    """Return which of all `nodes` each plugin rejects. Call it while the snapshot is locked."""
    state = CycleState(Trial(TrialKind.EXPLAIN))
    rejected: dict[str, NDArray[np.bool_]] = {}
    done: set[str] = set()
    for name in profile.points[ExtensionPoint.PRE_FILTER]:
        plugin = profile.plugins[name]
        assert isinstance(plugin, PreFilterPlugin)
        try:
            answer = plugin.pre_filter(state, pod, nodes)
        except Exception:  # noqa: BLE001 - a plugin may raise anything
            done.add(name)
            continue
        if isinstance(answer, PreFilterResult) and answer.node_names is not None:
            names = answer.node_names
            rejected[name] = np.array([nodes.name(row) not in names for row in range(len(nodes))], dtype=np.bool_)
        elif isinstance(answer, Status):
            done.add(name)
            if answer.is_rejected:
                rejected[name] = np.ones(len(nodes), dtype=np.bool_)
    for name in profile.points[ExtensionPoint.FILTER]:
        plugin = profile.plugins[name]
        if name not in done and isinstance(plugin, FilterPlugin):
            rows = _filtered(plugin, state, pod, nodes)
            rejected[name] = rejected[name] | rows if name in rejected else rows
    return Obstacles({name: rows for name, rows in rejected.items() if rows.any()}, state)


def _filtered(plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.bool_]:
    """Return bool[n]: which nodes a Filter plugin rejects; none if it fails."""
    rejected = np.zeros(len(nodes), dtype=np.bool_)
    try:
        if is_columnar(type(plugin), ExtensionPoint.FILTER):
            statuses = plugin.filter_nodes(state, pod, nodes)
            return rejected if statuses is None else ~statuses.passed()
        for row in range(len(nodes)):
            status = plugin.filter(state, pod, nodes[row])
            rejected[row] = status is not None and status.code != Code.SUCCESS
    except Exception:  # noqa: BLE001 - a plugin may raise anything
        rejected[:] = False
    return rejected
