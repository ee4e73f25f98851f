"""TenantIsolation: nodes change their tenant only when they are empty of the last one's pods."""

import pytest

from pyscheduler import ConfigError, CycleState, PreBindPlugin, Status
from pyscheduler.api import Namespace
from pyscheduler.framework import PodInfo, Trial
from pyscheduler.testing import Step, check_plugin, make_pod
from tenant_isolation.plugin import TenantIsolation

LABEL = "example.com/tenant"


def add_namespaces(cluster, **tenants):
    """Add namespaces with their tenants."""
    for name, tenant in tenants.items():
        metadata = {"name": name, "labels": {LABEL: tenant} if tenant else {}}
        cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, Namespace)


@pytest.fixture
def cluster(pyscheduler_cluster):
    """Give a cluster in which tenant `red` has two namespaces, and `blue` one."""
    add_namespaces(pyscheduler_cluster, red1="red", red2="red", blue="blue")
    return pyscheduler_cluster


def fitting(framework, namespace):
    """Return the nodes that take a pod of a namespace."""
    found = framework.run_filter(make_pod("p", namespace=namespace))
    return {name for name, status in found.items() if status is None}


def test_a_node_belongs_to_the_tenant_whose_pods_it_has(cluster):
    """Namespaces of one tenant share nodes; pods without a tenant neither take a node nor avoid one."""
    for name in ("empty", "red", "blue", "system"):
        cluster.add_node(name)
    cluster.add_pod("r", namespace="red1", node_name="red")
    cluster.add_pod("b", namespace="blue", node_name="blue")
    cluster.add_pod("s", namespace="default", node_name="system")
    cluster.add_pod("t", namespace="default", node_name="red")
    framework = cluster.framework(enable=[TenantIsolation])
    assert fitting(framework, "red2") == {"empty", "red", "system"}
    assert fitting(framework, "blue") == {"empty", "blue", "system"}
    assert fitting(framework, "default") == {"empty", "red", "blue", "system"}
    assert framework.run_filter(make_pod("p", namespace="blue"))["red"].message == "node(s) had pods of another tenant"

    scores = framework.run_score(make_pod("p", namespace="red2"))
    assert {name for name, found in scores.items() if found["TenantIsolation"] == 100} == {"red"}


async def test_the_last_pod_of_the_other_tenant_wakes_a_pod(cluster):
    cluster.add_node("n1")
    framework = cluster.framework(enable=[TenantIsolation])
    for name, namespace in (("a", "red1"), ("s", "default")):
        assert (await framework.schedule(name, namespace=namespace)).bound
    waiting = await framework.schedule("b", namespace="blue")
    assert not waiting.bound
    cluster.delete_pod("s")
    await cluster.clock.advance(30)
    assert framework.scheduler.queue.get(waiting.pod.uid).attempts == 1
    cluster.delete_pod("a", namespace="red1")
    await cluster.clock.advance(30)
    assert framework.result("b", namespace="blue").bound


async def test_a_namespace_that_changes_its_tenant_wakes_pods(cluster):
    cluster.add_node("n1")
    framework = cluster.framework(enable=[TenantIsolation])
    await framework.schedule("a", namespace="red1")
    assert not (await framework.schedule("b", namespace="blue")).bound
    cluster.patch(Namespace, "blue", {"metadata": {"labels": {LABEL: "red"}}})
    await cluster.clock.advance(30)
    assert framework.result("b", namespace="blue").bound


def test_a_pod_whose_namespace_is_not_known_waits(cluster):
    """Events of pods and namespaces come on two connections: the pod must not pass for one without a tenant."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[TenantIsolation])
    assert framework.run_pre_filter(make_pod("p", namespace="new")).plugin == "TenantIsolation"
    add_namespaces(cluster, new="green")
    assert fitting(framework, "new") == {"n1"}


class Late(PreBindPlugin):
    """Stand for anything that fails after Reserve: pod `a` gives its node up after ten seconds."""

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if pod.name == "a" else Status.skip()

    async def pre_bind(self, state, pod, node_name):
        await self.handle.clock.sleep(10)
        return Status.unschedulable("the disk is not ready")


async def test_a_pod_takes_its_node_from_reserve_until_it_gives_it_up(cluster):
    cluster.add_node("n1")
    framework = cluster.framework(enable=[TenantIsolation, Late])
    await framework.schedule("a", namespace="red1")
    assert not (await framework.schedule("b", namespace="blue")).bound
    await cluster.clock.advance(11)
    assert framework.result("b", namespace="blue").bound


async def test_a_restarted_scheduler_knows_the_tenants_of_nodes(cluster):
    cluster.add_node("n1")
    first = cluster.framework(enable=[TenantIsolation])
    await first.schedule("a", namespace="red1")
    await first.close()
    second = cluster.framework(enable=[TenantIsolation])
    assert not (await second.schedule("b", namespace="blue")).bound
    assert (await second.schedule("c", namespace="red2")).bound


def test_pods_that_a_trial_has_placed_count(cluster):
    cluster.add_node("n1")
    framework = cluster.framework(enable=[TenantIsolation])
    framework.nodes()
    plugin, snapshot, state = framework.plugin("TenantIsolation"), framework.scheduler.snapshot, CycleState(Trial())
    red, blue = make_pod("r", namespace="red1"), make_pod("b", namespace="blue")
    with snapshot.undo_at_end():
        snapshot.place(PodInfo.of(red), "n1")
        assert plugin.filter_nodes(state, blue, snapshot.nodes) is not None
    assert plugin.filter_nodes(state, blue, snapshot.nodes) is None


async def test_preemption_evicts_all_pods_of_the_other_tenant(cluster):
    """Evicting one of them is of no use; pods without a tenant stay."""
    cluster.add_node("n1")
    for name, namespace in (("a", "red1"), ("b", "red2"), ("s", "default")):
        spec = {"terminationGracePeriodSeconds": 0}
        cluster.add_pod(name, namespace=namespace, node_name="n1", priority=0, spec=spec)
    framework = cluster.framework(enable=[TenantIsolation])
    await framework.schedule("urgent", namespace="blue", priority=10)
    await cluster.clock.advance(30)
    assert sorted(pod.name for pod in cluster.pods()) == ["s", "urgent"]
    assert framework.result("urgent", namespace="blue").bound


def test_args_are_checked(pyscheduler_cluster):
    args = {"TenantIsolation": {"tenant": "x"}}
    with pytest.raises(ConfigError, match=r'"tenant".*args'):
        pyscheduler_cluster.framework(enable=[TenantIsolation], args=args)


def draw(rng, draft):
    """Create namespaces of two tenants, and give one to another tenant."""
    for name in ("red", "blue"):
        metadata = {"name": name, "labels": {LABEL: name}}
        draft.setup.append(Step("add", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, Namespace))
    draft.events.append(Step("patch", Namespace, "blue", {"metadata": {"labels": {LABEL: "red"}}}))
    draft.pods += [{"namespace": "red"}, {"namespace": "blue"}, {}]


def test_the_contract_of_plugins():
    check_plugin(TenantIsolation, draw=draw)
