"""Stand-ins: a pod that uses what is not implemented yet waits, and the message says for which plugin."""

from __future__ import annotations

import msgspec
import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import Code, CycleState, ScorePlugin
from pyscheduler.plugins import missing

CLAIM = ["NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"]
STAND_INS = [
    missing.GangScheduling,
    missing.NodeVolumeLimits,
    missing.VolumeBinding,
    missing.VolumeRestrictions,
    missing.VolumeZone,
]


def pod_of(spec: dict[str, object], **metadata: object) -> Pod:
    """Make a pod from a spec as in a manifest."""
    return msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "uid": "u", **metadata}, "spec": spec}, Pod)


def volume(**source: object) -> dict[str, object]:
    """Make a spec with one volume."""
    return {"volumes": [{"name": "v", **source}]}


USED = [
    pytest.param(volume(persistentVolumeClaim={"claimName": "c"}), CLAIM, id="claim"),
    pytest.param(volume(ephemeral={}), ["NodeVolumeLimits", "VolumeBinding"], id="generic ephemeral"),
    pytest.param(volume(gcePersistentDisk={"pdName": "d"}), ["NodeVolumeLimits", "VolumeRestrictions"], id="gce"),
    pytest.param(volume(awsElasticBlockStore={"volumeID": "d"}), ["NodeVolumeLimits", "VolumeRestrictions"], id="aws"),
    pytest.param(volume(rbd={"image": "i"}), ["VolumeRestrictions"], id="rbd"),
    pytest.param(volume(iscsi={"iqn": "i", "lun": 0}), ["VolumeRestrictions"], id="iscsi"),
    pytest.param(volume(azureDisk={"diskName": "d"}), ["NodeVolumeLimits"], id="azure disk"),
    pytest.param(volume(azureFile={"shareName": "s"}), ["NodeVolumeLimits"], id="azure file"),
    pytest.param(volume(cinder={"volumeID": "d"}), ["NodeVolumeLimits"], id="cinder"),
    pytest.param(volume(portworxVolume={"volumeID": "d"}), ["NodeVolumeLimits"], id="portworx"),
    pytest.param(volume(vsphereVolume={"volumePath": "d"}), ["NodeVolumeLimits"], id="vsphere"),
    pytest.param({"schedulingGroup": {"podGroupName": "g"}}, ["GangScheduling"], id="scheduling group"),
]
UNUSED = [
    pytest.param({}, id="nothing"),
    pytest.param(volume(configMap={"name": "c"}), id="config map"),
    pytest.param(volume(emptyDir={}), id="empty directory"),
    pytest.param(volume(csi={"driver": "secrets-store.csi.k8s.io"}), id="inline CSI concerns no plugin"),
    pytest.param({"affinity": {"nodeAffinity": {}}}, id="node affinity"),
]


@pytest.mark.parametrize(("spec", "plugins"), USED)
def test_a_pod_that_uses_a_field_is_rejected_by_its_plugins(spec: dict[str, object], plugins: list[str]) -> None:
    """The plugins that would decide reject, name themselves and cannot be helped by preemption; the others skip."""
    pod = pod_of(spec)
    statuses = {kind.name: kind().pre_filter(CycleState(), pod, []) for kind in STAND_INS}
    rejected = {name: status for name, status in statuses.items() if not status.is_skip}
    assert sorted(rejected) == plugins
    assert sorted(plugin for _, plugin in missing.unsupported_fields(pod)) == plugins
    for name, status in rejected.items():
        assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert f"plugin {name} would decide; it is not implemented yet" in status.message


@pytest.mark.parametrize("spec", UNUSED)
def test_other_pods_are_skipped(spec: dict[str, object]) -> None:
    """A pod that uses none of the fields is left to the plugins that exist."""
    pod = pod_of(spec)
    assert missing.unsupported_fields(pod) == []
    assert all(kind().pre_filter(CycleState(), pod, []).is_skip for kind in STAND_INS)


def test_the_message_names_every_field() -> None:
    """A pod that uses two fields of one plugin reads of both."""
    spec = {"volumes": [{"name": "a", "azureDisk": {"diskName": "d"}}, {"name": "b", "azureFile": {"shareName": "s"}}]}
    status = missing.NodeVolumeLimits().pre_filter(CycleState(), pod_of(spec), [])
    assert status.message == (
        "pod uses spec.volumes[].azureDisk and spec.volumes[].azureFile, "
        "which plugin NodeVolumeLimits would decide; it is not implemented yet"
    )


@pytest.mark.parametrize("kind", STAND_INS)
def test_nothing_that_happens_helps(kind: type[missing.VolumeZone]) -> None:
    """A rejected pod is not tried again at every event, only when the queue is flushed."""
    assert list(kind().events_to_register()) == []


@pytest.mark.parametrize(("spec", "plugins"), USED)
def test_without_pre_filter_the_nodes_are_refused(spec: dict[str, object], plugins: list[str]) -> None:
    """A profile may disable PreFilter of a stand-in; the pod waits all the same."""
    for kind in STAND_INS:
        statuses = kind().filter_nodes(CycleState(), pod_of(spec), [None, None])
        assert (statuses is not None) is (kind.name in plugins)
        assert statuses is None or not statuses.passed().any()


def test_scoring_stand_ins_can_be_given_a_weight() -> None:
    """A profile that gives them a weight loads; they skip scoring, and find all nodes alike."""
    scoring = [kind for kind in STAND_INS if issubclass(kind, ScorePlugin)]
    assert {kind.name for kind in scoring} == {"VolumeBinding"}
    for kind in scoring:
        plugin = kind()
        assert plugin.pre_score(CycleState(), pod_of({}), []).is_skip
        assert plugin.score_nodes(CycleState(), pod_of({}), [None, None]).tolist() == [0, 0]
