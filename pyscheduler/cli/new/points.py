"""The parts of a new plugin at each extension point: imports, methods, and tests.

All parts belong to one example, so that any subset of them makes a plugin: a label, named by the plugin's args, closes
a node or gives it a score, and holds, rejects or delays a pod.
"""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["POINTS", "Part"]


@attrs.frozen(kw_only=True)
class Part:
    """The part of one extension point.

    `base` is the class to inherit. `names` are imported from `pyscheduler`, `imports` are other lines. `constant` is
    written before the class, `init` into the constructor. `events` are registered. `on_pods` and `on_nodes` are values
    of the label for which the plugin does something.
    """

    base: str
    names: tuple[str, ...]
    methods: str
    test: str
    imports: tuple[str, ...] = ()
    constant: str = ""
    init: str = ""
    events: tuple[str, ...] = ()
    test_imports: tuple[str, ...] = ()
    test_names: tuple[str, ...] = ()
    on_pods: str = ""
    on_nodes: str = ""


_NODE_EVENT: Final = "ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)"
_POD_EVENT: Final = "ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)"

POINTS: Final[dict[str, Part]] = {
    "preEnqueue": Part(
        base="PreEnqueuePlugin",
        on_pods="hold",
        names=("Pod", "Status"),
        constant='ON_HOLD: Final = Status.unresolvable("pod is on hold by its label")',
        events=(_POD_EVENT,),
        methods='''\
    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Keep a pod out of the queue while its label says so."""
        return ON_HOLD if pod.labels.get(self.args.label) == "hold" else None
''',
        test='''\
async def test_pod_is_held_until_its_label_changes(cluster: FakeCluster) -> None:
    """A pod on hold is gated; the change of its label brings it into the queue."""
    framework = $framework)
    assert (await framework.schedule("p", labels={LABEL: "hold"})).state == "gated"
    cluster.patch(Pod, "p", {"metadata": {"labels": {LABEL: None}}})
    await framework.settle()
    assert framework.result("p").bound
''',
        test_imports=("from pyscheduler import Pod",),
    ),
    "queueSort": Part(
        base="QueueSortPlugin",
        names=("QueuedPodInfo",),
        methods='''\
    def sort_key(self, info: QueuedPodInfo) -> tuple[int, float]:
        """Pods of a higher priority first; of equal ones, the one that has waited longest."""
        return -info.pod.priority, info.enqueued_at
''',
        test='''\
def test_pods_of_a_higher_priority_come_first(cluster: FakeCluster) -> None:
    """Priority decides, then the time in the queue."""
    framework = $framework)
    high, low = make_pod("high", priority=10), make_pod("low")
    assert framework.sort_key(high, enqueued_at=9) < framework.sort_key(low, enqueued_at=1)
    assert framework.sort_key(low, enqueued_at=1) < framework.sort_key(low, enqueued_at=2)
''',
        test_names=("make_pod",),
    ),
    "preFilter": Part(
        base="PreFilterPlugin",
        on_pods="reject",
        names=("CycleState", "Nodes", "Pod", "Status"),
        constant='REJECTED: Final = Status.unresolvable("pod is rejected by its label")',
        events=(_POD_EVENT,),
        methods='''\
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Reject a pod, before nodes are looked at, while its label says so."""
        return REJECTED if pod.labels.get(self.args.label) == "reject" else None
''',
        test='''\
async def test_pod_is_rejected_until_its_label_changes(cluster: FakeCluster) -> None:
    """The rejection names the reason; the change of the label retries the pod."""
    framework = $framework)
    rejected = await framework.schedule("p", labels={LABEL: "reject"})
    assert "pod is rejected by its label" in rejected.message
    cluster.patch(Pod, "p", {"metadata": {"labels": {LABEL: None}}})
    await cluster.clock.advance(5)  # the backoff after a failed attempt
    assert framework.result("p").bound
''',
        test_imports=("from pyscheduler import Pod",),
    ),
    "filter": Part(
        base="FilterPlugin",
        on_nodes="closed",
        names=("CycleState", "Nodes", "NodeStatuses", "Pod", "Status"),
        imports=("import numpy as np",),
        constant='CLOSED: Final = Status.unresolvable("node(s) were closed")',
        events=(_NODE_EVENT,),
        methods='''\
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        """Reject the nodes whose label closes them; all nodes at once, each distinct value of the label once."""
        label = nodes.labels(self.args.label)
        closed = np.array([value == "closed" for value in label.values], dtype=np.bool_)
        return NodeStatuses.failing(closed[label.ids], CLOSED)
''',
        test='''\
async def test_pod_avoids_closed_nodes(cluster: FakeCluster) -> None:
    """A closed node gets no pod; when it is opened, the pod that waits for it is retried."""
    framework = $framework)
    cluster.patch(Node, "n1", {"metadata": {"labels": {LABEL: "closed"}}})
    assert (await framework.schedule("p")).node == "n2"
    cluster.patch(Node, "n2", {"metadata": {"labels": {LABEL: "closed"}}})
    assert "2 node(s) were closed" in (await framework.schedule("q")).message
    cluster.patch(Node, "n1", {"metadata": {"labels": {LABEL: None}}})
    await cluster.clock.advance(5)  # the backoff after a failed attempt
    assert framework.result("q").node == "n1"
''',
        test_imports=("from pyscheduler import Node",),
    ),
    "postFilter": Part(
        base="PostFilterPlugin",
        names=("CycleState", "NodeStatuses", "Pod", "PostFilterResult", "Status"),
        methods='''\
    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Make room here, and return SUCCESS with the nominated node. In a trial (`state.trial`), change nothing."""
        return None, Status.unschedulable("$Name cannot make room")
''',
        test='''\
async def test_message_says_that_no_room_was_made(cluster: FakeCluster) -> None:
    """The pod's message has the answer of PostFilter."""
    framework = $framework)
    result = await framework.schedule("p", requests={"cpu": "1000"})
    assert "$Name cannot make room" in result.message
''',
    ),
    "preScore": Part(
        base="PreScorePlugin",
        on_pods="any",
        names=("CycleState", "Nodes", "Pod", "Status"),
        methods='''\
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip Score for pods to which every node is the same."""
        return Status.skip() if pod.labels.get(self.args.label) == "any" else None
''',
        test='''\
async def test_pod_that_does_not_care_is_not_scored(cluster: FakeCluster) -> None:
    """Without Score, the pod is placed all the same."""
    framework = $framework)
    assert (await framework.schedule("p", labels={LABEL: "any"})).bound
    assert (await framework.schedule("q")).bound
''',
    ),
    "score": Part(
        base="ScorePlugin",
        on_nodes="7",
        names=("CycleState", "Nodes", "Pod"),
        imports=(
            "import numpy as np",
            "from numpy.typing import NDArray",
            "from pyscheduler.framework.scoring import default_normalize",
        ),
        methods='''\
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        """Score nodes by the number in their label; all nodes at once, each distinct value of the label once."""
        label = nodes.labels(self.args.label)
        numbers = [min(int(value), 1_000_000) if value and value.isdecimal() else 0 for value in label.values]
        return np.array(numbers, dtype=np.int64)[label.ids]

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        """Bring the scores between 0 and 100, in place."""
        default_normalize(scores)
''',
        test='''\
async def test_node_with_the_highest_number_is_preferred(cluster: FakeCluster) -> None:
    """The number in the label decides, if the weight outweighs the default plugins."""
    weights = {"$Name": 100}
    framework = $framework, weights=weights)
    cluster.patch(Node, "n2", {"metadata": {"labels": {LABEL: "7"}}})
    assert (await framework.schedule("p")).node == "n2"
    cluster.patch(Node, "n1", {"metadata": {"labels": {LABEL: "9"}}})
    assert (await framework.schedule("q")).node == "n1"
''',
        test_imports=("from pyscheduler import Node",),
    ),
    "reserve": Part(
        base="ReservePlugin",
        names=("CycleState", "Pod", "Status"),
        init="""\
        #: The node of each pod that is reserved or bound, by uid.
        self.reserved: dict[str, str] = {}
        handle.lister(Pod).add_event_handler(on_delete=self.pod_deleted)
""",
        methods='''\
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
''',
        test='''\
async def test_records_follow_the_pod(cluster: FakeCluster) -> None:
    """The record is there while the pod exists."""
    framework = $framework)
    plugin = framework.plugin("$Name")
    assert isinstance(plugin, $Name)
    result = await framework.schedule("p")
    assert plugin.reserved == {result.pod.uid: result.node}
    cluster.delete_pod("p")
    await framework.settle()
    assert plugin.reserved == {}


def test_unreserve_may_be_called_twice(cluster: FakeCluster) -> None:
    """`unreserve` removes the record, and does nothing without one."""
    framework = $framework)
    plugin = framework.plugin("$Name")
    assert isinstance(plugin, $Name)
    pod = make_pod("p")
    assert framework.run_reserve(pod, "n1") is None
    for _ in range(2):
        framework.run_unreserve(pod, "n1")
    assert plugin.reserved == {}
''',
        test_names=("make_pod",),
    ),
    "permit": Part(
        base="PermitPlugin",
        on_pods="wait",
        names=("CycleState", "Pod", "Status"),
        events=(_POD_EVENT,),
        init="""\
        handle.lister(Pod).add_event_handler(on_update=self.pod_updated)
""",
        methods='''\
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
''',
        test='''\
async def test_pod_waits_until_its_label_changes(cluster: FakeCluster) -> None:
    """The pod keeps its node while it waits, and users see why; then it is bound."""
    framework = $framework)
    assert (await framework.schedule("p", labels={LABEL: "wait"})).state == "waiting"
    await cluster.clock.advance(1)
    assert framework.result("p").message == "waiting for another label"
    cluster.patch(Pod, "p", {"metadata": {"labels": {LABEL: None}}})
    await framework.settle()
    assert framework.result("p").bound


async def test_wait_ends_after_its_time(cluster: FakeCluster) -> None:
    """The args set the time; the pod gives its node up and is retried later."""
    args = {"$Name": {"patience": "30s"}}
    framework = $framework, args=args)
    await framework.schedule("p", labels={LABEL: "wait"})
    await cluster.clock.advance(30)
    assert "after waiting 30s at plugin $Name" in framework.result("p").message
''',
        test_imports=("from pyscheduler import Pod",),
    ),
    "preBind": Part(
        base="PreBindPlugin",
        on_pods="stamp",
        names=("CycleState", "Pod", "PolicyRule", "PreBindPreFlightResult", "Status"),
        methods='''\
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
''',
        test='''\
async def test_annotation_is_written_before_the_binding(cluster: FakeCluster) -> None:
    """A pod that asks for it has the name of its node in an annotation."""
    framework = $framework)
    result = await framework.schedule("p", labels={LABEL: "stamp"})
    assert result.node == cluster.pod("p").annotations[f"{LABEL}-node"]


async def test_pod_is_retried_if_the_annotation_cannot_be_written(cluster: FakeCluster) -> None:
    """A forbidden write costs the attempt; the next one succeeds."""
    framework = $framework)
    cluster.server.faults.add(Fault(method="PATCH", path="/pods/p$$", status=403, times=1))
    assert (await framework.schedule("p", labels={LABEL: "stamp"})).state == "pending"
    await cluster.clock.advance(5)  # the backoff after a failed attempt
    assert framework.result("p").bound
''',
        test_names=("Fault",),
    ),
    "bind": Part(
        base="BindPlugin",
        on_pods="bind",
        names=("CycleState", "Pod", "Status"),
        methods='''\
    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind pods that ask for it here; leave all others to the next Bind plugin."""
        if pod.labels.get(self.args.label) != "bind":
            return Status.skip()
        await self.handle.client.bind(pod, node_name)
        return None
''',
        test='''\
async def test_pods_are_bound_here_or_left_to_the_next_plugin(cluster: FakeCluster) -> None:
    """Without the default plugin, only the pods are bound that ask for it."""
    framework = cluster.framework(enable=[$Name], disable=[$without_binder])
    assert (await framework.schedule("p", labels={LABEL: "bind"})).bound
    assert "no Bind plugin" in (await framework.schedule("q")).message


async def test_other_pods_are_bound_by_the_default_plugin(cluster: FakeCluster) -> None:
    """A pod that is skipped here is bound by the next plugin."""
    framework = $framework)
    assert (await framework.schedule("p")).bound
''',
    ),
    "postBind": Part(
        base="PostBindPlugin",
        names=("CycleState", "Pod"),
        init="""\
        self.bound = handle.metrics.counter("${metric}_bound_pods_total", "Bound pods", labels=["namespace"])
""",
        methods='''\
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count the pod."""
        self.bound.add(namespace=pod.namespace)
''',
        test='''\
async def test_bound_pods_are_counted(cluster: FakeCluster) -> None:
    """The metric counts by namespace."""
    framework = $framework)
    await framework.schedule("p")
    assert framework.metric("${metric}_bound_pods_total", namespace="default") == 1
''',
    ),
}
