"""RackPower: the estimated power of all nodes in a rack stays within the rack's budget."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler import (
    CPU,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Node,
    Nodes,
    NodeStatuses,
    Pod,
    PreFilterPlugin,
    QueueingHint,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.api import pod_requests

#: Thousandths of a watt that the pod would draw.
DRAW: Final[StateKey[int]] = StateKey("RackPower/draw")
OVER_BUDGET: Final = Status.unschedulable("node(s) were in a rack without power left")


def _check_watts(_args: object, attribute: "attrs.Attribute[Mapping[str, float]]", watts: Mapping[str, float]) -> None:
    key = {"watts_per_unit": "wattsPerUnit"}.get(attribute.name, attribute.name)
    for name, value in watts.items():
        if not 0 <= value <= 1e9:
            raise ValueError(f"{key}[{name}] must be between 0 and 1000000000 watts, not {value:g}")


@attrs.frozen(kw_only=True)
class RackPowerArgs:
    """Watts per unit of a resource (a core, a GPU), watts of an idle node, and the budgets of racks in watts."""

    watts_per_unit: Mapping[str, float] = attrs.field(validator=_check_watts)
    budgets: Mapping[str, float] = attrs.field(factory=dict, validator=_check_watts)
    default_budget: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(0))
    )
    idle_watts: float = attrs.field(default=0.0, validator=attrs.validators.ge(0))
    rack_label: str = attrs.field(default="topology.kubernetes.io/rack", validator=attrs.validators.min_len(1))


class RackPower(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """Reject nodes in racks where the pod would exceed the budget. Nodes without a rack have no budget.

    The plugin keeps no books: the snapshot has what all placed pods request, also in trials and in preemption.
    """

    # No `reuse`: the answer for one node depends on the pods of the other nodes in its rack. For the same reason,
    # preemption must try one node at a time: otherwise it would evict pods of several nodes of a rack at once.
    counts_across_nodes = True
    args_type = RackPowerArgs
    args: RackPowerArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        draw = self.draw_of(pod)
        if draw == 0:
            return Status.skip()
        state.write(DRAW, draw)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        # `nodes` may be a part of the cluster; a rack needs all of its nodes.
        everywhere = self.handle.snapshot.nodes
        rack_draws = everywhere.domain_sums(self.args.rack_label, self.draws(everywhere))
        racks = everywhere.labels(self.args.rack_label)
        full = rack_draws + state.read(DRAW) > self.budgets(racks.values)
        return NodeStatuses.failing(full[nodes.labels(self.args.rack_label).ids], OVER_BUDGET)

    def draws(self, nodes: Nodes) -> NDArray[np.int64]:
        """Return int64[n]: thousandths of a watt that each node draws."""
        draws = np.full(len(nodes), round(self.args.idle_watts * 1000), dtype=np.int64)
        for name, watts in self.args.watts_per_unit.items():
            draws += np.rint(nodes.requested(name) * (watts * (1 if name == CPU else 1000))).astype(np.int64)
        return draws

    def budgets(self, racks: Sequence[str | None]) -> NDArray[np.float64]:
        """Return float64 by id of the rack label: the budget in thousandths of a watt, infinity if there is none."""
        args = self.args
        default = np.inf if args.default_budget is None else args.default_budget
        watts = [np.inf if rack is None else args.budgets.get(rack, default) for rack in racks]
        return np.array(watts, dtype=np.float64) * 1000

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        less = ClusterEvent(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        # A node that is deleted or moved to another rack gives its idle power and that of its pods back.
        moved = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL)
        return [ClusterEventWithHint(less, self.after_pod_change), ClusterEventWithHint(moved, self.after_node_change)]

    def after_pod_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry if some pod draws less than before."""
        before = self.draw_of(old) if isinstance(old, Pod) else 1
        after = self.draw_of(new) if isinstance(new, Pod) else 0
        return QueueingHint.QUEUE if after < before else QueueingHint.SKIP

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry unless a node stays in its rack."""
        key = self.args.rack_label
        if isinstance(old, Node) and isinstance(new, Node) and old.labels.get(key) == new.labels.get(key):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment("RackPower/draw", self.draw_of(pod)),)

    def draw_of(self, pod: Pod) -> int:
        """Return how many thousandths of a watt a pod draws."""
        requests = pod_requests(pod)
        watts = self.args.watts_per_unit
        return sum(round(requests.get(name, 0) * (watts[name] * (1 if name == CPU else 1000))) for name in watts)
