"""The columns of workloads, storage, configuration and access, as `kubectl get -o wide` shows them."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.printing.tables import make_table
from kube_testserver.resources.builtin import BUILTIN_RESOURCES

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:58:00Z"  # two minutes before
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}]}}
SELECTOR = {
    "matchLabels": {"k": "v"},
    "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["2", "1"]},
        {"key": "b", "operator": "Exists"},
        {"key": "c", "operator": "DoesNotExist"},
    ],
}
SELECTED = "k=v,a in (1,2),b,!c"


def row(collection: str, obj: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the names of the columns and the cells of one object."""
    resource = next(one for one in BUILTIN_RESOURCES if one.collection == collection)
    metadata = {"name": "o", "creationTimestamp": CREATED, **obj.pop("metadata", {})}
    table = make_table(resource, [{"metadata": metadata, **obj}], {}, now=NOW)
    return [column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"]


@pytest.mark.parametrize(
    ("collection", "obj", "names", "cells"),
    [
        pytest.param(
            "replicasets.apps",
            {"spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR}, "status": {"replicas": 2}},
            "Name Desired Current Ready Age Containers Images Selector",
            ["o", 3, 2, 0, "2m", "a,b", "x:1,y:2", SELECTED],
            id="replica set",
        ),
        pytest.param(
            "replicationcontrollers",
            {"spec": {"replicas": 1, "template": TEMPLATE, "selector": {"k": "v"}}},
            "Name Desired Current Ready Age Containers Images Selector",
            ["o", 1, 0, 0, "2m", "a,b", "x:1,y:2", "k=v"],
            id="replication controller",
        ),
        pytest.param(
            "statefulsets.apps",
            {"spec": {"replicas": 3, "template": TEMPLATE}, "status": {"readyReplicas": 1}},
            "Name Ready Age Containers Images",
            ["o", "1/3", "2m", "a,b", "x:1,y:2"],
            id="stateful set",
        ),
        pytest.param(
            "daemonsets.apps",
            {
                "spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}},
                "status": {"desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberReady": 2},
            },
            "Name Desired Current Ready Up-to-date Available Node_Selector Age Containers Images Selector",
            ["o", 4, 3, 2, 0, 0, "disk=ssd", "2m", "", "", "<none>"],
            id="daemon set",
        ),
        pytest.param(
            "jobs.batch",
            {
                "spec": {"completions": 3, "template": TEMPLATE},
                "status": {
                    "succeeded": 3,
                    "startTime": "2027-01-15T07:58:30Z",
                    "completionTime": "2027-01-15T07:59:15Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            "Name Status Completions Duration Age Containers Images Selector",
            ["o", "Complete", "3/3", "45s", "2m", "a,b", "x:1,y:2", "<none>"],
            id="job that is done",
        ),
        pytest.param(
            "jobs.batch",
            {"spec": {"parallelism": 4}, "metadata": {"deletionTimestamp": CREATED}, "status": {"startTime": CREATED}},
            "Name Status Completions Duration Age Containers Images Selector",
            ["o", "Terminating", "0/1 of 4", "2m", "2m", "", "", "<none>"],
            id="job without a number that goes",
        ),
        pytest.param(
            "jobs.batch",
            {"spec": {}, "status": {"conditions": [{"type": "Suspended", "status": "True"}], "startTime": "x"}},
            "Name Status Completions Duration Age Containers Images Selector",
            ["o", "Suspended", "0/1", "<unknown>", "2m", "", "", "<none>"],
            id="job that is suspended",
        ),
        pytest.param(
            "cronjobs.batch",
            {
                "spec": {"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": {"template": TEMPLATE}}},
                "status": {"active": [{}], "lastScheduleTime": CREATED},
            },
            "Name Schedule Timezone Suspend Active Last_Schedule Age Containers Images Selector",
            ["o", "* * * * *", "<none>", "True", 1, "2m", "2m", "a,b", "x:1,y:2", "<none>"],
            id="cron job",
        ),
        pytest.param(
            "services",
            {
                "spec": {
                    "type": "LoadBalancer",
                    "clusterIPs": ["10.0.0.1"],
                    "externalIPs": ["1.2.3.4"],
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                },
                "status": {"loadBalancer": {"ingress": [{"ip": "5.6.7.8"}, {"hostname": "h"}]}},
            },
            "Name Type Cluster-IP External-IP Port(s) Age Selector",
            ["o", "LoadBalancer", "10.0.0.1", "5.6.7.8,h,1.2.3.4", "80:30080/TCP,53/UDP", "2m", "<none>"],
            id="service behind a balancer",
        ),
        pytest.param(
            "services",
            {"spec": {"type": "ExternalName", "externalName": "example.com"}},
            "Name Type Cluster-IP External-IP Port(s) Age Selector",
            ["o", "ExternalName", "<none>", "example.com", "<none>", "2m", "<none>"],
            id="service that is a name",
        ),
        pytest.param(
            "persistentvolumeclaims",
            {
                "spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Block"},
                "status": {
                    "phase": "Bound",
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                },
            },
            "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age VolumeMode",
            ["o", "Bound", "v", "1Gi", "RWO,RWX", "fast", "<unset>", "2m", "Block"],
            id="claim",
        ),
        pytest.param(
            "persistentvolumes",
            {
                "metadata": {"deletionTimestamp": CREATED},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOncePod"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"namespace": "ns", "name": "c"},
                },
            },
            "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass "
            "Reason Age VolumeMode",
            ["o", "1Gi", "RWOP", "Retain", "Terminating", "ns/c", "", "<unset>", "", "2m", "<unset>"],
            id="volume",
        ),
        pytest.param(
            "configmaps", {"data": {"a": ""}, "binaryData": {"b": ""}}, "Name Data Age", ["o", 2, "2m"], id="map"
        ),
        pytest.param("secrets", {"type": "Opaque"}, "Name Type Data Age", ["o", "Opaque", 0, "2m"], id="secret"),
        pytest.param("serviceaccounts", {}, "Name Age", ["o", "2m"], id="account"),
        pytest.param("roles.rbac.authorization.k8s.io", {}, "Name Created_At", ["o", CREATED], id="role"),
        pytest.param(
            "clusterrolebindings.rbac.authorization.k8s.io",
            {"roleRef": {"kind": "ClusterRole", "name": "r"}},
            "Name Role Age",
            ["o", "ClusterRole/r", "2m"],
            id="binding",
        ),
    ],
)
def test_rows(collection: str, obj: Any, names: str, cells: list[Any]) -> None:
    """Each kind has the columns of the real server, and what they show."""
    assert row(collection, obj) == ([name.replace("_", " ") for name in names.split()], cells)


def test_every_kind_has_columns() -> None:
    """Nothing that is served is beyond the printer, however empty it is."""
    for resource in BUILTIN_RESOURCES:
        if "list" in resource.verbs:
            names, cells = row(resource.collection, {})
            assert len(names) == len(cells), resource.plural


async def test_workloads_are_completed(api: Any) -> None:
    """A workload gets the defaults of the real server, and its template those of a pod."""
    made = {"metadata": {"name": "w"}, "spec": {"selector": {}, "template": TEMPLATE}}
    deployment = await api.ok("POST", "/apis/apps/v1/namespaces/default/deployments", made)
    spec = deployment["spec"]
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]["maxSurge"]) == (1, "25%")
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert deployment["status"] == {}
    ports = [{"port": 80}]
    service = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}
    spec = (await api.ok("POST", "/api/v1/namespaces/default/services", service))["spec"]
    assert spec["clusterIP"] == spec["clusterIPs"][0]
    assert spec["clusterIP"].startswith("10.")
    assert (spec["ports"][0]["targetPort"], spec["ports"][0]["protocol"]) == (80, "TCP")
    assert 30_000 <= spec["ports"][0]["nodePort"] < 32_768
    job = await api.ok("POST", "/apis/batch/v1/namespaces/default/jobs", {**made, "spec": {"template": TEMPLATE}})
    assert (job["spec"]["completions"], job["spec"]["backoffLimit"]) == (1, 6)


async def test_openapi_has_the_fields(api: Any) -> None:
    """Documents hold the schema of every kind they list, and every reference in them leads somewhere."""
    paths = (await api.ok("GET", "/openapi/v3"))["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/policy/v1"} <= paths.keys()
    for path, where in paths.items():
        assert where["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
        text = (await api.send("GET", f"/openapi/v3/{path}")).body.decode()
        schemas = (await api.ok("GET", f"/openapi/v3/{path}"))["components"]["schemas"]
        for part in text.split('"$ref":"#/components/schemas/')[1:]:
            assert part.split('"')[0] in schemas
    pod = (await api.ok("GET", "/openapi/v3/api/v1"))["components"]["schemas"]["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
