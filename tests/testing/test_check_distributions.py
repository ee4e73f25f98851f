"""The plugins for groups, queues, volumes and devices pass the checks on clusters with the objects that they read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.podgroup.wire import KaiPodGroup, SigsPodGroup
from pyscheduler.testing import CHECKS, Draft, Step, check_plugin
from pyscheduler_kai.objects import KaiQueue
from tests.plugins import devices, storage

CONFIGS = Path(__file__).parents[2] / "configs"
#: The checks that start no process.
IN_PROCESS = [check for check in CHECKS if check != "hash-seed"]


def draw_gangs(rng: random.Random, draft: Draft) -> None:
    """Add pods of two gangs, by annotations."""
    for name in ("red", "blue"):
        annotations = {
            "gang.scheduling.koordinator.sh/name": name,
            "gang.scheduling.koordinator.sh/min-available": str(rng.choice((2, 3))),
            "gang.scheduling.koordinator.sh/waiting-time": rng.choice(("5s", "60s")),
        }
        draft.pods.append({"annotations": annotations})
    draft.pods.append({})


def draw_sigs_group(rng: random.Random, draft: Draft) -> None:
    """Add a PodGroup of scheduler-plugins, whose minimum changes, and its pods."""
    spec = {"minMember": rng.choice((2, 3)), "scheduleTimeoutSeconds": rng.choice((5, 60))}
    manifest = {
        "apiVersion": SigsPodGroup.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "red", "namespace": "default"},
        "spec": spec,
    }
    draft.setup.append(Step("add", manifest, SigsPodGroup))
    draft.events.append(Step("patch", SigsPodGroup, "red", {"spec": {"minMember": 1}}))
    draft.pods += [{"labels": {"scheduling.x-k8s.io/pod-group": "red"}}, {}]


def draw_kai_queues(rng: random.Random, draft: Draft) -> None:
    """Add a tree of two queues and a group in each."""
    for name, parent in (("all", ""), ("a", "all"), ("b", "all")):
        limits = {key: {"quota": rng.choice((1000, -1)), "limit": -1} for key in ("cpu", "memory", "gpu")}
        spec: dict[str, Any] = {"resources": limits, **({"parentQueue": parent} if parent else {})}
        manifest = {"apiVersion": KaiQueue.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        draft.setup.append(Step("add", manifest, KaiQueue))
    for name in ("a", "b"):
        spec = {"queue": name, "minMember": rng.choice((1, 2))}
        metadata = {"name": name, "namespace": "default"}
        manifest = {"apiVersion": KaiPodGroup.api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}
        draft.setup.append(Step("add", manifest, KaiPodGroup))
        draft.pods.append({"annotations": {"pod-group-name": name}})


def draw_volumes(rng: random.Random, draft: Draft) -> None:
    """Add volumes in a zone, claims that are bound or wait, and pods that use them."""
    late, bound = storage.TYPES["PersistentVolumeClaim"], storage.TYPES["PersistentVolume"]
    at = storage.reachable_from(storage.ZONE, rng.choice(("a", "b")))
    draft.setup += [
        Step("add", storage.storage_class(), storage.TYPES["StorageClass"]),
        Step("add", storage.volume("v", at=at), bound),
        Step("add", storage.claim("late"), late),
    ]
    draft.events += [
        Step("add", storage.volume("w"), bound),
        Step("add", storage.claim("later"), late),
        Step("delete", late, "late"),
    ]
    for name in ("late", "later"):
        draft.pods.append(
            {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}},
        )
    draft.pods.append({})


def draw_devices(rng: random.Random, draft: Draft) -> None:
    """Add a slice of two devices on a node, claims, and pods that use them; a claim is deleted."""
    types = devices.TYPES
    draft.setup += [
        Step("add", devices.device_class(), types["DeviceClass"]),
        Step("add", devices.resource_slice("n0", "gpu-0", *rng.choice(((), ("gpu-1",)))), types["ResourceSlice"]),
    ]
    for name in ("c", "d", "e"):
        adds = draft.setup if name == "c" else draft.events
        adds.append(Step("add", devices.claim(name), types["ResourceClaim"]))
        draft.pods.append({"spec": devices.using(name)})
    draft.events.append(Step("delete", types["ResourceSlice"], "n0-slice"))
    draft.events.append(Step("add", devices.resource_slice("n1"), types["ResourceSlice"]))
    draft.pods.append({})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "draw", "file"),
    [
        pytest.param("Gang", draw_gangs, "gang.yaml", id="Gang"),
        pytest.param("GangSort", draw_gangs, "gang.yaml", id="GangSort"),
        pytest.param("Coscheduling", draw_sigs_group, "coscheduling.yaml", id="Coscheduling"),
        pytest.param("Batch", draw_kai_queues, "batch-kai.yaml", id="Batch"),
        pytest.param("VolumeBinding", draw_volumes, None, id="VolumeBinding"),
        pytest.param("VolumeZone", draw_volumes, None, id="VolumeZone"),
        pytest.param("VolumeRestrictions", draw_volumes, None, id="VolumeRestrictions"),
        pytest.param("NodeVolumeLimits", draw_volumes, None, id="NodeVolumeLimits"),
        pytest.param("DynamicResources", draw_devices, None, id="DynamicResources"),
    ],
)
def test_plugin_passes_with_its_objects(name: str, draw: Any, file: str | None) -> None:
    """Groups that wait, claims that are bound late and devices break no check."""
    config = None if file is None else (CONFIGS / file).read_text(encoding="utf-8")

    result = check_plugin(name, histories=4, config=config, draw=draw, checks=IN_PROCESS)

    assert result.histories == 4
