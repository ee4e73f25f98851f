"""Racks: the pods of a group run in one rack. Racks with fewer pods are preferred; from 100 pods on, all are equal."""

from collections.abc import Sequence
from typing import Final

from pyscheduler import (
    CycleState,
    GroupAssignments,
    GroupInfo,
    GroupPlacement,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Status,
)

RACK: Final = "example.com/rack"
NO_RACKS: Final = Status.unschedulable("no node has a rack")


class Racks(PlacementGeneratePlugin):
    """Offer each rack as a set of nodes of which a group may use one."""

    def generate_placements(
        self, state: CycleState, group: GroupInfo, parent: GroupPlacement
    ) -> Sequence[GroupPlacement] | Status:
        nodes = parent.nodes
        label = nodes.labels(RACK)
        racks = [(rack, nodes.rows[label.ids == number]) for number, rack in enumerate(label.values) if rack]
        return [GroupPlacement(rack, nodes.take(rows)) for rack, rows in racks if len(rows)] or NO_RACKS


class QuietestRack(PlacementScorePlugin):
    """Prefer the rack with the fewest pods: 100 for none, one less for each."""

    def score_placement(self, state: CycleState, group: GroupInfo, assignments: GroupAssignments) -> int | Status:
        return max(0, 100 - int(assignments.placement.nodes.pod_counts().sum()))
