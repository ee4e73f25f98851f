"""`pyscheduler lab whatif` on a dump: the objects that are read, the change, the placement, and the output."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.tests.conftest import Run
from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.whatif.dump import name_of, read_dump

Object = dict[str, Any]
#: Runs `pyscheduler lab whatif` on objects; returns exit code, output and what is on standard error.
WhatIf = Callable[..., tuple[int, str, str]]

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: first
- schedulerName: second
  plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}
"""


def node(name: str, *, cpu: str = "4", gpu: int = 0, **metadata: Any) -> Object:
    """Return a node."""
    room = {"cpu": cpu, "memory": "64Gi", "pods": "110", **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, **metadata},
        "status": {"capacity": room, "allocatable": room},
    }


def pod(
    name: str,
    node: str = "",
    *,
    cpu: str = "1",
    gpu: int = 0,
    owner: str = "",
    scheduler: str = "pyscheduler",
    **more: Any,
) -> Object:
    """Return a pod; `owner` is the kind of its controller, `more` are fields of its spec."""
    requests = {"cpu": cpu, **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    resources = {"requests": requests, "limits": {"nvidia.com/gpu": str(gpu)}} if gpu else {"requests": requests}
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u-o", "controller": True}] if owner else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            **({"nodeName": node} if node else {}),
            **more,
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


@pytest.fixture
def what_if(tmp_path: Path, run: Run) -> WhatIf:
    """Return a function that runs `pyscheduler lab whatif`."""

    def what_if(objects: Path | Sequence[Object], *arguments: object) -> tuple[int, str, str]:
        file = objects if isinstance(objects, Path) else tmp_path / "dump.json"
        if not isinstance(objects, Path):
            file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return run("lab", "whatif", "--objects", file, *arguments)

    return what_if


@pytest.fixture
def answer(what_if: WhatIf) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Return a function that runs `pyscheduler lab whatif -o json`, and decodes the answer."""

    def run(objects: Path | Sequence[Object], *arguments: object) -> tuple[int, dict[str, Any]]:
        code, out, _ = what_if(objects, *arguments, "-o", "json")
        return code, json.loads(out)

    return run


Answer = Callable[..., tuple[int, dict[str, Any]]]


# --- nodes --------------------------------------------------------------------------------------


def test_pods_of_a_removed_node_move_wait_or_are_lost(answer: Answer) -> None:
    """A pod with a controller is created again and placed if it fits; a pod without a controller is lost."""
    objects = [
        node("a"),
        node("b"),
        pod("small", "a", cpu="3", owner="ReplicaSet"),
        pod("large", "a", cpu="1500m", owner="Job"),
        pod("bare", "a", cpu="100m"),
        pod("agent", "a", cpu="100m", owner="DaemonSet"),
        pod("stays", "b", cpu="500m"),
    ]
    code, found = answer(objects, "--remove-node", "a")
    assert code == 3
    assert (found["nodes_before"], found["nodes_after"]) == (2, 1)
    assert (found["placed_before"], found["placed_after"]) == (5, 2)
    assert found["moved"] == [{"pod": "default/large", "from": "a", "to": "b", "why": "node a was removed"}]
    (waiting,) = found["pending"]
    assert waiting == {
        "pod": "default/small",
        "from": "a",
        "why": "node a was removed",
        "reason": "Unschedulable",
        "message": waiting["message"],
    }
    assert waiting["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert found["lost"] == [
        {"pod": "default/bare", "from": "a", "why": "node a was removed, and it has no controller"}
    ]
    assert found["ended"] == ["default/agent"]
    assert found["is_at_rest"]


def test_added_nodes_take_pending_pods(answer: Answer) -> None:
    """Nodes of a shape, and copies of a node with its labels and taints, take pods that wait."""
    special = node("a", gpu=2)
    special["metadata"]["labels"]["pool"] = "x"
    special["spec"] = {
        "taints": [
            {"key": "gpu", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ]
    }
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    objects = [special, pod("p", gpu=2, nodeSelector={"pool": "x"}, tolerations=tolerations), pod("q", gpu=8)]
    assert answer(objects)[1]["placed"] == []
    code, found = answer(objects, "--add", "1xlike:a", "--add", "2x8gpu,16cpu,64Gi")
    assert (code, found["nodes_after"]) == (0, 4)
    assert found["placed"][0] == {"pod": "default/p", "to": "added-0"}
    assert found["placed"][1]["to"] in {"added-1", "added-2"}


def test_preempted_pod_is_created_again(answer: Answer) -> None:
    """A victim of preemption loses its node; the answer says by whom it was evicted."""
    objects = [
        node("a", cpu="4"),
        pod("low", "a", cpu="3", owner="ReplicaSet", priority=0),
        pod("high", cpu="3", priority=100),
    ]
    code, found = answer(objects)
    assert code == 3
    assert found["placed"] == [{"pod": "default/high", "to": "a"}]
    (waiting,) = found["pending"]
    assert (waiting["pod"], waiting["from"]) == ("default/low", "a")
    assert waiting["why"].startswith("evicted: ")
    assert "preempt" in waiting["why"]


def test_disruption_budget_counts_for_preemption(answer: Answer) -> None:
    """Of two victims, preemption takes the one that no PodDisruptionBudget protects."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }
    kept, free = (pod(name, name, cpu="3", owner="ReplicaSet") for name in ("a", "b"))
    kept["metadata"]["labels"] = {"app": "kept"}
    for one in (kept, free):
        one["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    objects = [node("a"), node("b"), budget, kept, free, pod("high", cpu="3", priority=100)]
    _, found = answer(objects)
    assert found["placed"] == [{"pod": "default/high", "to": "b"}]
    assert [one["pod"] for one in found["pending"]] == ["default/b"]


def devices(name: str) -> Object:
    """Return the ResourceSlice of a node with one device."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-gpus"},
        "spec": {
            "driver": "d.example.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }


def test_devices_are_claimed_again(answer: Answer) -> None:
    """A pod with a claim from a template moves to a node with a free device, also if the dump has no templates."""
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    result = {"request": "r", "driver": "d.example.com", "pool": "a", "device": "gpu-0"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "p-gpu-x",
            "namespace": "default",
            "uid": "u-c",
            "creationTimestamp": "2026-03-01T10:00:00Z",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-p", "controller": True}],
        },
        "spec": spec,
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u-p"}],
        },
    }
    wanted = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    with_claim, waits = (pod(name, owner="Job", resourceClaims=wanted) for name in ("p", "q"))
    with_claim["spec"]["nodeName"] = "a"
    with_claim["metadata"]["uid"] = "u-p"
    with_claim["status"] = {
        "phase": "Running",
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}],
    }
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    objects = [node("a"), node("b"), devices("a"), devices("b"), device_class, claim, with_claim]
    assert answer([*objects, waits])[1]["placed"] == [{"pod": "default/q", "to": "b"}]
    code, found = answer(objects, "--remove-node", "a")
    assert code == 0
    assert [(one["pod"], one["to"]) for one in found["moved"]] == [("default/p", "b")]
    _, found = answer([*objects, waits], "--remove-node", "a", "--add", "1xlike:b")
    assert (found["still_pending"], found["pending"]) == ([], [])


def test_volume_of_a_removed_node_keeps_its_pod_waiting(answer: Answer) -> None:
    """A pod with a local volume of the removed node waits, and the message says why; another pod moves."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v", "uid": "u-v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/x"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": "u-c"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default", "uid": "u-c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "v",
            "storageClassName": "",
        },
        "status": {"phase": "Bound"},
    }
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    pods = [pod("p", "a", owner="StatefulSet", volumes=volumes), pod("q", "a", owner="StatefulSet")]
    code, found = answer([node("a"), node("b"), volume, claim, *pods], "--remove-node", "a")
    assert code == 3
    assert [(one["pod"], one["to"]) for one in found["moved"]] == [("default/q", "b")]
    (waiting,) = found["pending"]
    assert waiting["pod"] == "default/p"
    assert "node affinity" in waiting["message"]


def test_same_dump_same_answer(what_if: WhatIf) -> None:
    """The answer does not depend on the time of the call."""
    objects = [*(node(f"n{number}") for number in range(5)), *(pod(f"p{number}") for number in range(12))]
    assert what_if(objects) == what_if(objects)


# --- profiles -----------------------------------------------------------------------------------


def test_profile_of_a_configuration(what_if: WhatIf, answer: Answer, tmp_path: Path) -> None:
    """Each pod uses the profile of its schedulerName; `--profile` gives all pods one profile of the file."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    tainted = {**node("a"), "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}}
    objects = [tainted, pod("p", scheduler="first"), pod("q", scheduler="other")]
    _, found = answer(objects, "--config", config)
    reasons = {one["pod"]: one["reason"] for one in found["still_pending"]}
    assert reasons == {"default/p": "Unschedulable", "default/q": "OtherScheduler"}
    _, found = answer(objects, "--config", config, "--profile", "second")
    assert [one["pod"] for one in found["placed"]] == ["default/p", "default/q"]
    assert found["configuration"] == f"profile second of {config}"
    code, _, err = what_if(objects, "--config", config, "--profile", "third")
    assert (code, err) == (2, f'error: {config}: no profile "third"; it has first, second\n')


def test_unknown_profile(what_if: WhatIf) -> None:
    """A profile that is neither built in nor a file is an error that lists the known ones."""
    code, _, err = what_if([node("a")], "--profile", "best")
    assert code == 2
    assert err.startswith('error: --profile: no profile "best"; known are binpack, capacity, ')


def test_profile_of_a_policy(answer: Answer) -> None:
    """The policies of `simulate --compare` are known, too: `binpack` fills the node that is used most."""
    objects = [node("a"), node("b"), pod("there", "b"), pod("p")]
    assert answer(objects, "--profile", "default")[1]["placed"] == [{"pod": "default/p", "to": "a"}]
    assert answer(objects, "--profile", "binpack")[1]["placed"] == [{"pod": "default/p", "to": "b"}]


def queue(api_version: str, name: str, spec: Mapping[str, Any]) -> Object:
    """Return a queue."""
    return {"apiVersion": api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def group(api_version: str, name: str, minimum: int, queue: str) -> Object:
    """Return a group."""
    return {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum, "queue": queue},
    }


_FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
SYSTEMS = {
    "kai": (
        "kai-scheduler",
        "pod-group-name",
        queue(
            "scheduling.run.ai/v2", "q", {"resources": {"cpu": _FREE, "memory": _FREE, "gpu": {**_FREE, "limit": 4}}}
        ),
        "scheduling.run.ai/v2alpha2",
    ),
    "volcano": (
        "volcano",
        "scheduling.k8s.io/group-name",
        queue("scheduling.volcano.sh/v1beta1", "q", {"weight": 1, "capability": {"nvidia.com/gpu": "4"}}),
        "scheduling.volcano.sh/v1beta1",
    ),
    "kube-batch": (
        "kube-batch",
        "scheduling.k8s.io/group-name",
        queue("scheduling.incubator.k8s.io/v1alpha1", "q", {"weight": 1, "capability": {"nvidia.com/gpu": "4"}}),
        "scheduling.incubator.k8s.io/v1alpha1",
    ),
}


def batch_dump(system: str) -> list[Object]:
    """Return a node of 8 GPUs, a queue, a gang of two that fits, and a gang of three that does not fit."""
    scheduler, key, own_queue, api_version = SYSTEMS[system]
    objects = [node("a", cpu="32", gpu=3), own_queue]
    # kube-batch lets the oldest job go first; what the other one allocates in vain is not free in that session.
    for name, count, created in (("waits", 4, "2026-03-01T11:00:00Z"), ("fits", 2, "2026-03-01T10:00:00Z")):
        objects.append(group(api_version, name, count, "q"))
        objects[-1]["metadata"]["creationTimestamp"] = created
        for number in range(count):
            member = pod(f"{name}-{number}", gpu=1, owner="Job", scheduler=scheduler)
            member["metadata"] |= {"annotations": {key: name}, "creationTimestamp": created}
            objects.append(member)
    return objects


@pytest.mark.parametrize("system", SYSTEMS)
def test_objects_of_batch_systems_as_they_are(what_if: WhatIf, answer: Answer, system: str) -> None:
    """Without --config, the pods of a batch system get its preset: gangs are placed whole, by its queues."""
    objects = batch_dump(system)
    code, found = answer(objects)
    assert code == 0
    assert [one["pod"] for one in found["placed"]] == ["default/fits-0", "default/fits-1"]
    assert {one["pod"] for one in found["still_pending"]} == {f"default/waits-{number}" for number in range(4)}
    assert all(one["message"] for one in found["still_pending"])
    assert found["notes"] == [f"no --config: assumed for the schedulerName {SYSTEMS[system][0]}: the preset {system}"]


# --- how many nodes -----------------------------------------------------------------------------


def test_smallest_number_of_nodes(answer: Answer) -> None:
    """The number with which every pod that could run has a node; pods that no new node helps are named."""
    objects = [node("a", cpu="2"), *(pod(f"p{number}", cpu="2") for number in range(8)), pod("huge", cpu="64")]
    code, found = answer(objects, "--scale-to-fit", "--shape", "like:a")
    assert code == 0
    assert found["scale"]["nodes"] == 7
    assert found["scale"]["neverFit"] == ["default/huge"]
    assert found["scale"]["tried"]["6"] == 1
    assert found["scale"]["tried"]["7"] == 0
    assert found["placed_after"] == 8


def test_no_node_is_needed(what_if: WhatIf) -> None:
    """If all pods fit, the number is 0; one node is no plural."""
    code, out, _ = what_if([node("a"), pod("p")], "--scale-to-fit", "--shape", "8gpu")
    assert code == 0
    assert "scale to fit: 0 nodes of 8gpu; with so many, nothing stays pending\n" in out
    _, out, _ = what_if([node("a"), pod("p", cpu="4"), pod("q")], "--scale-to-fit", "--shape", "like:a")
    assert "scale to fit: 1 node of like:a; " in out


# --- what is printed ----------------------------------------------------------------------------


def test_table(what_if: WhatIf) -> None:
    """The table has a section for each kind of change, and none that is empty."""
    objects = [node("a"), node("b"), pod("p", "a", owner="ReplicaSet"), pod("q"), pod("r", cpu="9")]
    code, out, err = what_if(objects, "--profile", "default", "--remove-node", "a")
    assert (code, err) == (0, "")
    assert out.split("\n\n") == [
        "configuration: profile default\nnodes: 2 before, 1 after\npods with a node: 1 before, 2 after 0 s",
        "moved: 1\nPOD        FROM  TO  WHY\ndefault/p  a     b   node a was removed",
        "newly placed: 1\nPOD        NODE\ndefault/q  b",
        (
            "still pending: 1\nPODS  NAMES      REASON\n1 x   default/r  Unschedulable: 0/1 nodes are available: "
            "1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are availab...\n"
        ),
    ]


def test_pods_that_still_wait_are_named_by_reason(what_if: WhatIf) -> None:
    """The three first names of each reason; the most frequent reason comes first."""
    big = [pod(name, cpu="9") for name in ("p", "q", "r", "s", "t")]
    _, out, _ = what_if([node("a"), pod("g", schedulingGates=[{"name": "wait"}]), *big], "--profile", "default")
    rows = out.partition("still pending: 6\n")[2].splitlines()
    assert [" ".join(row.split()[:5]) for row in rows[1:]] == [
        "5 x default/p, default/q, default/r,",
        "1 x default/g SchedulingGated: scheduling",
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--remove-node", "z"], 'no node "z" in it'),
        (["--add", "3xlike:z"], 'no node "z" in it'),
        (["--add", "three"], '--add: "three" must be like 3x8gpu, 3x8gpu:A100,96cpu,1Ti or 3xlike:NODE'),
        (
            ["--scale-to-fit", "--shape", "3x8gpu"],
            '--shape: "3x8gpu" must be like 8gpu, 8gpu:A100,96cpu,1Ti or like:NODE',
        ),
        (["--scale-to-fit"], "--scale-to-fit needs --shape"),
        (["--shape", "8gpu"], "--shape has no effect without --scale-to-fit"),
    ],
)
def test_mistakes_are_one_line(what_if: WhatIf, arguments: list[str], error: str) -> None:
    """Each mistake is named, and how to mend it."""
    code, out, err = what_if([node("a")], *arguments)
    assert (bool(code), out) == (True, "")
    assert error in err


# --- dumps --------------------------------------------------------------------------------------


def kai_snapshot(path: Path, objects: Sequence[Object]) -> Path:
    """Write objects as KAI's `/get-snapshot` does: lists without kinds, with null for what is absent."""
    lists: dict[str, Any] = {"pods": [], "nodes": [], "queues": [], "podGroups": [], "configMaps": None}
    names = {"Pod": "pods", "Node": "nodes", "Queue": "queues", "PodGroup": "podGroups"}
    for number, one in enumerate(objects):
        bare = {name: value for name, value in one.items() if name not in {"kind", "apiVersion"}}
        bare["metadata"] = {"creationTimestamp": "2026-03-01T09:00:00Z", **bare["metadata"], "uid": f"u{number}"}
        lists[names[one["kind"]]].append({**bare, "managedFields": None})
    params = {"schedulerName": "kai-scheduler"}
    text = json.dumps({"config": {"actions": "allocate"}, "schedulerParams": params, "rawObjects": lists})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("snapshot.json", text)
    return path


def test_snapshot_of_kai(what_if: WhatIf, tmp_path: Path) -> None:
    """The zip file of /get-snapshot gives the same answer as the manifests."""
    objects = batch_dump("kai")
    file = kai_snapshot(tmp_path / "kai.zip", objects)
    assert what_if(file, "-o", "json") == what_if(objects, "-o", "json")


def test_snapshot_of_pyscheduler(answer: Answer, tmp_path: Path) -> None:
    """The zip file of /debug/snapshot has the configuration, too; its objects need not be complete."""
    tainted = {**node("a"), "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}}
    bound, waits = pod("bound", "a", scheduler="second"), pod("waits", scheduler="second")
    for number, one in enumerate((bound, waits)):
        one["metadata"] |= {"uid": f"u{number}", "creationTimestamp": "2026-03-01T10:00:00Z"}
        del one["spec"]["containers"][0]["image"]
    file = tmp_path / "snapshot.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for number, one in enumerate((tainted, bound, waits)):
            archive.writestr(f"objects/v1/{number}.json", json.dumps(one))
        archive.writestr("snapshot.json", "{}")
        archive.writestr("configuration.json", json.dumps(yaml.safe_load(CONFIG)))
    code, found = answer(file)
    assert (code, found["configuration"]) == (0, str(file))
    assert found["placed"] == [{"pod": "default/waits", "to": "a"}]


def test_pod_that_its_node_rejects(answer: Answer, tmp_path: Path) -> None:
    """A profile may choose a node that rejects the pod; the answer says so."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.replace("TaintToleration", "NodeResourcesFit"))
    code, found = answer([node("a"), pod("p", cpu="9")], "--config", config, "--profile", "second")
    assert code == 3
    (lost,) = found["lost"]
    assert (lost["pod"], lost["from"]) == ("default/p", "")
    assert lost["why"].startswith("OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu")


def test_zip_file_of_something_else(tmp_path: Path) -> None:
    """A zip file that is no snapshot is an error."""
    file = tmp_path / "other.zip"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("snapshot.json", "{}")
    file.write_bytes(data.getvalue())
    with pytest.raises(ConfigError, match="has no rawObjects; give the zip file of /get-snapshot"):
        read_dump([str(file)])


@pytest.mark.parametrize(
    ("objects", "error"),
    [
        ([node("a"), node("a")], "Node a occurs twice; give each object once"),
        ([pod("p")], "no node in it; dump nodes and pods"),
    ],
)
def test_dump_with_mistakes(what_if: WhatIf, objects: list[Object], error: str) -> None:
    """A dump that cannot be right is an error."""
    code, _, err = what_if(objects)
    assert code == 2
    assert error in err


# --- parts of GPUs --------------------------------------------------------------------------------


def part(name: str) -> Object:
    """Return a pod in the queue `q` that requests half a GPU."""
    one = pod(name)
    one["metadata"] |= {"annotations": {"gpu-fraction": "0.5"}, "labels": {"kai.scheduler/queue": "q"}}
    return one


def test_note_about_parts_of_gpus_that_no_profile_counts(what_if: WhatIf) -> None:
    """One line names the pods, and the plugin to enable; without such pods there is none."""
    _, _, err = what_if([node("a", gpu=1), pod("whole"), *map(part, "pqrs")])
    assert err.partition("\n")[2] == (
        "note: default/p, default/q, default/r and 1 more: annotations request parts of GPUs, which no profile of "
        "these pods counts; give --config FILE whose profile enables the plugin GpuSharing\n"
    )
    assert what_if([node("a", gpu=1), pod("whole")], "--profile", "default")[2] == ""


def sharing(tmp_path: Path, args: str = "{}") -> list[Any]:
    """Return the arguments for a profile of a file that enables GpuSharing."""
    file = tmp_path / "sharing.yaml"
    enabled = f"enabled: [{{name: GpuSharing}}]}}}}\n  pluginConfig: [{{name: GpuSharing, args: {args}}}]"
    file.write_text(CONFIG.replace("disabled: [{name: TaintToleration}]}}", enabled))
    return ["--config", file, "--profile", "second"]


@pytest.mark.parametrize("profile", ["kai", "binpack", "FILE", ""])
def test_parts_of_gpus(answer: Answer, tmp_path: Path, profile: str) -> None:
    """Presets, policies and assumed profiles of KAI count them, as does a profile of a file that enables GpuSharing."""
    parts, arguments = [*map(part, "pqr")], sharing(tmp_path) if profile == "FILE" else ["--profile", profile]
    objects = [node("a", gpu=1), SYSTEMS["kai"][2], *parts]
    if not profile:
        objects, arguments = [*batch_dump("kai"), *parts], []
        for one in parts:
            one["spec"]["schedulerName"] = SYSTEMS["kai"][0]
    _, found = answer(objects, *arguments)
    placed = [one["to"] for one in found["placed"] if one["pod"] in map(name_of, parts)]
    assert placed == ["a", "a"]
    assert not any("annotations" in note for note in found["notes"])


@pytest.mark.parametrize("namespace", ["kai-resource-reservation", "reserved"])
def test_reservation_pods_of_shared_gpus_do_not_count(answer: Answer, tmp_path: Path, namespace: str) -> None:
    """They follow the pods that share the GPU: none is lost with its node, and new ones are not counted."""
    sharer = pod("part", "a", owner="Job")
    sharer["metadata"] |= {"annotations": {"gpu-fraction": "0.5"}, "labels": {"runai-gpu-group": "g"}}
    reserving = pod("gpu-reservation-a-g", "a", gpu=1, cpu="1m")
    reserving["metadata"] |= {"namespace": namespace, "labels": {"runai-gpu-group": "g"}}
    arguments = sharing(tmp_path, f"{{namespace: {namespace}}}")
    objects = [node("a", gpu=1), node("b", gpu=1), sharer, reserving]
    code, found = answer(objects, *arguments, "--remove-node", "a")
    assert code == 0
    assert found["moved"] == [{"pod": "default/part", "from": "a", "to": "b", "why": "node a was removed"}]
    assert (found["placed_before"], found["placed_after"], found["lost"]) == (1, 1, [])
    code, found = answer([*objects[:2], reserving], *arguments)
    assert (code, found["placed_before"], found["lost"]) == (0, 0, [])
    # A cluster that shares no GPU yet has no such namespace: the answer adds it.
    found = answer([node("a", gpu=1), part("first")], *arguments)[1]
    assert found["placed"] == [{"pod": "default/first", "to": "a"}]
