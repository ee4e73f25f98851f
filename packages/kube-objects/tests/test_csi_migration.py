"""Disks from before CSI, read as CSI volumes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_objects import PersistentVolume, Volume, decode
from kube_objects.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    MigrationError,
    disk_kind,
    inline_handle,
    provisioned_kind,
    translated_affinity,
    volume_handle,
)

EBS_ZONE = "topology.ebs.csi.aws.com/zone"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
PD = {"gcePersistentDisk": {"pdName": "d"}}


def persistent(source: dict[str, Any], labels: dict[str, str] | None = None, *terms: Any) -> PersistentVolume:
    """Make a persistent volume with node affinity terms, each a list of requirements."""
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": list(each)} for each in terms]}}
    spec = {**source, **({"nodeAffinity": affinity} if terms else {})}
    return decode(
        PersistentVolume, msgspec.json.encode({"metadata": {"name": "v", "labels": labels or {}}, "spec": spec})
    )


def within(key: str, *values: str) -> dict[str, Any]:
    """Make a requirement."""
    return {"key": key, "operator": "In", "values": list(values)}


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        pytest.param(PD, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", id="gce"),
        pytest.param(EBS, "ebs.csi.aws.com", "vol-1", id="aws"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://zone/vol-2"}}, "ebs.csi.aws.com", "vol-2", id="url"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws:///vol-3"}}, "ebs.csi.aws.com", "vol-3", id="no zone"),
        pytest.param({"azureDisk": {"diskURI": "/a/b"}}, "disk.csi.azure.com", "/a/b", id="azure disk"),
        pytest.param(
            {"azureDisk": {"diskURI": "/a/b", "kind": "Managed"}}, "disk.csi.azure.com", "/a/b", id="azure, managed"
        ),
        pytest.param({"cinder": {"volumeID": "x"}}, "cinder.csi.openstack.org", "x", id="cinder"),
        pytest.param({"portworxVolume": {"volumeID": "y"}}, "pxd.portworx.com", "y", id="portworx"),
        pytest.param({"azureFile": {"shareName": "s"}}, "file.csi.azure.com", "s", id="azure file"),
        pytest.param({"vsphereVolume": {"volumePath": "z"}}, "csi.vsphere.vmware.com", "z", id="vsphere"),
    ],
)
def test_each_kind_has_a_driver_and_a_handle(source: dict[str, Any], driver: str, handle: str) -> None:
    """Named by a pod, or by a persistent volume without labels."""
    inline = msgspec.convert({"name": "d", **source}, Volume)
    kind = disk_kind(inline)
    assert kind is not None
    assert (kind.driver, inline_handle(inline)) == (driver, handle)
    assert provisioned_kind(kind.plugin) == kind
    volume = persistent(source)
    assert (disk_kind(volume.spec), volume_handle(volume)) == (kind, handle)


def test_other_volumes_are_of_no_such_kind() -> None:
    """CSI volumes, and what no driver attaches."""
    assert disk_kind(msgspec.convert({"name": "d", "csi": {"driver": "x"}}, Volume)) is None
    assert disk_kind(persistent({"csi": {"driver": "x", "volumeHandle": "h"}}).spec) is None
    assert provisioned_kind("csi.example.com") is None


@pytest.mark.parametrize(
    ("source", "labels"),
    [
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://zone/disk-1"}}, {}, id="not an EBS volume"),
        pytest.param({"azureDisk": {"diskURI": "u", "kind": "Dedicated"}}, {}, id="unmanaged"),
        pytest.param(PD, {ZONE: "us-central1-a__us-east1-b"}, id="two regions"),
        pytest.param(PD, {ZONE: "a__b"}, id="zones of no region"),
    ],
)
def test_some_disks_have_no_equivalent(source: dict[str, Any], labels: dict[str, str]) -> None:
    """The error says why."""
    with pytest.raises(MigrationError, match=r"Invalid format|not supported|failed to get region"):
        volume_handle(persistent(source, labels))


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        pytest.param({ZONE: "us-central1-a"}, "zones/us-central1-a", id="zonal"),
        pytest.param({BETA_ZONE: "z", ZONE: "y"}, "zones/z", id="the old label comes first"),
        pytest.param({ZONE: "us-central1-a__us-central1-b"}, "regions/us-central1", id="regional"),
    ],
)
def test_a_google_disk_names_its_place(labels: dict[str, str], handle: str) -> None:
    """By its labels."""
    assert volume_handle(persistent(PD, labels)) == f"projects/UNSPECIFIED/{handle}/disks/d"


@pytest.mark.parametrize(
    ("labels", "terms", "expected"),
    [
        pytest.param({}, [], None, id="nothing known"),
        pytest.param({}, [[within(ZONE, "a")]], [[within(EBS_ZONE, "a")]], id="the zone gets the driver's name"),
        pytest.param({}, [[within(BETA_ZONE, "a")]], [[within(EBS_ZONE, "a")]], id="the old one, too"),
        pytest.param(
            {ZONE: "b__a"}, [], [[within(EBS_ZONE, "a", "b")]], id="a label is taken where there are no terms"
        ),
        pytest.param(
            {ZONE: "a"},
            [[within("disk", "x")]],
            [[within("disk", "x"), within(EBS_ZONE, "a")]],
            id="and added to terms",
        ),
        pytest.param({ZONE: "b"}, [[within(ZONE, "a")]], [[within(EBS_ZONE, "a")]], id="terms come before labels"),
        pytest.param(
            {},
            [[within(BETA_ZONE, "a"), within(BETA_REGION, "r")]],
            [[within(EBS_ZONE, "a"), within(REGION, "r")]],
            id="an old region becomes a new one",
        ),
        pytest.param({ZONE: " __"}, [], None, id="a label without zones"),
    ],
)
def test_the_zone_of_a_volume_in_the_drivers_words(labels: dict[str, str], terms: Any, expected: Any) -> None:
    """Affinity as the CSI driver would have written it."""
    found = translated_affinity(persistent(EBS, labels, *terms))
    plain = None if found is None else msgspec.json.decode(msgspec.json.encode(found))["required"]["nodeSelectorTerms"]
    assert plain == (None if expected is None else [{"matchExpressions": each} for each in expected])


def test_drivers_without_zones_leave_affinity_alone() -> None:
    """Azure's disks keep what they have."""
    volume = persistent({"azureDisk": {"diskURI": "u"}}, {}, [within(ZONE, "a")])
    assert translated_affinity(volume) == volume.spec.node_affinity
