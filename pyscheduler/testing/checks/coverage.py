"""Count the calls of the plugin under test: a plugin that is never called would pass every check."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.interfaces import PreFilterResult
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.assembly.plugin_methods import misspelt_methods
from pyscheduler.runtime.extension_points.points import extension_points_of
from pyscheduler.testing.checks.findings import CHANGING_REMEDY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.framework.interfaces import Plugin

__all__ = ["Coverage"]

#: Called otherwise, or only with a feature gate.
_NOT_COUNTED: Final = frozenset(
    {ExtensionPoint.QUEUE_SORT, ExtensionPoint.PLACEMENT_GENERATE, ExtensionPoint.PLACEMENT_SCORE}
)
#: Where a plugin that always gives the default answer does nothing.
_DECIDING: Final = frozenset({"PreEnqueue", "Filter", "Score", "Permit"})
_DRAW: Final = (
    "in a test, let draw= add what concerns the plugin: check_plugin(..., draw=draw) with `def draw(rng, draft): "
    'draft.pod_labels["example.com/team"] = ["a", "b"]`'
)


@attrs.define
class Coverage:
    """The number of calls of the plugin, and of answers other than the default, by extension point.

    The default answers are None, SKIP, and 0 for every node.
    """

    calls: Counter[str] = attrs.Factory(Counter)
    acted: Counter[str] = attrs.Factory(Counter)
    #: By method: the function that it called whose answer is another in each run (`time.time`).
    changing: dict[str, str] = attrs.Factory(dict)

    #: Group, resource and verb of the requests that nothing grants.
    undeclared: set[tuple[str, str, str]] = attrs.Factory(set)

    def calls_of_changing(self) -> str:
        """Return a sentence about the calls of functions whose answer is another in each run."""
        return " and ".join(f"{place} calls {name}()" for place, name in self.changing.items())

    def add(self, point: str, answer: object) -> None:
        """Count a call."""
        self.calls[point] += 1
        self.acted[point] += _is_no_default(answer)

    def advice(self, plugin: type[Plugin]) -> Sequence[str]:
        """Return a sentence about each thing that the histories did not try, and about methods that nobody calls."""
        undeclared = [
            f'plugin "{plugin.name}" sends "{verb}" requests for {resource}, which no `rbac` grants, so a cluster '
            f'refuses them; add PolicyRule(api_groups=("{group}",), resources=("{resource}",), verbs=("{verb}",)) to '
            "its `rbac`"
            for group, resource, verb in sorted(self.undeclared)
        ]
        points = [point.metric_label for point in extension_points_of(plugin) if point not in _NOT_COUNTED]
        found = [*misspelt_methods(plugin), *undeclared]
        if self.changing:
            found.append(
                f"{self.calls_of_changing()}, whose answer is another in each run; if the plugin decides by it, equal "
                f"attempts end differently. {CHANGING_REMEDY}"
            )
        never = [point for point in points if not self.calls[point]]
        if never:
            names = " and ".join(never)
            found.append(
                f'plugin "{plugin.name}" was never called at {names}, so the checks say nothing there; {_DRAW}'
            )
        elif not _DECIDING.isdisjoint(points) and not any(self.acted.values()):
            names = " and ".join(point for point in points if point in _DECIDING)
            found.append(
                f'plugin "{plugin.name}" gave only the default answer at {names}, as if no pod or node concerned it; '
                f"{_DRAW}"
            )
        return found


def _is_no_default(answer: object) -> bool:
    if isinstance(answer, tuple) and len(answer) == 2:
        answer = answer[1]  # of PostFilter
    if answer is None:
        return False
    if isinstance(answer, Status):
        return answer.code not in {Code.SUCCESS, Code.SKIP}
    if isinstance(answer, NodeStatuses):
        return not answer.passed().all()
    if isinstance(answer, PreFilterResult):
        return not answer.all_nodes
    return bool(np.any(answer)) if isinstance(answer, np.ndarray | np.integer | int) else False
