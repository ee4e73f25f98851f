"""Opportunistic batching: equal pods that follow each other share one list of nodes, sorted by score.

The next pod uses the list only if the previous pod filled its node.

Differs from kube-scheduler: pyscheduler drops the list after a node was added or deleted.
Source: kube-scheduler 1.36, `framework/runtime/batch.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kube_objects.clock import Clock
    from pyscheduler.cache.view import NodeView
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.runtime.extension_points.scoring import Ranking
    from pyscheduler.runtime.extension_points.signing import Signature
    from pyscheduler.runtime.tie_break import TieBreak

__all__ = ["Batch", "BatchTurn", "NodeList"]

#: How old a list may be.
_LONGEST_SECONDS: Final = 0.5
_ATTEMPTS: Final = "scheduler_batch_attempts_total"
_FLUSHES: Final = "scheduler_batch_cache_flushed_total"


class NodeList:
    """Nodes by falling score, those of equal score as `tie_break` says; put in order when the first is asked for."""

    __slots__ = ("_epoch", "_order", "_rows", "_tie_break", "_totals", "_view")

    def __init__(self, view: NodeView, rows: NDArray[np.int64], totals: NDArray[np.int64], tie_break: TieBreak) -> None:
        self._view = view
        self._rows = rows
        self._totals = totals
        self._tie_break = tie_break
        self._epoch = view.changes.epoch
        #: The rows that are left, the best last.
        self._order: list[int] | None = None

    @classmethod
    def without(
        cls, chosen: int, nodes: Nodes, ranking: Ranking, view: NodeView, tie_break: TieBreak
    ) -> NodeList | None:
        """Return the list of scored `nodes` but for the one in place `chosen`; None where the totals do not fit."""
        totals = ranking.totals
        if len(nodes) != len(totals):
            return None
        return cls(view, np.delete(nodes.rows, chosen), np.delete(totals, chosen), tie_break)

    def __len__(self) -> int:
        return len(self._rows) if self._order is None else len(self._order)

    @property
    def is_current(self) -> bool:
        """Return whether the rows of the snapshot are still those of the same nodes."""
        return self._view.changes.epoch == self._epoch

    def pop(self) -> str:
        """Return the name of the best node that is left, and drop it."""
        if self._order is None:
            mixed = self._tie_break.order(self._rows, self._view)
            self._order = self._rows[mixed][np.argsort(self._totals[mixed], kind="stable")].tolist()
        return self._view.name(self._order.pop())


class Batch:
    """The state that one profile carries from one pod to the next."""

    __slots__ = ("_clock", "_last_cycle", "_last_node", "_list", "_made_at", "_profile", "_recorder", "_signature")

    def __init__(self, *, profile: str, clock: Clock, recorder: Recorder) -> None:
        self._profile = profile
        self._clock = clock
        self._recorder = recorder
        #: The last cycle that found a node, and that node.
        self._last_cycle, self._last_node = 0, ""
        self._list: NodeList | None = None
        self._signature: Signature | None = None
        self._made_at = 0.0

    def hint(self, signature: Signature | None, cycle: int, rejects: Callable[[str], bool | None]) -> str:
        """Return the node that is likely best for a pod, "" where that is not known.

        `cycle` numbers the pods that were popped. `rejects` tells whether the filters reject the pod on a node, None
        where there is no such node.
        """
        began = self._clock.now()
        reason = self._obstacle(signature, cycle, rejects)
        found = ""
        if reason is None and self._list is not None:
            found = self._list.pop()
        else:
            self._recorder.count(_ATTEMPTS, self._profile, "no_hint")
            if reason:
                self._recorder.count(_FLUSHES, self._profile, reason)
        hinted = "hint" if found else "no_hint"
        seconds = self._clock.now() - began
        self._recorder.observe("scheduler_get_node_hint_duration_seconds", seconds, hinted, self._profile)
        return found

    def _obstacle(self, signature: Signature | None, cycle: int, rejects: Callable[[str], bool | None]) -> str | None:
        """Return why the list is of no use, "" where there is none; None where it is of use."""
        if not self._list:
            return ""
        if cycle != self._last_cycle + 1:
            return "pod_skipped"
        if signature is None or signature != self._signature:
            return "pod_incompatible"
        if self._clock.now() > self._made_at + _LONGEST_SECONDS:
            return "expired"
        if not self._list.is_current:
            return "node_missing"
        is_full = rejects(self._last_node)
        if is_full is None:
            return "node_missing"
        return None if is_full else "node_not_full"

    def store(
        self,
        signature: Signature | None,
        cycle: int,
        *,
        hinted: str,
        chosen: str,
        others: Callable[[], NodeList | None] | None,
    ) -> None:
        """Note which node a pod got; keep the list of the `others`, None where no nodes were scored."""
        began = self._clock.now()
        self._last_cycle, self._last_node = cycle, chosen
        if hinted == chosen:
            self._recorder.count(_ATTEMPTS, self._profile, "hint_used")
        else:
            if hinted:
                self._recorder.count(_ATTEMPTS, self._profile, "hint_not_used")
            self._list = others() if signature is not None and others is not None else None
            self._signature, self._made_at = signature, began
            if not self._list:
                reason = "empty_list" if others is None or signature is not None else "pod_not_batchable"
                self._recorder.count(_FLUSHES, self._profile, reason)
                self._list = None
        seconds = self._clock.now() - began
        self._recorder.observe("scheduler_store_schedule_results_duration_seconds", seconds, self._profile)


@attrs.define
class BatchTurn:
    """One pod's part in it: asks for a hint once, and says what came of it."""

    batch: Batch
    signature: Signature | None
    cycle: int
    #: None until it was asked for.
    hinted: str | None = None

    def hint(self, rejects: Callable[[str], bool | None]) -> str:
        """Return the node that is likely best, "" where that is not known."""
        if self.hinted is None:
            self.hinted = self.batch.hint(self.signature, self.cycle, rejects)
        return self.hinted

    def settle(self, chosen: str, others: Callable[[], NodeList | None] | None = None) -> None:
        """Note which node the pod got, and which others were scored."""
        self.batch.store(self.signature, self.cycle, hinted=self.hinted or "", chosen=chosen, others=others)
