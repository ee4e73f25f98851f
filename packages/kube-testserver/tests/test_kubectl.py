"""The real kubectl against the embedded server: what people will type first, and what they will see."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster

KUBECTL = shutil.which("kubectl")

#: How long kubectl waits where it waits.
PATIENCE = "--timeout=300s"

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine: its view of the server is not tested"),
    pytest.mark.slow,
]

Kubectl = Callable[..., Awaitable[str]]

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: second, labels: {app: t}}
spec: {containers: [{name: c, image: busybox}]}
"""
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {
        "capacity": {"cpu": "4", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "192.168.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Test"},
    },
}
WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "i:1"}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: "i:1"}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: example.com/disk
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing, shortNames: [th]}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
      additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {size: {type: integer}, colour: {type: string, default: red}}}
            status: {type: object, properties: {size: {type: integer}}}
"""


@pytest.fixture
async def cluster(pod: Any) -> AsyncIterator[EmbeddedCluster]:
    """Yield a cluster of one node, whose kubelet runs, and one bound pod."""
    made = EmbeddedCluster(clock=LoopClock())
    made.add(NODE, pod("first", nodeName="node-1", labels={"app": "first"}))
    lifecycle = made.lifecycle()
    lifecycle.start()
    yield made
    lifecycle.check_invariants()
    lifecycle.stop()
    made.check_invariants()


@pytest.fixture
async def kubectl(tmp_path: Path, cluster: EmbeddedCluster) -> AsyncIterator[Kubectl]:
    """Run kubectl against the cluster; return what it prints, on both channels."""
    server = cluster.server()
    await server.start()
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: e\n"
        f"clusters: [{{name: e, cluster: {{server: '{server.url}'}}}}]\n"
        "contexts: [{name: e, context: {cluster: e, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )

    async def run(*arguments: str, stdin: str = "", code: int = 0) -> str:
        assert KUBECTL is not None
        options = (f"--kubeconfig={config}", f"--cache-dir={tmp_path / 'cache'}")
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *options,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await asyncio.wait_for(process.communicate(stdin.encode()), 300)
        assert process.returncode == code, out.decode()
        return out.decode()

    yield run
    await server.stop()


def columns(text: str) -> list[list[str]]:
    """Return the words of each line."""
    return [line.split() for line in text.splitlines() if line]


async def running(kubectl: Kubectl, name: str) -> None:
    """Wait until a pod runs."""
    assert await kubectl("wait", "--for=condition=Ready", f"pod/{name}", PATIENCE) == f"pod/{name} condition met\n"


async def test_get_pods_and_nodes(kubectl: Kubectl) -> None:
    """`kubectl get` in all its forms: plain, wide, JSON, YAML, names, paths, columns of one's own."""
    await running(kubectl, "first")
    plain = columns(await kubectl("get", "pods,nodes"))
    assert plain[1][:4] == ["pod/first", "1/1", "Running", "0"]
    assert plain[3][:3] == ["node/node-1", "Ready", "<none>"]
    wide = columns(await kubectl("get", "pods", "-o", "wide"))
    assert wide[0][-5:] == ["NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert wide[1][6] == "node-1"
    assert "192.168.0.1" in await kubectl("get", "nodes", "-o", "wide")
    as_json = json.loads(await kubectl("get", "pods,nodes", "-o", "json"))
    assert [item["kind"] for item in as_json["items"]] == ["Pod", "Node"]
    assert "phase: Running" in await kubectl("get", "pod", "first", "-o", "yaml")
    assert "first" in await kubectl("get", "po", "--field-selector=spec.nodeName=node-1", "-A")
    assert await kubectl("get", "pods", "-o", "name") == "pod/first\n"
    assert await kubectl("get", "pods", "-o", "jsonpath={.items[*].status.podIP}") == "10.0.0.2"
    own = "custom-columns=N:.metadata.name,W:.spec.nodeName"
    assert columns(await kubectl("get", "pods", "-o", own)) == [["N", "W"], ["first", "node-1"]]
    assert "first" in await kubectl("get", "all")


async def test_missing_object_is_refused(kubectl: Kubectl) -> None:
    """Kubectl reports a missing object in its usual words."""
    assert await kubectl("get", "pod", "nope", code=1) == 'Error from server (NotFound): pods "nope" not found\n'
    assert "the server doesn't have a resource type" in await kubectl("get", "nonsense", code=1)


async def test_a_list_is_applied_as_it_was_printed(kubectl: Kubectl) -> None:
    """What `get -o yaml` prints is a `List`; `apply` and `create` take it, and the server looks at its fields."""
    printed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(MANIFEST)]})
    assert await kubectl("apply", "-f", "-", stdin=printed) == "pod/second created\n"
    assert await kubectl("apply", "-f", "-", stdin=printed) == "pod/second unchanged\n"
    wrong = printed.replace('"containers"', '"sizes": 3, "containers"')
    assert 'unknown field "spec.sizes"' in await kubectl("apply", "-f", "-", stdin=wrong, code=1)


async def test_changing_things(kubectl: Kubectl) -> None:
    """create, label, annotate, patch in three types, replace, cordon, taint, delete."""
    assert await kubectl("create", "-f", "-", stdin=MANIFEST) == "pod/second created\n"
    assert await kubectl("label", "pod", "second", "a=b") == "pod/second labeled\n"
    assert "second" in await kubectl("get", "pods", "-l", "app=t,a=b", "--no-headers")
    assert await kubectl("annotate", "pod", "second", "note=1") == "pod/second annotated\n"
    for kind, patch in {
        "strategic": '{"metadata":{"labels":{"x":"1"}}}',
        "merge": '{"metadata":{"labels":{"y":"1"}}}',
        "json": '[{"op":"remove","path":"/metadata/labels/x"}]',
    }.items():
        assert await kubectl("patch", "pod", "second", f"--type={kind}", "-p", patch) == "pod/second patched\n"
    assert await kubectl("replace", "-f", "-", stdin=MANIFEST) == "pod/second replaced\n"
    assert await kubectl("get", "pod", "second", "-o", "jsonpath={.metadata.labels}") == '{"app":"t"}'
    assert await kubectl("cordon", "node-1") == "node/node-1 cordoned\n"
    assert "Ready,SchedulingDisabled" in await kubectl("get", "nodes")
    assert await kubectl("taint", "node", "node-1", "k=v:NoSchedule") == "node/node-1 tainted\n"
    node = json.loads(await kubectl("get", "node", "node-1", "-o", "json"))
    assert {"effect": "NoSchedule", "key": "k", "value": "v"} in node["spec"]["taints"]
    assert await kubectl("uncordon", "node-1") == "node/node-1 uncordoned\n"
    assert await kubectl("taint", "node", "node-1", "k-") == "node/node-1 untainted\n"
    await kubectl("delete", "pod", "second")
    assert await kubectl("get", "pods", "-o", "name") == "pod/first\n"
    assert 'pod "first" deleted' in await kubectl("delete", "pod", "first")  # its node lets it go


async def test_editing(kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kubectl edit` sends what an editor made of the object."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/app: first/app: edited/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("KUBE_EDITOR", str(editor))
    assert await kubectl("edit", "pod", "first") == "pod/first edited\n"
    assert await kubectl("get", "pods", "-l", "app=edited", "-o", "name") == "pod/first\n"


async def test_apply(kubectl: Kubectl) -> None:
    """Applying creates, then changes, then finds nothing to do; a diff shows what would change."""
    assert await kubectl("apply", "-f", "-", stdin=MANIFEST) == "pod/second created\n"
    changed = MANIFEST.replace("app: t", "app: u")
    shown = await kubectl("diff", "-f", "-", stdin=changed, code=1)
    assert "-    app: t\n+    app: u\n" in shown
    assert "resourceVersion" not in [line[1:].split(":")[0].strip() for line in shown.splitlines() if line[0] in "+-"]
    assert await kubectl("apply", "-f", "-", stdin=changed) == "pod/second configured\n"
    assert await kubectl("apply", "-f", "-", stdin=changed) == "pod/second unchanged\n"
    assert await kubectl("get", "pod", "second", "-o", "jsonpath={.metadata.labels.app}") == "u"
    assert "second" in await kubectl("apply", "--dry-run=server", "-f", "-", stdin=changed)


async def test_apply_checks_fields(kubectl: Kubectl) -> None:
    """A misspelt field is refused, told or ignored, as --validate says, when an object is made and when it changes."""
    odd = MANIFEST.replace("image: busybox", "image: busybox, imagePullPolice: Never")
    refused = await kubectl("apply", "-f", "-", stdin=odd, code=1)
    assert 'strict decoding error: unknown field "spec.containers[0].imagePullPolice"' in refused
    told = await kubectl("apply", "--validate=warn", "-f", "-", stdin=odd)
    assert told == 'Warning: unknown field "spec.containers[0].imagePullPolice"\npod/second created\n'
    assert await kubectl("apply", "-f", "-", "--validate=ignore", stdin=odd.replace(": t", ": u")) == (
        "pod/second configured\n"
    )
    assert "imagePullPolice" not in await kubectl("get", "pod", "second", "-o", "jsonpath={.spec}")
    assert "unknown field" in await kubectl("apply", "-f", "-", stdin=odd.replace(": t", ": v"), code=1)


async def test_server_side_apply(kubectl: Kubectl) -> None:
    """Managers own what they apply; another's apply conflicts until it is forced."""
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n"
    assert await kubectl("apply", "--server-side", "-f", "-", stdin=config) == "configmap/c serverside-applied\n"
    other = ["apply", "--server-side", "--field-manager=other", "-f", "-"]
    refused = await kubectl(*other, stdin=config.replace("'1'", "'2'"), code=1)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in refused
    forced = await kubectl(*other, "--force-conflicts", stdin=config.replace("'1'", "'2'"))
    assert forced == "configmap/c serverside-applied\n"
    managers = "jsonpath={.metadata.managedFields[*].manager}"
    assert await kubectl("get", "cm", "c", "--show-managed-fields", "-o", managers) == "other"


async def test_describing_things(kubectl: Kubectl) -> None:
    """Describing shows a pod with its events, and a node with its pods; discovery lists what is served."""
    uid = await kubectl("get", "pod", "first", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "first.1"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "pyscheduler",
        "reportingInstance": "host",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "Successfully assigned default/first to node-1",
        "regarding": {"kind": "Pod", "apiVersion": "v1", "namespace": "default", "name": "first", "uid": uid},
    }
    await kubectl("create", "-f", "-", stdin=json.dumps(event))
    described = await kubectl("describe", "pod", "first")
    assert "Successfully assigned default/first to node-1" in described
    assert ["Node:", "node-1/192.168.0.1"] in columns(described)
    assert "pod/first" in await kubectl("get", "events")
    assert "Scheduled" in await kubectl("events", "--for=pod/first")
    node = await kubectl("describe", "node", "node-1")
    assert "Allocated resources" in node
    assert "default                     first" in node
    names = await kubectl("api-resources", "-o", "name")
    assert {"pods", "nodes", "leases.coordination.k8s.io", "events.events.k8s.io"} <= set(names.split())
    assert {"v1", "apps/v1", "policy/v1"} <= set((await kubectl("api-versions")).split())
    assert "v1.36" in await kubectl("version")
    assert "control plane" in await kubectl("cluster-info")


async def test_explaining_things(kubectl: Kubectl) -> None:
    """`kubectl explain` knows the fields of built-in kinds, and of custom ones."""
    pod = await kubectl("explain", "pod.spec.containers.resources")
    assert "FIELD: resources <ResourceRequirements>" in pod
    assert "limits\t<map[string]Quantity>" in pod
    assert "minAvailable\t<IntOrString>" in await kubectl("explain", "pdb.spec", "--recursive")
    await kubectl("create", "-f", "-", stdin=DEFINITION)
    assert "colour\t<string>" in await kubectl("explain", "things.spec")


async def test_workloads_and_their_columns(kubectl: Kubectl) -> None:
    """Everything that is served prints as the real server prints it, and can be scaled where that means something."""
    await kubectl("apply", "-f", "-", stdin=WORKLOADS)
    deployments = columns(await kubectl("get", "deploy", "-o", "wide"))
    assert deployments[0] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert deployments[1][:4] + deployments[1][5:] == ["web", "0/2", "0", "0", "c", "i:1", "app=web"]
    assert await kubectl("scale", "deploy", "web", "--replicas=5") == "deployment.apps/web scaled\n"
    assert columns(await kubectl("get", "deploy"))[1][:2] == ["web", "0/5"]
    assert columns(await kubectl("get", "jobs"))[1][:3] == ["once", "Running", "0/1"]
    service = columns(await kubectl("get", "svc"))
    assert service[0] == ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"]
    assert [service[1][1], *service[1][3:5]] == ["ClusterIP", "<none>", "80/TCP"]
    assert columns(await kubectl("get", "pvc"))[1][:4] == ["data", "Pending", "fast", "<unset>"]
    assert "fast (default)   example.com/disk   Delete" in await kubectl("get", "sc")
    assert columns(await kubectl("get", "ns"))[1][:2] == ["default", "Active"]
    assert columns(await kubectl("get", "pc"))[1][:3] == ["system-cluster-critical", "2000000000", "false"]
    assert "agent" in await kubectl("describe", "ds", "agent")
    assert "Replicas:" in await kubectl("describe", "deploy", "web")


async def test_draining_a_node(kubectl: Kubectl, cluster: EmbeddedCluster, pod: Any) -> None:
    """A drain waits for the disruption budget; daemon pods stay, bare pods need --force."""
    await kubectl("apply", "-f", "-", stdin=WORKLOADS)
    uid = await kubectl("get", "ds", "agent", "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": uid, "controller": True}
    daemon = pod("agent-1", nodeName="node-1")
    daemon["metadata"]["ownerReferences"] = [owner]
    cluster.add(daemon)
    await kubectl("create", "pdb", "one", "--selector=app=first", "--min-available=1")
    await running(kubectl, "first")
    budget = columns(await kubectl("get", "pdb"))
    assert budget[0] == ["NAME", "MIN", "AVAILABLE", "MAX", "UNAVAILABLE", "ALLOWED", "DISRUPTIONS", "AGE"]
    assert budget[1][:4] == ["one", "1", "N/A", "0"]
    drain = ["drain", "node-1", "--timeout=1s"]
    assert "cannot delete DaemonSet-managed Pods" in await kubectl(*drain, code=1)
    assert "use --force to override" in await kubectl(*drain, "--ignore-daemonsets", code=1)
    refused = await kubectl(*drain, "--ignore-daemonsets", "--force", code=1)
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    await kubectl("patch", "pdb", "one", "--type=merge", "-p", '{"spec":{"minAvailable":0}}')
    drained = await kubectl("drain", "node-1", PATIENCE, "--ignore-daemonsets", "--force")
    assert "pod/first evicted" in drained
    assert "node/node-1 drained" in drained
    assert await kubectl("get", "pods", "-o", "name") == "pod/agent-1\n"


async def test_watching(kubectl: Kubectl, cluster: EmbeddedCluster) -> None:
    """`get -w` shows a pod from its first to its last state, `wait` waits for any, also for none."""
    watching = asyncio.create_task(kubectl("get", "pods", "--watch-only", "--no-headers"))
    while not cluster.router._streams:  # noqa: ASYNC110 - nobody tells when a client has come
        await asyncio.sleep(0.01)
    annotations = "annotations: {pyscheduler.io/run-duration: 10ms}, labels:"
    manifest = MANIFEST.replace("spec: {", "spec: {nodeName: node-1, ").replace("labels:", annotations)
    await kubectl("create", "-f", "-", stdin=manifest)
    await kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/second", PATIENCE)
    await kubectl("delete", "pod", "second", "--wait=false")
    await kubectl("wait", "--for=delete", "pod/second", PATIENCE)
    cluster.router.drop_watches("pods")
    rows = columns(await watching)
    assert [row[1:3] for row in rows if row[0] == "second"] == [
        ["0/1", "Pending"],
        ["1/1", "Running"],
        *([["0/1", "Completed"]] * 3),  # it has ended, is on its way out, and is gone
    ]


async def test_custom_resources(kubectl: Kubectl) -> None:
    """A definition is served, printed, scaled and pruned; its deletion takes the kind away, and it can come back."""
    thing = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {size: 3}\n"
    for _ in range(2):
        assert "created" in await kubectl("create", "-f", "-", stdin=DEFINITION)
        await kubectl("wait", "--for=condition=Established", "crd/things.example.com", PATIENCE)
        assert await kubectl("apply", "-f", "-", stdin=thing) == "thing.example.com/t created\n"
        assert columns(await kubectl("get", "th")) == [["NAME", "SIZE"], ["t", "3"]]
        assert await kubectl("get", "th", "t", "-o", "jsonpath={.spec.colour}") == "red"
        assert await kubectl("scale", "th", "t", "--replicas=7") == "thing.example.com/t scaled\n"
        assert await kubectl("get", "th", "t", "-o", "jsonpath={.spec.size}") == "7"
        refused = await kubectl("apply", "-f", "-", stdin=thing.replace("size: 3", "seize: 3"), code=1)
        assert 'strict decoding error: unknown field "spec.seize"' in refused
        await kubectl("delete", "crd", "things.example.com")
        assert "the server doesn't have a resource type" in await kubectl("get", "things.example.com", code=1)


async def test_a_namespace_goes_with_all_it_holds(kubectl: Kubectl) -> None:
    """Deleting a namespace empties it, and kubectl does not wait in vain."""
    await kubectl("create", "ns", "tmp")
    await kubectl("create", "-n", "tmp", "-f", "-", stdin=MANIFEST)
    assert await kubectl("delete", "ns", "tmp") == 'namespace "tmp" deleted\n'
    refused = await kubectl("delete", "ns", "default", code=1)
    assert 'namespaces "default" is forbidden: this namespace may not be deleted' in refused
    assert 'namespaces "tmp" not found' in await kubectl("get", "ns", "tmp", code=1)
    assert await kubectl("get", "pods", "-A", "-o", "name") == "pod/first\n"


async def test_tokens_and_versions(kubectl: Kubectl) -> None:
    """A token for the account that each namespace has; and which Kubernetes this is."""
    await kubectl("create", "ns", "tmp")
    token = await kubectl("create", "token", "default", "-n", "tmp", "--duration=20m")
    assert token.count(".") == 2
    assert 'serviceaccounts "nobody" not found' in await kubectl("create", "token", "nobody", code=1)
    assert "Server Version: v1.36.0" in await kubectl("version")


async def test_a_pod_that_does_not_fit(kubectl: Kubectl, cluster: EmbeddedCluster, pod: Any) -> None:
    """What a node rejects is plain to see: in the list, in the pod's description, in an event."""
    resources = {"requests": {"cpu": "5"}}
    cluster.add(pod("large", nodeName="node-1", containers=[{"name": "c", "image": "i", "resources": resources}]))
    await kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/large", PATIENCE)
    assert columns(await kubectl("get", "pod", "large"))[1][:3] == ["large", "0/1", "OutOfcpu"]
    described = await kubectl("describe", "pod", "large")
    assert (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000, used: 0, capacity: 4000" in described
    )
    assert "OutOfcpu" in described.rpartition("Events:")[2]
