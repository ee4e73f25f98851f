"""Claims, classes and slices: what must come through decoding and encoding as it was."""

from __future__ import annotations

import msgspec
import pytest

from kube_objects import (
    BUILT_IN_KINDS,
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    decode,
    encode,
)


@pytest.mark.parametrize(
    "opaque",
    [
        pytest.param({"driver": "d", "parameters": {}}, id="empty"),
        pytest.param({"driver": "d"}, id="absent"),
        pytest.param({"driver": "d", "parameters": {"a": [1, "x", {"b": None}], "c": 1.5}}, id="anything"),
    ],
)
def test_parameters_for_a_driver_come_through_unchanged(opaque: dict[str, object]) -> None:
    """Nobody but the driver knows what they mean, so an allocation repeats them to the letter."""
    data = {"devices": {"config": [{"source": "FromClass", "requests": ["r"], "opaque": opaque}]}}
    assert msgspec.json.decode(encode(decode(AllocationResult, msgspec.json.encode(data)))) == data


def test_an_allocation_is_written_with_the_names_of_the_wire() -> None:
    """``shareID`` is not camel case, and what is not set is not written."""
    result = {
        "request": "r/w",
        "driver": "d",
        "pool": "p",
        "device": "x",
        "shareID": "u",
        "adminAccess": False,
        "consumedCapacity": {"m": "1Gi"},
        "tolerations": [{"operator": "Exists"}],
        "bindingConditions": ["ready"],
    }
    data = {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    assert msgspec.json.decode(encode(decode(AllocationResult, msgspec.json.encode(data)))) == data


def test_attributes_are_told_apart_by_their_types() -> None:
    """A number that is 0, a text that is empty and a truth that is false are there all the same."""
    attributes = {"a": {"int": 0}, "b": {"string": ""}, "c": {"bool": False}, "d": {"version": "1.0.0"}}
    data = {"spec": {"devices": [{"name": "x", "attributes": attributes}]}}
    (device,) = decode(ResourceSlice, msgspec.json.encode(data)).spec.devices
    assert (device.attributes["a"].int_value, device.attributes["a"].string_value) == (0, None)
    assert (device.attributes["b"].string_value, device.attributes["c"].bool_value) == ("", False)
    assert device.attributes["d"].version_value == "1.0.0"
    assert len(set(device.attributes.values())) == len(attributes)


def test_kinds_of_devices_are_served_where_kubernetes_serves_them() -> None:
    """Claims and templates belong to namespaces, classes and slices to the cluster."""
    paths = {kind.type: kind.path() for kind in BUILT_IN_KINDS if kind.group == "resource.k8s.io"}
    assert paths == {
        DeviceClass: "/apis/resource.k8s.io/v1/deviceclasses",
        ResourceSlice: "/apis/resource.k8s.io/v1/resourceslices",
        ResourceClaim: "/apis/resource.k8s.io/v1/resourceclaims",
        ResourceClaimTemplate: "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    }
