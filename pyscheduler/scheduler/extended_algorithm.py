"""Find a node for one pod where extenders have a say: the steps of `algorithm`, with their answers awaited in between.

The snapshot stays as it is meanwhile, as in any cycle, and no other pod is tried; watches and bindings go on. What an
extender refuses joins what the filters said, and if in the end nothing is left, the pod waits for any event at all:
nobody knows what an extender's mind depends on.
Source: kube-scheduler 1.36, `schedulePod`, `findNodesThatFitPod`, `evaluateNominatedNode`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.diagnosis import Diagnosis, FitError, NoNodesError
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.runtime.event_registration import EXTENDER
from pyscheduler.runtime.scoring import best_of
from pyscheduler.scheduler.algorithm import Placement, note_broken_promise, note_filters, searched_nodes
from pyscheduler.scheduler.extender_wire import ExtenderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.batching import BatchTurn
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.algorithm import Algorithm
    from pyscheduler.scheduler.extenders import Extenders

__all__ = ["ExtendedAlgorithm", "note_refused"]

_log = logging.getLogger(__name__)


@attrs.define(kw_only=True)
class ExtendedAlgorithm:
    """The search for a node, with extenders."""

    algorithm: Algorithm
    extenders: Extenders

    async def schedule_pod(
        self, profile: Profile, state: CycleState, pod: Pod, *, turn: BatchTurn | None = None
    ) -> Placement:
        """Return the best node for `pod`; raise as `Algorithm.schedule_pod` does, or `ExtenderError`.

        With extenders no pod has a signature, so `turn` comes to nothing.
        """
        if not self.extenders.have_a_say(pod):
            return self.algorithm.schedule_pod(profile, state, pod, turn=turn)
        all_nodes = self.algorithm.snapshot.nodes
        if not len(all_nodes):
            raise NoNodesError
        diagnosis = Diagnosis()
        refused: dict[str, Status] = {}
        placement = await self._find(profile, state, pod, diagnosis, refused)
        if placement is None:
            note_refused(diagnosis, refused)
            raise FitError(num_all_nodes=len(all_nodes), diagnosis=diagnosis)
        return placement

    async def _find(
        self, profile: Profile, state: CycleState, pod: Pod, diagnosis: Diagnosis, refused: dict[str, Status]
    ) -> Placement | None:
        """Return the best node; None, with `diagnosis` and `refused` filled in, where there is none."""
        algorithm = self.algorithm
        outcome = algorithm.pre_filter(profile, state, pod, diagnosis)
        if outcome is None:
            return None
        broken: dict[str, Status] = {}
        promised = algorithm.nominated(profile, state, pod, broken)
        if promised is not None and await self._agree(pod, promised, refused):
            return Placement(node_name=promised.name(0), evaluated_nodes=1, feasible_nodes=1)
        nodes = searched_nodes(outcome, algorithm.snapshot.nodes, diagnosis, broken)
        found = algorithm.filter(profile, state, pod, nodes, diagnosis)
        if found is None:
            note_broken_promise(broken, diagnosis)
            return None
        left = await self.extenders.filter(pod, found.feasible, refused)
        if len(left) < len(found.feasible):
            diagnosis.unschedulable_plugins.add(EXTENDER)
        if not len(left):
            if found.evaluated > len(found.feasible):
                # The filters stopped at the first feasible node to say why others are not.
                note_filters(profile.run_filters(state, pod, found.searched), diagnosis)
            return None
        best = 0 if len(left) == 1 else await self._best(profile, state, pod, left)
        return Placement(node_name=left.name(best), evaluated_nodes=found.evaluated, feasible_nodes=len(left))

    async def _agree(self, pod: Pod, promised: Nodes, refused: dict[str, Status]) -> bool:
        """Tell whether the extenders leave the node that the pod was promised; one that fails settles nothing yet."""
        try:
            return len(await self.extenders.filter(pod, promised, refused)) > 0
        except ExtenderError as error:
            node_name = promised.name(0)
            _log.warning('Evaluation failed on nominated node pod=%s node=%s err="%s"', pod.key, node_name, error)
            return False

    async def _best(self, profile: Profile, state: CycleState, pod: Pod, nodes: Nodes) -> int:
        """Return the row of the highest total score, the extenders' included."""
        totals = self.algorithm.scores(profile, state, pod, nodes).totals
        for _, scores in await self.extenders.prioritize(pod, nodes):
            totals += scores.weighted
        return self.algorithm.draw(best_of(totals))


def note_refused(diagnosis: Diagnosis, refused: Mapping[str, Status]) -> None:
    """Put what extenders said of nodes beside what the filters said, which it replaces.

    Nodes that an extender dropped without a word have no status, like those that nobody looked at.
    """
    known = diagnosis.node_statuses
    diagnosis.node_statuses = NodeStatuses.from_mapping({**dict(known.items()), **refused}, absent=known.absent)
