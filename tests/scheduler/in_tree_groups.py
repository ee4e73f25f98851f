"""PodGroups of the API group scheduling.k8s.io in a cluster, their members, and what became of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup
from pyscheduler.testing import FakeCluster, FakeFramework

GATES = "GenericWorkload=true,GangScheduling=true"


def serve_groups(cluster: FakeCluster) -> None:
    """Let the API server serve PodGroups."""
    if not cluster.serves(IN_TREE_PODGROUPS):
        cluster.serve(IN_TREE_PODGROUPS)


def group(cluster: FakeCluster, name: str, *, minimum: int | None = None, **spec: Any) -> None:
    """Create a PodGroup: a gang of that minimum, or one with the policy `basic`; `spec` is the rest of its spec."""
    policy: dict[str, Any] = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    cluster.add(
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulingPolicy": policy, **spec},
        },
        InTreePodGroup,
    )


def members(cluster: FakeCluster, name: str, count: int, *, start: int = 0, cpu: str = "1", **keywords: Any) -> None:
    """Create members `name0` and so on."""
    spec = {"schedulingGroup": {"podGroupName": name}}
    for number in range(start, start + count):
        cluster.add_pod(f"{name}{number}", requests={"cpu": cpu}, spec=spec, **keywords)


def states(framework: FakeFramework, names: Iterable[str]) -> Counter[str]:
    """Count the pods by what became of them."""
    return Counter(framework.result(name).state for name in names)


def named(name: str, count: int) -> list[str]:
    """Return the names of members."""
    return [f"{name}{number}" for number in range(count)]


def condition(cluster: FakeCluster, name: str) -> tuple[str, str, str]:
    """Return status, reason and message of the group's condition."""
    (item,) = [each for each in cluster.objects(InTreePodGroup) if each.name == name]
    found = {each.type: each for each in item.status.conditions}["PodGroupScheduled"]
    return found.status, found.reason, found.message
