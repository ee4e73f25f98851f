"""Valid objects with something broken in them, at random: the loop goes on, and the pods beside them are bound."""

from __future__ import annotations

import asyncio
import copy
import logging
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.testing import FakeCluster, node_manifest, pod_manifest
from tests.scheduler.measured import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What was done to objects, and what came of it.
FIRED: Counter[str] = Counter()

#: What may be counted on the way: complaints about objects, and a server that refuses to touch them.
EXPECTED = {
    "malformed_pod",
    "malformed_node",
    "attempt_error",
    "status_patch_failed",
    "event_refused",
    "relisted",
}


def pod() -> dict[str, Any]:
    """Return a pod with something of everything in it."""
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
    term = {"topologyKey": "zone", "labelSelector": selector, "namespaces": ["default"]}
    node_term = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z9"]}]}
    manifest = pod_manifest(
        "odd",
        requests={"cpu": "100m", "memory": "1Mi"},
        labels={"app": "a", "k": "v"},
        priority=3,
        host_ports=[8080],
        node_selector={"zone": "z1"},
        tolerations=[{"key": "t", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node_term]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": node_term}],
            },
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "podAffinityTerm": term}]
            },
        },
        status={"phase": "Pending", "conditions": [{"type": "X", "status": "True", "lastProbeTime": None}]},
    )
    manifest["spec"] |= {
        "overhead": {"cpu": "1m"},
        "initContainers": [
            {"name": "i", "image": "x", "resources": {"limits": {"cpu": "2"}}, "restartPolicy": "Always"}
        ],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        ],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "m"}}],
    }
    manifest["metadata"] |= {"uid": "uid-odd", "generation": 1, "ownerReferences": [{"kind": "Job", "name": "j"}]}
    return manifest


def placed() -> dict[str, Any]:
    """Return such a pod on a node."""
    manifest = pod()
    manifest["spec"]["nodeName"] = "n1"
    return manifest


def node() -> dict[str, Any]:
    """Return a node with something of everything in it."""
    manifest = node_manifest(
        "odd",
        allocatable={"cpu": "4", "memory": "1Gi", "pods": "10", "example.com/gpu": "1"},
        labels={"zone": "z2", "kubernetes.io/hostname": "odd"},
        taints=[{"key": "t", "value": "x", "effect": "NoSchedule"}],
        images={"app:1": 1000},
    )
    manifest["metadata"]["uid"] = "uid-odd-node"
    manifest["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    manifest["status"]["declaredFeatures"] = ["F"]
    return manifest


OBJECTS = {"pod": pod, "placed pod": placed, "node": node}

#: A place in an object: what holds it, and its key there.
Place = tuple[Any, Any]


def places(value: Any) -> Iterator[Place]:
    """Yield every place in an object but its name and namespace."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in {"name", "namespace", "kind", "apiVersion"} or not isinstance(inner, str):
                yield value, key
            yield from places(inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value, index
            yield from places(inner)


def null(place: Place, _rng: random.Random) -> None:
    """Write null."""
    place[0][place[1]] = None


def other_type(place: Place, rng: random.Random) -> None:
    """Put something of another type there."""
    held = place[0][place[1]]
    others = [7, -1, 2**70, 1.5, True, "text", "", [], {}, ["x"], {"x": "y"}, [[]], {"x": {}}]
    place[0][place[1]] = rng.choice([each for each in others if type(each) is not type(held)])


def large(place: Place, rng: random.Random) -> None:
    """Make it absurdly large."""
    held = place[0][place[1]]
    if isinstance(held, list):
        place[0][place[1]] = held * 200
    elif isinstance(held, dict):
        place[0][place[1]] = held | {
            f"k{number}": copy.deepcopy(rng.choice(list(held.values()) or ["v"])) for number in range(100)
        }
    elif isinstance(held, str):
        place[0][place[1]] = (held or "x") * 10_000
    else:
        place[0][place[1]] = 10**30


def gone(place: Place, _rng: random.Random) -> None:
    """Take it out."""
    del place[0][place[1]]


def unknown(place: Place, _rng: random.Random) -> None:
    """Put something beside it that nobody knows."""
    if isinstance(place[0], dict):
        place[0]["fromTheFuture"] = {"a": [1, None, {"b": "c"}]}
    else:
        place[0].append({"fromTheFuture": 1})


def nonsense(place: Place, rng: random.Random) -> None:
    """Write a text that says nothing where a text is."""
    place[0][place[1]] = rng.choice(["1 core", "Perhaps", '\x00\n"', "é" * 300, "-1", "0x10", "1e999", "NaN", " "])


MUTATIONS: list[Callable[[Place, random.Random], None]] = [null, other_type, large, gone, unknown, nonsense]


def mutate(name: str, rng: random.Random) -> dict[str, Any]:
    """Return an object of that name with up to three things broken in it."""
    manifest = OBJECTS[name]()
    for _ in range(rng.randint(1, 3)):
        everywhere = [place for part in ("metadata", "spec", "status") for place in places(manifest.get(part) or {})]
        if everywhere:
            mutation = rng.choice(MUTATIONS)
            mutation(rng.choice(everywhere), rng)
            FIRED[f"{mutation.__name__} in a {name}"] += 1
    return manifest


@given(rng=st.randoms(use_true_random=False), name=st.sampled_from(sorted(OBJECTS)), first=st.booleans())
def one_bad_object(rng: random.Random, name: str, first: bool) -> None:
    """Let a scheduler meet one object."""
    with asyncio.Runner() as runner:
        runner.run(meet(mutate(name, rng), first=first))


@pytest.mark.slow
def test_one_bad_object_does_not_stop_the_others() -> None:
    """Whatever is wrong with it, it may wait or be counted in part, and everything else goes on.

    Every kind of damage is done to every kind of object, and comes to something.
    """
    FIRED.clear()
    settings(max_examples=3 * settings.default.max_examples)(one_bad_object)()
    expected = {f"{mutation.__name__} in a {name}" for mutation in MUTATIONS for name in OBJECTS}
    expected |= {"the pod was bound", "complaints", "told its user"}
    assert not {what for what in expected if not FIRED[what]}, FIRED


async def meet(manifest: dict[str, Any], *, first: bool) -> None:
    """Let a scheduler meet the object, and pods beside it."""
    cluster = FakeCluster(seed=1)
    cluster.add_node("n1", allocatable={"cpu": "64", "memory": "64Gi", "pods": "110"}, labels={"zone": "z1"})
    measured = Measured(cluster)
    logs = Lines()
    logging.getLogger("pyscheduler").addHandler(logs)
    try:
        cluster.add_pod("early", node_selector={"zone": "z1"})
        if first:
            cluster.server.plant(manifest)
        running = await measured.start()
        if not first:
            cluster.server.plant(manifest)
        await cluster.clock.advance(3)
        cluster.add_pod("late", node_selector={"zone": "z1"})
        await cluster.clock.advance(3)
        assert not running.done()
        for healthy in ("early", "late"):
            assert cluster.pod(healthy).node_name == "n1", f"{healthy}: {logs.lines}"
        measured.scheduler.check_invariants()
        found = measured.warnings()
        binder = sum("plugin=DefaultBinder" in line for line in logs.lines if line.startswith("Plugin failed"))
        assert found.pop("plugin_error", 0) == binder, logs.lines
        assert set(found) <= EXPECTED, logs.lines
        FIRED["complaints"] += bool(found)
        FIRED["told its user"] += any(
            event["regarding"]["name"] == "odd" for event in cluster.events("FailedScheduling")
        )
        if manifest["kind"] == "Pod":
            (stored,) = [each for each in cluster.server.pods() if each["metadata"]["name"] == "odd"]
            FIRED["the pod was bound"] += bool((stored.get("spec") or {}).get("nodeName") == "n1")
    finally:
        logging.getLogger("pyscheduler").removeHandler(logs)
        await measured.stop()


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.lines.append(record.getMessage()[:300])
