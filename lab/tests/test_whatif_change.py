"""The objects of a dump after a change of nodes, and how many new nodes are needed."""

from __future__ import annotations

import json
from pathlib import Path

from lab.tests.conftest import Run
from lab.tests.test_whatif import devices, node, pod
from pyscheduler_lab.whatif.change import Change, apply_change, read_addition
from pyscheduler_lab.whatif.dump import Dump


def test_created_again_without_what_binding_wrote() -> None:
    """A pod that is created again has a new uid and no node, status or shared GPU; its name and gang stay."""
    one = pod("p", "a", owner="Job")
    one["metadata"] |= {
        "uid": "u",
        "labels": {"app": "x", "runai-gpu-group": "g"},
        "annotations": {"pod-group-name": "g", "received-resource-type": "Fraction"},
    }
    changed = apply_change(Dump(objects=[node("a"), node("b"), one], source="x"), Change(removed=["a"]))
    (again,) = (each for each in changed.objects if each["kind"] == "Pod")
    assert again["metadata"]["labels"] == {"app": "x"}
    assert again["metadata"]["annotations"] == {"pod-group-name": "g"}
    assert not {"uid", "resourceVersion"} & again["metadata"].keys()
    assert "nodeName" not in again["spec"]
    assert "status" not in again


def test_devices_of_a_copied_node() -> None:
    """A copy of a node has ResourceSlices of its own; a removed node loses them."""
    dump = Dump(objects=[node("a"), devices("a")], source="x")
    more = Change(added=[read_addition("2xlike:a", option="--add")])
    slices = [one for one in apply_change(dump, more).objects if one["kind"] == "ResourceSlice"]
    assert [one["metadata"]["name"] for one in slices] == ["a-gpus", "added-0-gpus", "added-1-gpus"]
    assert [one["spec"]["pool"]["name"] for one in slices] == ["a", "added-0", "added-1"]
    assert [one["spec"]["nodeName"] for one in slices] == ["a", "added-0", "added-1"]
    assert not apply_change(dump, Change(removed=["a"])).objects


def test_devices_of_a_copied_node_without_its_name() -> None:
    """Slices and pools that are not named after their node get the name of the copy in front."""
    slices = [devices("k"), devices("k")]
    for number, one in enumerate(slices):
        one["metadata"]["name"] = f"slice-{number}"
        one["spec"]["pool"]["name"] = "pool"
    more = Change(added=[read_addition("1xlike:k", option="--add")])
    objects = apply_change(Dump(objects=[node("k"), *slices], source="x"), more).objects
    added = [one for one in objects if one["kind"] == "ResourceSlice" and one["spec"]["nodeName"] == "added-0"]
    assert [one["metadata"]["name"] for one in added] == ["added-0-slice-0", "added-0-slice-1"]
    assert {one["spec"]["pool"]["name"] for one in added} == {"added-0-pool"}


def test_new_nodes_that_small_pods_take_first(run: Run, tmp_path: Path) -> None:
    """Small pods fit without new nodes, but spread over them; only the third new node is left for the large pod."""
    small = [pod(name, cpu="500m") for name in ("p", "q")]
    objects = [node("a", cpu="2"), pod("r", "a", cpu="500m"), *small, pod("z", cpu="2")]
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    words = ("--profile", "default", "--scale-to-fit", "--shape", "like:a", "-o", "json")
    code, text, _ = run("lab", "whatif", "--objects", file, *words)
    scale = json.loads(text)["scale"]
    assert (code, scale["nodes"], scale["neverFit"]) == (0, 3, [])
