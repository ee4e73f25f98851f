"""EveryPoint: a small example at each of its extension points; replace them with your own code."""

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray
from pyscheduler import (
    ActionType,
    BindPlugin,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    NodeStatuses,
    Nodes,
    PermitPlugin,
    Pod,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    QueuedPodInfo,
    ReservePlugin,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.framework import PolicyRule
from pyscheduler.framework.plugin_args import Duration
from pyscheduler.framework.scoring import default_normalize

ON_HOLD: Final = Status.unresolvable("pod is on hold by its label")
REJECTED: Final = Status.unresolvable("pod is rejected by its label")
CLOSED: Final = Status.unresolvable("node(s) were closed")


@attrs.frozen(kw_only=True)
class EveryPointArgs:
    """The args in `pluginConfig`; in the file, the keys are in camelCase."""

    label: str = "example.com/every-point"
    patience_seconds: Duration = 60.0


class EveryPoint(
    PreEnqueuePlugin,
    QueueSortPlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
    EnqueueExtensions,
    SignPlugin,
):
    """What the plugin does, in one sentence."""

    args_type = EveryPointArgs
    args: EveryPointArgs
    rbac = (PolicyRule(api_groups=("",), resources=("pods",), verbs=("patch",)),)

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        #: The node of each pod that is reserved or bound, by uid.
        self.reserved: dict[str, str] = {}
        handle.lister(Pod).add_event_handler(on_delete=self.pod_deleted)
        handle.lister(Pod).add_event_handler(on_update=self.pod_updated)
        self.bound = handle.metrics.counter("every_point_bound_pods_total", "Bound pods", labels=["namespace"])

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Keep a pod out of the queue while its label says so."""
        return ON_HOLD if pod.labels.get(self.args.label) == "hold" else None

    def sort_key(self, info: QueuedPodInfo) -> tuple[int, float]:
        """Pods of a higher priority first; of equal ones, the one that has waited longest."""
        return -info.pod.priority, info.enqueued_at

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Reject a pod, before nodes are looked at, while its label says so."""
        return REJECTED if pod.labels.get(self.args.label) == "reject" else None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        """Reject the nodes whose label closes them; all nodes at once, each distinct value of the label once."""
        label = nodes.labels(self.args.label)
        closed = np.array([value == "closed" for value in label.values], dtype=np.bool_)
        return NodeStatuses.failing(closed[label.ids], CLOSED)

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Make room here, and return SUCCESS with the nominated node. In a trial (`state.trial`), change nothing."""
        return None, Status.unschedulable("EveryPoint cannot make room")

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip Score for pods to which every node is the same."""
        return Status.skip() if pod.labels.get(self.args.label) == "any" else None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        """Score nodes by the number in their label; all nodes at once, each distinct value of the label once."""
        label = nodes.labels(self.args.label)
        numbers = [min(int(value), 1_000_000) if value and value.isdecimal() else 0 for value in label.values]
        return np.array(numbers, dtype=np.int64)[label.ids]

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        """Bring the scores between 0 and 100, in place."""
        default_normalize(scores)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Record what the pod uses."""
        self.reserved[pod.uid] = node_name
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Remove the record. It may be called twice, and without `reserve` before."""
        self.reserved.pop(pod.uid, None)

    def pod_deleted(self, pod: Pod) -> None:
        """Remove the record of a pod that is gone."""
        self.reserved.pop(pod.uid, None)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Let a pod wait, with its node reserved, while its label says so."""
        if pod.labels.get(self.args.label) != "wait":
            return None
        return Status.wait("waiting for another label", timeout=self.args.patience_seconds)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Let a waiting pod continue when its label has changed."""
        waiting = self.handle.get_waiting_pod(new.uid)
        if waiting is not None and new.labels.get(self.args.label) != "wait":
            waiting.allow(self.name)

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Skip pods for which there is nothing to write."""
        return None if pod.labels.get(self.args.label) == "stamp" else Status.skip()

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write the node into an annotation; an exception makes the pod give its node up."""
        patch = {"metadata": {"annotations": {f"{self.args.label}-node": node_name}}}
        await self.handle.client.patch(Pod, pod.name, pod.namespace, patch=patch)
        return None

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind pods that ask for it here; leave all others to the next Bind plugin."""
        if pod.labels.get(self.args.label) != "bind":
            return Status.skip()
        await self.handle.client.bind(pod, node_name)
        return None

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count the pod."""
        self.bound.add(namespace=pod.namespace)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events that can make a rejected pod schedulable."""
        return [
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
        ]

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        """Return what the answers depend on in the pod: its label."""
        return [SignFragment("EveryPoint/label", pod.labels.get(self.args.label, ""))]
