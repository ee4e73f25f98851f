"""Claims: which ones a pod has, and the classes of claims and volumes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_objects import PersistentVolume, PersistentVolumeClaim, Pod, decode
from kube_objects.claims import claim_class, claims_of, ownership_error, uses_storage, volume_class

BETA = "volume.beta.kubernetes.io/storage-class"


def claim_of_class(name: str | None, annotations: dict[str, str]) -> PersistentVolumeClaim:
    """Make a claim."""
    spec = {} if name is None else {"storageClassName": name}
    return decode(
        PersistentVolumeClaim,
        msgspec.json.encode({"metadata": {"name": "c", "annotations": annotations}, "spec": spec}),
    )


@pytest.mark.parametrize(
    ("name", "annotations", "expected"),
    [
        pytest.param("slow", {}, "slow", id="field"),
        pytest.param("slow", {BETA: "fast"}, "fast", id="the annotation comes first"),
        pytest.param("slow", {BETA: ""}, "", id="even an empty one"),
        pytest.param("", {}, "", id="no class"),
        pytest.param(None, {}, "", id="the default class, where nobody has filled it in"),
    ],
)
def test_classes(name: str | None, annotations: dict[str, str], expected: str) -> None:
    """Of claims and of volumes."""
    assert claim_class(claim_of_class(name, annotations)) == expected
    body = {"metadata": {"name": "v", "annotations": annotations}, "spec": {"storageClassName": name or ""}}
    assert volume_class(decode(PersistentVolume, msgspec.json.encode(body))) == expected


def pod_with(*volumes: dict[str, Any]) -> Pod:
    """Make a pod."""
    body = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"volumes": list(volumes)}}
    return decode(Pod, msgspec.json.encode(body))


def test_claims_in_the_order_of_volumes() -> None:
    """Named ones, and those made for the pod, which are named after pod and volume."""
    pod = pod_with(
        {"name": "scratch", "ephemeral": {}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "d"}},
    )
    assert list(claims_of(pod)) == [("p-scratch", True), ("d", False)]


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        pytest.param({"emptyDir": {}}, False, id="nothing kept"),
        pytest.param({"projected": {"sources": []}}, False, id="a token"),
        pytest.param({"csi": {"driver": "d"}}, False, id="inline CSI"),
        pytest.param({"persistentVolumeClaim": {"claimName": "c"}}, True, id="claim"),
        pytest.param({"ephemeral": {}}, True, id="ephemeral"),
        pytest.param({"iscsi": {"iqn": "q"}}, True, id="a disk that one pod may use"),
        pytest.param({"azureFile": {"shareName": "s"}}, True, id="a disk from before CSI"),
    ],
)
def test_pods_that_use_storage(source: dict[str, Any], uses: bool) -> None:
    """Those at whose volumes some plugin has to look, beside others."""
    assert uses_storage(pod_with({"name": "token", "projected": {}}, {"name": "v", **source})) is uses


@pytest.mark.parametrize(
    ("namespace", "owner", "is_owned"),
    [
        pytest.param("ns", {"uid": "u", "controller": True}, True, id="the pod"),
        pytest.param("ns", {"uid": "v", "controller": True}, False, id="a pod of that name that was there before"),
        pytest.param("ns", {"uid": "u"}, False, id="an owner that does not control"),
        pytest.param("other", {"uid": "u", "controller": True}, False, id="another namespace"),
    ],
)
def test_the_claim_of_an_ephemeral_volume_is_owned(namespace: str, owner: dict[str, Any], is_owned: bool) -> None:
    """By the pod that it was made for, and nobody else."""
    metadata = {"name": "p-s", "namespace": namespace, "ownerReferences": [{"kind": "Pod", "name": "p", **owner}]}
    claim = decode(PersistentVolumeClaim, msgspec.json.encode({"metadata": metadata}))
    error = ownership_error(pod_with(), claim)
    assert error == (None if is_owned else f"PVC {namespace}/p-s was not created for pod ns/p (pod is not owner)")
