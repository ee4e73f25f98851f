"""What nodes say to a kind of pod when the pods nominated to them are there already; kept until either changes.

A cluster in which many pods preempt at once has a thousand nodes with a pod on its way. Without this, each of these
pods would be put on its node in thought for every pod that is tried.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.status import Status
from pyscheduler.runtime.kept_filters import is_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.plugin_calls import PluginMethod

__all__ = ["KeptCrowds"]

#: So many nodes are known at most, and about how many bytes each takes.
_MAX_KNOWN: Final = 8192
_KNOWN_BYTES: Final = 320


@attrs.frozen
class _Crowd:
    """A node as of a generation, with these pods on it besides, and why it refuses; None: it does not."""

    generation: int
    infos: Sequence[PodInfo]
    status: Status | None


class KeptCrowds:
    """The answers for one kind of pod. `methods`: the filters that take part, all of them columnar, in order."""

    __slots__ = ("_by_name", "_methods", "_statuses", "is_possible")

    def __init__(self, methods: Sequence[PluginMethod]) -> None:
        self._methods = methods
        #: Whether answers can be kept at all.
        self.is_possible = all(is_kept(method) for method in methods)
        self._by_name: dict[str, _Crowd] = {}
        #: Equal statuses are one object.
        self._statuses: dict[Status, Status] = {}

    @property
    def size(self) -> int:
        """Return about how many bytes this takes."""
        return _KNOWN_BYTES * len(self._by_name)

    def answer(
        self,
        nodes: Nodes,
        nominated: Mapping[int, Sequence[PodInfo]],
        ask: Callable[[Mapping[int, Sequence[PodInfo]]], dict[int, Status] | Status],
    ) -> dict[int, Status] | Status:
        """Return by row why nodes refuse with these pods on them; `ask` about those of which that is not known."""
        known = self._by_name
        found: dict[int, Status] = {}
        unknown: dict[int, Sequence[PodInfo]] = {}
        refusals: Counter[str] = Counter()
        for row, infos in nominated.items():
            node = nodes[row]
            crowd = known.get(node.name)
            if crowd is None or crowd.generation != node.generation or crowd.infos != infos:
                unknown[row] = infos
                continue
            if crowd.status is not None:
                found[row] = crowd.status
                refusals[crowd.status.plugin] += 1
        self._count(len(nominated) - len(unknown), refusals)
        if not unknown:
            return found
        answers = ask(unknown)
        if isinstance(answers, Status):
            return answers
        if len(known) + len(unknown) > _MAX_KNOWN:
            known.clear()
            self._statuses.clear()
        for row, infos in unknown.items():
            node = nodes[row]
            status = answers.get(row)
            if status is not None:
                status = answers[row] = self._statuses.setdefault(status, status)
            known[node.name] = _Crowd(node.generation, infos, status)
        # In the order of the question.
        return {row: status for row in nominated if (status := found.get(row) or answers.get(row)) is not None}

    def _count(self, left: int, refusals: Counter[str]) -> None:
        """Count the nodes as judged by each filter up to the first that refuses."""
        for method in self._methods:
            if not left:
                break
            method.evaluations += left
            left -= refusals[method.plugin]
