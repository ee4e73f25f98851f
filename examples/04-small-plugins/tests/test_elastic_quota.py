"""ElasticQuotas: what may be borrowed, what is given back, and that a guaranteed minimum holds."""

from pyscheduler.testing import Step, check_plugin
from small_plugins.elastic_quota import ELASTIC_QUOTAS, ElasticQuota, ElasticQuotas


def quota(namespace, minimum, maximum):
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": minimum}, "max": {"cpu": maximum}},
    }


def begin(cluster, **minimums):
    cluster.serve(ELASTIC_QUOTAS)
    for namespace, minimum in minimums.items():
        cluster.add(quota(namespace, minimum, "100"), ElasticQuota)
    return cluster.framework(enable=[ElasticQuotas], disable=["DefaultPreemption"])


def victims(cluster):
    return sorted(pod.name for pod in cluster.pods() if pod.is_terminating)


async def test_a_guaranteed_minimum_holds(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"cpu": "12"})
    for number in range(3):
        cluster.add_pod(f"b{number}", namespace="b", node_name="n1", requests={"cpu": "4"}, priority=number)
    framework = begin(cluster, a="4", b="8")

    # All three pods of b are beyond its minimum of 8, until the first of them is gone.
    await framework.schedule("a0", namespace="a", requests={"cpu": "4"}, priority=100)
    assert victims(cluster) == ["b0"]
    cluster.delete_pod("b0", namespace="b")  # the end of its grace period; there is no kubelet here
    await cluster.clock.advance(10)
    assert framework.result("a0", namespace="a").node == "n1"
    await framework.schedule("a1", namespace="a", requests={"cpu": "4"}, priority=100)
    assert victims(cluster) == []


async def test_a_large_pod_does_not_take_a_minimum(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"cpu": "12"})
    for number in range(3):
        cluster.add_pod(f"b{number}", namespace="b", node_name="n1", requests={"cpu": "4"})
    framework = begin(cluster, a="12", b="8")

    answer = await framework.schedule("a0", namespace="a", requests={"cpu": "12"}, priority=100)
    assert victims(cluster) == []
    assert "Insufficient cpu" in answer.message


async def test_what_is_free_may_be_borrowed_up_to_the_sum_of_all_minimums(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"cpu": "12"})
    framework = begin(cluster, a="4", b="4")

    assert (await framework.schedule("b0", namespace="b", requests={"cpu": "8"})).bound
    answer = await framework.schedule("b1", namespace="b", requests={"cpu": "1"})
    assert "all minimums together are used up" in answer.message


def draw_quotas(rng, draft):
    for namespace in ("a", "b"):
        draft.setup.append(Step("add", quota(namespace, rng.choice("24"), "100"), ElasticQuota))
        draft.pods += [{"namespace": namespace, "priority": rng.choice((0, 10))}] * 2


def test_elastic_quotas_keep_the_contract():
    check_plugin(ElasticQuotas, disable=["DefaultPreemption"], draw=draw_quotas, histories=8)
