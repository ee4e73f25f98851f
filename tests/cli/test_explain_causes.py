"""`pyscheduler explain` names the cause of a pending pod with amounts and objects, for one pod of each cause."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_objects.times import format_time
from pyscheduler.testing import node_manifest, pod_manifest
from tests.cli.conftest import Run
from tests.cli.test_explain import installed

Object = dict[str, Any]


def manifest(name: str, **spec: Any) -> Object:
    """Return a pod with further fields of its spec."""
    made = pod_manifest(name, requests={"cpu": "1"})
    made["spec"] |= spec
    return made


def conditioned(pod: Object, reason: str, message: str) -> Object:
    """Return the pod with a PodScheduled condition that is False."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return pod | {"status": {"phase": "Pending", "conditions": [condition]}}


AVOID = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "disktype"}
        ]
    }
}
CLUSTER = [
    node_manifest("n1", allocatable={"cpu": "32", "pods": "9"}, labels={"disktype": "ssd"}),
    node_manifest("n2", allocatable={"cpu": "8", "pods": "9"}, labels={"disktype": "ssd"}),
    pod_manifest("web-0", node_name="n1", requests={"cpu": "2"}, labels={"app": "web"}),
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]},
    },
    pod_manifest("cpu", requests={"cpu": "100"}),
    manifest("selector", nodeSelector={"disktype": "sdd"}),
    manifest("apart", affinity=AVOID),
    manifest("missing", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "nowhere"}}]),
    manifest("unbound", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    pod_manifest("gate", scheduling_gates=["example.com/wait"]),
    pod_manifest("nobody", scheduler_name="nobody"),
    conditioned(pod_manifest("gang-0"), "WaitingOnPermit", "waits for 1 more member of gang training"),
    conditioned(pod_manifest("broken"), "SchedulerError", 'running "Boom" filter plugin: failed'),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Write the cluster as `kubectl get -o yaml` does."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(CLUSTER))
    return file


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        pytest.param(
            "cpu", ["waits: Unschedulable", "100 cpu; most free 30 on n1, largest node 32: never fits"], id="cpu"
        ),
        pytest.param("selector", ["disktype=sdd: no node", "2 have disktype=ssd"], id="selector"),
        pytest.param("apart", ["its anti-affinity per disktype: default/web-0"], id="anti-affinity"),
        pytest.param("missing", ['persistentvolumeclaim "nowhere" not found'], id="claim missing"),
        pytest.param("unbound", ["claim default/data is not bound; class fast, which does not exist"], id="unbound"),
        pytest.param("gate", ["waits: SchedulingGated", "example.com/wait"], id="gate"),
        pytest.param("nobody", ["waits: NoProfile", 'has the schedulerName "nobody"; it serves'], id="scheduler"),
    ],
)
def test_cause_is_named_with_amounts_and_objects(cluster: Path, run: Run, pod: str, words: list[str]) -> None:
    """One call shows the reason code and every key word; nothing contradicts, so the exit code is 0."""
    code, out, err = run("explain", pod, "--objects", cluster)
    assert code == 0, err
    text = " ".join(out.split())
    assert [word for word in words if word not in text] == []


def test_old_condition_of_an_unserved_pod_does_not_hide_the_name(tmp_path: Path, run: Run) -> None:
    """With the scheduler's configuration, it is known that nobody serves the name; kube-scheduler may serve its own."""
    config = tmp_path / "config.yaml"
    config.write_text("{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: [{}]}")
    file = tmp_path / "cluster.yaml"
    pods = [
        conditioned(pod_manifest(name, requests={"cpu": "9"}, scheduler_name=served), "Unschedulable", "0/1: no room")
        for name, served in (("gone", "retired"), ("other", "default-scheduler"))
    ]
    config.write_text(config.read_text().replace("{}", "{schedulerName: mine}"))
    file.write_text(yaml.safe_dump_all([node_manifest("n1", allocatable={"cpu": "4"}), *pods]))
    code, out, err = run("explain", "gone", "--objects", file, "--config", config)
    assert code == 0, err
    assert "Verdict: waits: NoProfile" in out
    assert "PodScheduled is False: Unschedulable: 0/1: no room; written before" in " ".join(out.split())
    _, out, _ = run("explain", "gone", "--objects", file)
    assert "NoProfile" not in out, "the default profile is of no known scheduler"
    _, out, _ = run("explain", "other", "--objects", file, "--config", config)
    assert "NoProfile" not in out


@pytest.mark.parametrize(
    ("pod", "then"),
    [
        pytest.param(
            manifest("p", resourceClaims=[{"name": "r", "resourceClaimName": "gpus"}]),
            "create the ResourceClaim default/gpus",
            id="device claim",
        ),
        pytest.param(
            manifest("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "nowhere"}}]),
            "create the PersistentVolumeClaim default/nowhere",
            id="volume claim",
        ),
        pytest.param(
            manifest("p", resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}]),
            "create the ResourceClaimTemplate default/t",
            id="claim of a template",
        ),
        pytest.param(
            pod_manifest("p", scheduling_gates=["example.com/wait"]),
            "the pod is scheduled when its gates are removed",
            id="gate",
        ),
        pytest.param(pod_manifest("p", node_name="n1"), "nothing, the pod is bound to n1", id="bound"),
        pytest.param(pod_manifest("p", node_name="n99"), "add the node n99, or delete the pod", id="bound to no node"),
        pytest.param(
            manifest(
                "p",
                schedulingGates=[{"name": "example.com/wait"}],
                volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "nowhere"}}],
            ),
            "the pod is tried when its gates are removed; then: create the PersistentVolumeClaim default/nowhere",
            id="gate and volume claim",
        ),
    ],
)
def test_next_says_what_the_pod_needs(tmp_path: Path, run: Run, pod: Object, then: str) -> None:
    """An object that is missing is named; only a pod with gates waits for their removal."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([node_manifest("n1", allocatable={"cpu": "4", "pods": "9"}), pod]))
    code, out, err = run("explain", "p", "--objects", file, "-o", "json")
    assert (code, "failed to say why" in err) == (0, False), err
    assert json.loads(out)["next"] == then


def test_reasons_that_nodes_share_are_named_once(tmp_path: Path, run: Run) -> None:
    """A node that lacks two resources, and one that lacks one of them, give two reasons."""
    gpu = "nvidia.com/gpu"
    nodes = [
        node_manifest("n1", allocatable={"cpu": "1", "pods": "9", gpu: "1"}),
        node_manifest("n2", allocatable={"cpu": "8", "pods": "9", gpu: "1"}),
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*nodes, pod_manifest("p", requests={"cpu": "4", gpu: "2"})]))
    _, out, _ = run("explain", "p", "--objects", file, "-o", "json")
    (step,) = [each for each in json.loads(out)["steps"] if each["name"] == "NodeResourcesFit"]
    nodes_text, reasons, amounts = step["text"].split(": ", maxsplit=2)
    assert (nodes_text, sorted(reasons.split(", "))) == (
        "2 of 2 nodes (n1, n2)",
        ["Insufficient cpu", f"Insufficient {gpu}"],
    )
    assert amounts.startswith("4 cpu; most free ")


def test_untolerated_taints_are_counted(tmp_path: Path, run: Run) -> None:
    """The text has key, value and effect of each taint, and the number of nodes."""
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    file = tmp_path / "cluster.yaml"
    file.write_text(
        yaml.safe_dump_all([node_manifest(f"n{i}", taints=[taint]) for i in range(3)] + [pod_manifest("p")])
    )
    code, out, _ = run("explain", "p", "--objects", file)
    assert code == 0
    assert "not tolerated: gpu=yes:NoSchedule (3 nodes: n0, n1, n2)" in " ".join(out.split())


def port(number: int) -> list[Object]:
    """Return the containers of a pod that takes a port of its node."""
    return [{"name": "main", "ports": [{"containerPort": 80, "hostPort": number}]}]


def spread() -> list[Object]:
    """Return a constraint that spreads the pods of `web` over zones."""
    selector = {"matchLabels": {"app": "web"}}
    return [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector},
    ]


def zone(name: str, *, cpu: str) -> Object:
    """Return a node in a zone of its own."""
    return node_manifest(f"node-{name}", allocatable={"cpu": cpu, "pods": "9"}, labels={"zone": name})


CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpus", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}},
}


@pytest.mark.parametrize(
    ("objects", "spec", "words"),
    [
        pytest.param(
            [zone("a", cpu="4"), pod_manifest("web-0", node_name="node-a")],
            {"containers": port(8080)},
            ["default/web-0 holds port 8080/TCP"],
            id="port",
        ),
        pytest.param(
            [zone("a", cpu="0"), zone("b", cpu="4"), pod_manifest("web-0", node_name="node-b", labels={"app": "web"})],
            {"topologySpreadConstraints": spread()},
            ["maxSkew 1 per zone: pods by domain: a 0, b 1"],
            id="spread",
        ),
        pytest.param(
            [zone("a", cpu="4"), CLAIM],
            {"resourceClaims": [{"name": "gpus", "resourceClaimName": "gpus"}]},
            ["claim default/gpus asks for 2 of device class gpu, which does not exist"],
            id="device class",
        ),
    ],
)
def test_cause_in_a_cluster_of_its_own(
    tmp_path: Path, run: Run, objects: list[Object], spec: Object, words: list[str]
) -> None:
    """The holder of a port, the domains of a spread constraint, and the class of a claim are named."""
    pod = manifest("p", **spec)
    pod["metadata"]["labels"] = {"app": "web"}
    for each in objects:
        if each["kind"] == "Pod" and "containers" in spec:
            each["spec"]["containers"] = spec["containers"]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*objects, pod]))
    code, out, err = run("explain", "p", "--objects", file)
    assert code == 0, err
    text = " ".join(out.split())
    assert [word for word in words if word not in text] == []


def test_priority_that_may_not_preempt_is_named(tmp_path: Path, run: Run) -> None:
    """A victim would make room; the pod's own policy forbids it."""
    held = pod_manifest("held", node_name="node-a", requests={"cpu": "4"})
    pod = manifest("p", priority=10, preemptionPolicy="Never")
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([zone("a", cpu="4"), held, pod]))
    code, out, _ = run("explain", "p", "--objects", file)
    assert code == 0
    assert "not eligible due to preemptionPolicy=Never." in " ".join(out.split())


def test_budget_that_a_victim_violates_is_named(tmp_path: Path, run: Run) -> None:
    """The step of preemption names the victim and its budget; a budget of other pods is not named."""
    held = pod_manifest("held", node_name="node-a", requests={"cpu": "4"}, labels={"app": "web"})
    budgets = [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": 0},
        }
        for name, app in (("web-budget", "web"), ("db-budget", "db"))
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([zone("a", cpu="4"), held, *budgets, manifest("p", priority=10)]))
    code, out, err = run("explain", "p", "--objects", file)
    assert code == 0, err
    text = " ".join(out.split())
    assert "evicts default/held on node-a; violates the disruption budget default/web-budget for 1 of them" in text
    assert "db-budget" not in text


def test_victim_of_preemption_names_its_heir_and_its_budget(tmp_path: Path, run: Run) -> None:
    """A budget keeps no pod pending; the pod that is evicted against it says so until it is gone."""
    victim = pod_manifest("held", node_name="node-a", labels={"app": "web"})
    said = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "makes room"}
    victim["status"] = {"conditions": [said]}
    heir = pod_manifest("heir", priority=10, status={"nominatedNodeName": "node-a"})
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([zone("a", cpu="4"), victim, heir, budget, pod_manifest("other")]))
    code, out, _ = run("explain", "held", "--objects", file)
    text = "PreemptionByScheduler: makes room; node-a is promised to default/heir; violates the disruption budget "
    assert (code, f"{text}default/web" in " ".join(out.split())) == (0, True)
    code, out, _ = run("explain", "other", "--objects", file)
    assert (code, "eviction" in out) == (0, False)


def ending(name: str, seconds_ago: int, **metadata: Any) -> Object:
    """Return a victim on `node-a` whose grace period of 40 s ended so many seconds ago."""
    victim = pod_manifest(name, node_name="node-a", requests={"cpu": "3"})
    end = format_time(time.time() - seconds_ago)
    victim["metadata"] |= {"deletionTimestamp": end, "deletionGracePeriodSeconds": 40, **metadata}
    said = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "makes room"}
    victim["status"] = {"conditions": [said]}
    return victim


def test_preemptor_names_the_victims_that_have_not_ended(tmp_path: Path, run: Run) -> None:
    """Since when, with which grace period, and what holds them; also after the preemptor has given the node up."""
    heir = pod_manifest("heir", priority=10, requests={"cpu": "3"}, status={"nominatedNodeName": "node-a"})
    stuck = ending("stuck", 120, finalizers=["example.com/hold"])
    elsewhere = ending("elsewhere", 120) | {"spec": pod_manifest("x", node_name="node-b")["spec"]}
    later = pod_manifest("later", priority=10, requests={"cpu": "3"})
    file = tmp_path / "cluster.yaml"
    nodes = (zone("a", cpu="4"), zone("b", cpu="1"))
    file.write_text(yaml.safe_dump_all([*nodes, stuck, ending("soon", -20), elsewhere, heir, later]))
    code, out, err = run("explain", "heir", "--objects", file, "-o", "json")
    assert code == 0, err
    (step,) = [each for each in json.loads(out)["steps"] if each["name"] == "victims"]
    assert re.fullmatch(
        "node-a is promised to the pod, when these pods have ended: default/stuck on node-a, ending since "
        r"20\S+Z, grace period 40 s, which is over for 2m\d+s, finalizers example.com/hold; "
        r"default/soon on node-a, ending since 20\S+Z, grace period 40 s",
        step["text"],
    ), step["text"]
    _, out, _ = run("explain", "later", "--objects", file, "-o", "json")
    (step,) = [each for each in json.loads(out)["steps"] if each["name"] == "victims"]
    assert step["text"].startswith("pods that a scheduler has evicted, and that outlive their grace period: default/")
    assert "default/stuck" in step["text"]
    assert re.search("elsewhere|soon", step["text"]) is None, (
        "one is not on a node with room, one may still end in time"
    )
    (step,) = [each for each in json.loads(out)["steps"] if each["name"] == "nominated"]
    assert step["text"] == "room is held on node-a for default/heir (priority 10)"


def test_victim_that_only_its_finalizers_hold(tmp_path: Path, run: Run) -> None:
    """The kubelet sets the grace period to 0 when the containers have ended; this is not the period that they had."""
    stuck = ending("stuck", 90, finalizers=["example.com/hold"], deletionGracePeriodSeconds=0)
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([zone("a", cpu="4"), stuck, pod_manifest("p", requests={"cpu": "3"})]))
    _, out, _ = run("explain", "p", "--objects", file, "-o", "json")
    (step,) = [each for each in json.loads(out)["steps"] if each["name"] == "victims"]
    assert re.search(
        r"stuck on node-a, ending since 20\S+Z, held for 1m3\ds by finalizers example.com/hold$", step["text"]
    )


def test_victim_is_explained_while_its_preemptor_is_nominated(tmp_path: Path, run: Run) -> None:
    """The step of the eviction names the preemptor, and what holds the victim; a pod that fails leaves the others."""
    heir = pod_manifest("heir", priority=10, requests={"cpu": "4"}, status={"nominatedNodeName": "node-a"})
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([zone("a", cpu="4"), ending("held", 90, finalizers=["example.com/x"]), heir]))
    code, out, err = run("explain", "held", "nowhere", "heir", "--objects", file, "-o", "jsonl")
    assert (code, err.splitlines()[-1].partition(",")[0]) == (1, "error: pod default/nowhere does not exist")
    victim, preemptor = map(json.loads, out.splitlines())
    assert re.fullmatch(
        "PreemptionByScheduler: makes room; node-a is promised to default/heir; default/held on node-a, ending since "
        r"20\S+Z, grace period 40 s, which is over for 1m3\ds, finalizers example.com/x",
        next(each["text"] for each in victim["steps"] if each["name"] == "eviction"),
    )
    assert "victims" in {each["name"] for each in preemptor["steps"]}


@pytest.mark.parametrize(
    ("pod", "names"),
    [
        pytest.param(pod_manifest("p", requests={"cpu": "3"}), ["nominated"], id="room"),
        pytest.param(pod_manifest("p", requests={"cpu": "9"}), [], id="too-large"),
        pytest.param(manifest("p", nodeSelector={"disktype": "none"}), [], id="selector"),
        pytest.param(pod_manifest("p", requests={"cpu": "1"}), [], id="fits"),
    ],
)
def test_only_pods_that_hold_needed_room_are_named(tmp_path: Path, run: Run, pod: Object, names: list[str]) -> None:
    """A nominated pod, and a victim that does not end, are no news for a pod that other reasons keep pending."""
    heir = pod_manifest("heir", priority=10, requests={"cpu": "3"}, status={"nominatedNodeName": "node-a"})
    elsewhere = ending("elsewhere", 120) | {"spec": pod_manifest("x", node_name="node-b")["spec"]}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([zone("a", cpu="4"), zone("b", cpu="1"), elsewhere, heir, pod]))
    code, out, err = run("explain", "p", "--objects", file, "-o", "json")
    assert code == 0, err
    assert [each["name"] for each in json.loads(out)["steps"] if each["name"] in {"nominated", "victims"}] == names


def allocated(device: str, pods: list[str]) -> Object:
    """Return the status of a claim that has a device, and the pods that use it."""
    result = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": device}
    users = [{"resource": "pods", "name": name, "uid": name} for name in pods]
    return {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}


def test_labels_and_devices_are_counted(tmp_path: Path, run: Run) -> None:
    """One node is no plural; devices are counted by driver; those of the class in use are named with their claims."""
    label = {"nodeSelector": {"zone": "a"}}
    slice_of = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-a",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}, {"name": "fast-0"}],
        },
    }
    own, fast = (
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "ml"}}
        | {"spec": CLAIM["spec"], "status": allocated(device, pods)}
        for name, device, pods in (("own", "gpu-0", ["train-0", "train-1"]), ("fast", "fast-0", []))
    )
    selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].model == "a"'}}
    gpu = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    slow = gpu | {"spec": {"selectors": [selector]}}
    models = [
        {"name": name, "attributes": {"model": {"string": model}}} for name, model in (("gpu-0", "a"), ("fast-0", "b"))
    ]
    modelled = slice_of | {"spec": slice_of["spec"] | {"devices": models}}
    claim = {"resourceClaims": [{"name": "gpus", "resourceClaimName": "gpus"}]}
    for more, spec, words in (
        (
            [],
            {**label, "containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]},
            "zone=a: 1 node (node-a); ",
        ),
        ([gpu, CLAIM], claim, "asks for 2 of device class gpu; no driver reports any device"),
        (
            [gpu, CLAIM, slice_of],
            claim,
            "asks for 2 of device class gpu; devices of all nodes: 2 of driver gpu.example.com",
        ),
        (
            [gpu, CLAIM, slice_of, own, fast],
            claim,
            "gpu-0 of pool p (claim ml/own, pod ml/train-0, ml/train-1), fast-0 of pool p (claim ml/fast, no pod)",
        ),
        (
            [slow, CLAIM, modelled, own, fast],
            claim,
            "in use: gpu-0 of pool p (claim ml/own, pod ml/train-0, ml/train-1) ",
        ),
    ):
        file = tmp_path / "cluster.yaml"
        file.write_text(yaml.safe_dump_all([zone("a", cpu="4"), zone("b", cpu="4"), *more, manifest("p", **spec)]))
        code, out, err = run("explain", "p", "--objects", file)
        assert code == 0, err
        assert words in " ".join(out.split())


RACKS = """
from pyscheduler import FilterPlugin, Status
from pyscheduler.framework.hooks import hookimpl


class Racks(FilterPlugin):
    def filter(self, state, pod, node):
        return Status.unschedulable("rack is full")

    def why(self, pod, node):
        if "fails" in pod.labels:
            raise LookupError("no such rack")
        return f"the rack of {node.name} has 40 of 40 pods"


@hookimpl
def pyscheduler_register(registry):
    registry.add("Racks", Racks)
"""


@pytest.mark.parametrize("fails", [False, True])
def test_plugin_of_a_stranger_says_why(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Its text stands beside its reason; if it fails, a note says so, and the reason stands alone."""
    config = installed(tmp_path, monkeypatch, "Racks", RACKS)
    file = tmp_path / "cluster.yaml"
    labels = {"fails": ""} if fails else {}
    file.write_text(yaml.safe_dump_all([zone("a", cpu="4"), pod_manifest("p", labels=labels)]))
    code, out, err = run("explain", "p", "--objects", file, "--config", config)
    assert code == 0
    text = " ".join(out.split())
    assert "1 of 1 nodes (node-a): rack is full" in text
    assert ("the rack of node-a has 40 of 40 pods" in text) is not fails
    note = "note: plugin Racks failed to say why it rejected nodes: LookupError: no such rack"
    assert (note in err) is fails


def test_condition_that_says_the_same_is_not_repeated(tmp_path: Path, run: Run) -> None:
    """Of two equal messages, one is printed; a message with other counts is printed, too."""
    message = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    for shown in (message, "0/7 nodes are available: 7 Insufficient cpu. preemption: not eligible."):
        pod = conditioned(pod_manifest("p", requests={"cpu": "100"}), "Unschedulable", shown)
        file = tmp_path / "cluster.yaml"
        file.write_text(yaml.safe_dump_all([zone("a", cpu="4"), pod]))
        code, out, _ = run("explain", "p", "--objects", file)
        text = " ".join(out.split())
        assert code == 0
        assert text.count(message) == 1
        assert ("PodScheduled says the same: Unschedulable" in text) is (shown == message)


@pytest.mark.parametrize("pod", ["gang-0", "broken"])
def test_contradiction_with_the_condition_has_exit_code_3(cluster: Path, run: Run, pod: str) -> None:
    """Without the scheduler's configuration, a waiting gang member looks placeable; both answers are printed."""
    code, out, _ = run("explain", pod, "--objects", cluster)
    text = " ".join(out.split())
    assert code == 3
    assert "would be placed on" in text
    assert "PodScheduled is False" in text
    assert "the default profile (no --config)" in text


def test_json_has_verdict_steps_and_next(cluster: Path, run: Run) -> None:
    """The fields of the table are in JSON, beside those that were there before."""
    code, out, _ = run("explain", "cpu", "--objects", cluster, "-o", "json")
    found = json.loads(out)
    assert (code, found["verdict"], found["reason"]) == (0, "waits", "Unschedulable")
    assert "NodeResourcesFit" in {step["name"] for step in found["steps"]}
    assert "NodeResourcesFit" in found["next"]
    assert found["message"].startswith("0/2 nodes are available")
