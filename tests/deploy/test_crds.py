"""configs/crds: a definition for every kind that describes groups; it takes what people write and what is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.errors import StatusError
from pyscheduler.api import ResourceKind
from pyscheduler.podgroup import DIALECTS, Dialect, MemberFacts
from pyscheduler.podgroup.status import status_patch
from pyscheduler.podgroup.wire import GroupStatus
from pyscheduler.testing import VirtualClock, make_pod
from pyscheduler_batch.binder.requests import BIND_REQUESTS, request_body
from pyscheduler_batch.dialects import QUEUE_DIALECTS
from pyscheduler_kai.objects import KAI_QUEUES
from pyscheduler_kai.topologies import KAI_TOPOLOGIES
from pyscheduler_volcano.hyper_nodes import HYPER_NODES
from pyscheduler_volcano.objects import VOLCANO_QUEUES
from tests.deploy.conftest import ROOT

FOLDER = ROOT / "configs/crds"
#: Kubernetes' own group is built in.
KINDS = [
    pytest.param(dialect, kind, id=f"{kind.group}/{kind.version}")
    for dialect in DIALECTS
    for kind in dialect.kinds
    if dialect.name != "intree"
]
QUEUES = [kind for row in QUEUE_DIALECTS for kind in row.kinds]
TOPOLOGIES = [KAI_TOPOLOGIES, HYPER_NODES]
#: A group whose members have begun to run, and its phase.
FACTS = MemberFacts(min=3, members=4, waiting=1, bound=2, running=2, succeeded=1, occupied_by="a/b")
SCHEDULING = GroupStatus(phase="Scheduling")


def written(dialect: Dialect) -> Mapping[str, object]:
    """Return a status of the dialect as the controller writes it, or with the phase of another program."""
    status = dialect.status.next(SCHEDULING, FACTS, now=0.0)
    return {"phase": "Scheduling", **status_patch(SCHEDULING, status).get("status", {})}  # type: ignore[dict-item]


def definition(kind: ResourceKind) -> dict[str, Any]:
    """Read a kind's definition."""
    text = (FOLDER / f"{kind.plural}.{kind.group}.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def group_of(kind: ResourceKind, **spec: Any) -> dict[str, Any]:
    """Write a group."""
    metadata = {"name": "g", "namespace": "default"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def test_there_is_one_for_every_kind_and_no_other() -> None:
    """The folder and the tables of kinds say the same."""
    kinds = [kind for _, kind in (param.values for param in KINDS)]  # type: ignore[attr-defined]
    wanted = {f"{kind.plural}.{kind.group}.yaml" for kind in [*kinds, *QUEUES, *TOPOLOGIES, BIND_REQUESTS]}
    assert {path.name for path in FOLDER.iterdir()} == wanted


@pytest.mark.parametrize(("dialect", "kind"), KINDS)
def test_a_group_keeps_what_is_said_and_written(dialect: Dialect, kind: ResourceKind) -> None:
    """What a person writes into it, and a controller into its status, is there afterwards."""
    cluster = EmbeddedCluster(clock=VirtualClock())
    cluster.add(definition(kind))
    spec = {"minMember": 3, "minResources": {"cpu": 4, "nvidia.com/gpu": "2"}}
    status = written(dialect)
    stored = cluster.add({**group_of(kind, **spec), "status": status})[0]
    assert stored["spec"] == spec
    assert stored["status"] == status


@pytest.mark.parametrize("kind", QUEUES, ids=lambda kind: f"{kind.group}/{kind.version}")
def test_a_queue_keeps_what_is_said_and_written(kind: ResourceKind) -> None:
    """A queue is not in a namespace; spec and status are stored as they are, the status apart from the rest."""
    found = definition(kind)
    assert (found["spec"]["scope"], found["spec"]["names"]["kind"]) == ("Cluster", kind.kind)
    (version,) = found["spec"]["versions"]
    assert (version["name"], version["subresources"]) == (kind.version, {"status": {}})
    assert ("api-approved.kubernetes.io" in found["metadata"].get("annotations", {})) is kind.group.endswith(".k8s.io")
    cluster = EmbeddedCluster(clock=VirtualClock())
    cluster.add(found)
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "q"}}
    if kind is KAI_QUEUES:
        amounts = {"quota": -1, "limit": 2.5, "overQuotaWeight": 1}
        spec = {"parentQueue": "p", "resources": {"cpu": amounts, "gpu": amounts}}
        status = {"childQueues": ["a"], "allocated": {"cpu": "500m"}, "requested": {"nvidia.com/gpu": 1}}
    else:
        spec = {"weight": 3, "capability": {"cpu": 4, "memory": "1Gi"}}
        status = {"pending": 1, "running": 2, "unknown": 0}
        if kind is VOLCANO_QUEUES:
            status |= {"state": "Closing", "inqueue": 1, "completed": 2, "allocated": {"cpu": "4", "pods": "2"}}
    stored = cluster.add({**manifest, "spec": spec, "status": status})[0]
    assert (stored["spec"], stored["status"]) == (spec, status)


def test_an_order_to_bind_keeps_what_is_written() -> None:
    """What the scheduler writes into a BindRequest, and a binder into its status, is there afterwards."""
    cluster = EmbeddedCluster(clock=VirtualClock())
    cluster.add(definition(BIND_REQUESTS))
    body = request_body(make_pod("p"), "n1", backoff_limit=3)
    status = {"phase": "Failed", "reason": "no", "failedAttempts": 4}
    stored = cluster.add({**body, "status": status})[0]
    assert (stored["spec"], stored["status"]) == (body["spec"], status)


@pytest.mark.parametrize("kind", [VOLCANO_QUEUES], ids=["volcano"])
def test_a_wrong_queue_is_refused(kind: ResourceKind) -> None:
    """The API server says at once which field is wrong."""
    cluster = EmbeddedCluster(clock=VirtualClock())
    cluster.add(definition(kind))
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "q"}}
    with pytest.raises(StatusError, match="weight"):
        cluster.add({**manifest, "spec": {"weight": 0}})


@pytest.mark.parametrize(("dialect", "kind"), KINDS)
def test_a_minimum_that_is_a_word_is_refused(dialect: Dialect, kind: ResourceKind) -> None:
    """The API server says so at once, and no pod has to wait in vain."""
    cluster = EmbeddedCluster(clock=VirtualClock())
    cluster.add(definition(kind))
    with pytest.raises(StatusError, match="minMember"):
        cluster.add(group_of(kind, minMember="three"))


@pytest.mark.parametrize(("dialect", "kind"), KINDS)
def test_an_api_server_would_take_it(dialect: Dialect, kind: ResourceKind) -> None:
    """Name, status subresource, and the approval without which no group under k8s.io may be defined."""
    found = definition(kind)
    assert found["metadata"]["name"] == f"{found['spec']['names']['plural']}.{found['spec']['group']}"
    (version,) = found["spec"]["versions"]
    assert version["name"] == kind.version
    assert version["subresources"] == {"status": {}}
    approval = found["metadata"].get("annotations", {}).get("api-approved.kubernetes.io", "")
    assert approval.startswith("unapproved") is kind.group.endswith(".k8s.io")


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (KAI_TOPOLOGIES, {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "kubernetes.io/hostname"}]}),
        (HYPER_NODES, {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}]}),
    ],
    ids=["kai", "volcano"],
)
def test_a_topology_keeps_what_is_said(kind: ResourceKind, spec: dict[str, Any]) -> None:
    """A topology is not in a namespace, and its spec is stored as it is."""
    found = definition(kind)
    assert (found["spec"]["scope"], found["spec"]["names"]["kind"]) == ("Cluster", kind.kind)
    cluster = EmbeddedCluster(clock=VirtualClock())
    cluster.add(found)
    stored = cluster.add({**group_of(kind), "metadata": {"name": "t"}, "spec": spec})[0]
    assert stored["spec"] == spec
