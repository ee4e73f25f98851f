"""The files for groups of pods: an API server takes their definitions, and their profiles bind all or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_testserver.errors import StatusError
from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.testing.fake_cluster import FakeCluster

FOLDER = Path(__file__).parents[2] / "configs"
TABLE = DialectTable(DIALECTS)
WAYS = [
    pytest.param("coscheduling.yaml", "podgroups.scheduling.x-k8s.io.yaml", "sigs", id="sigs"),
    pytest.param("coscheduling-ming.yaml", "podgroups.scheduling.ming.io.yaml", "ming", id="ming"),
    pytest.param("gang.yaml", "podgroups.scheduling.sigs.k8s.io.yaml", "koordinator", id="koordinator"),
]


def definition(name: str) -> dict[str, Any]:
    """Return a definition of the folder."""
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "crds" / name).read_text(encoding="utf-8"))
    return loaded


def add_group(cluster: FakeCluster, dialect: str, minimum: int) -> None:
    """Create a PodGroup called g."""
    kind = TABLE.named(dialect).kinds[0]
    spec = {"minMember": minimum, "minResources": {"cpu": minimum}, "scheduleTimeoutSeconds": 5}
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "g"}, "spec": spec}
    manifest["metadata"] = {"name": "g", "namespace": "default"}
    cluster.add(manifest, kind.type)


@pytest.mark.parametrize(("profile", "crd", "dialect"), WAYS)
async def test_a_group_is_bound_as_a_whole(
    pyscheduler_cluster: FakeCluster, profile: str, crd: str, dialect: str
) -> None:
    """With the definition as it is shipped: two of three nodes bind nobody, the third binds all."""
    cluster = pyscheduler_cluster
    cluster.server.add(definition(crd))
    add_group(cluster, dialect, 3)
    for name in ("a", "b"):
        cluster.add_node(name, allocatable={"cpu": "1", "pods": "9"})
    framework = cluster.framework(config=(FOLDER / profile).read_text(encoding="utf-8"))
    (key,) = TABLE.named(dialect).keys
    for number in range(3):
        scheduler = framework.profile.name
        cluster.add_pod(f"p{number}", requests={"cpu": "1"}, labels={key.name: "g"}, scheduler_name=scheduler)
    await framework.settle()
    await cluster.clock.advance(30)
    assert {framework.result(f"p{number}").state for number in range(3)} == {"pending"}
    cluster.add_node("c", allocatable={"cpu": "1", "pods": "9"})
    await cluster.clock.advance(30)
    assert {framework.result(f"p{number}").state for number in range(3)} == {"bound"}


@pytest.mark.parametrize(("profile", "crd", "dialect"), WAYS)
def test_definitions_are_of_the_kinds_that_are_read(profile: str, crd: str, dialect: str) -> None:
    """Group, version and names are those of the dialect, and status is written apart from the rest."""
    kind, spec = TABLE.named(dialect).kinds[0], definition(crd)["spec"]
    (version,) = spec["versions"]
    assert (spec["group"], version["name"], spec["names"]["plural"], spec["names"]["kind"]) == (
        kind.group,
        kind.version,
        kind.plural,
        kind.kind,
    )
    assert version["subresources"] == {"status": {}}
    assert spec["names"]["shortNames"] == ["pg", "pgs"]
    assert f"configs/{profile}" in (FOLDER / "crds" / crd).read_text(encoding="utf-8")


def test_a_minimum_below_1_is_refused_where_the_dialect_says_so(pyscheduler_cluster: FakeCluster) -> None:
    """scheduler-plugins' definition has a minimum of 1; the other one has none."""
    for _, crd, _ in (way.values for way in WAYS):
        pyscheduler_cluster.server.add(definition(str(crd)))
    with pytest.raises(StatusError, match="minMember"):
        add_group(pyscheduler_cluster, "sigs", 0)
    add_group(pyscheduler_cluster, "ming", 0)
