"""What is assumed until the API server has it, and the volumes that a claim may take."""

from __future__ import annotations

import msgspec
import pytest

from pyscheduler.api import ObjectReference, PersistentVolume
from pyscheduler.plugins.volume_binding.assume_cache import AssumeCache, OutOfSyncError
from pyscheduler.plugins.volume_binding.volume_index import VolumeGroup, VolumeIndex
from tests.plugins.storage import HOST, ZONE, StorageHandle, reachable_from, volume


def named(stored: PersistentVolume, claim: str) -> PersistentVolume:
    """Return the volume with a claim's name in it."""
    spec = msgspec.structs.replace(stored.spec, claim_ref=ObjectReference(namespace="default", name=claim))
    return msgspec.structs.replace(stored, spec=spec)


@pytest.fixture
def handle() -> StorageHandle:
    """Give a handle with one volume."""
    return StorageHandle(None, [volume()])


def test_what_changed_since_cannot_be_assumed(handle: StorageHandle) -> None:
    """Neither a newer version, nor what somebody else has assumed, nor what is gone."""
    cache = AssumeCache(handle.lister(PersistentVolume))
    stored = cache.get("v")
    cache.assume(stored, named(stored, "c"))
    with pytest.raises(OutOfSyncError, match='"v" is out of sync'):
        cache.assume(stored, named(stored, "d"))
    handle.put(volume(), version="2")
    with pytest.raises(OutOfSyncError, match=r"out of sync \(stored: 2, assume: 1\)"):
        cache.assume(stored, named(stored, "d"))
    handle.drop(volume())
    with pytest.raises(OutOfSyncError, match='"v" not found'):
        cache.assume(stored, named(stored, "d"))


def test_the_index_follows_volumes() -> None:
    """Free ones by class, promised ones by claim, the others not at all."""
    handle = StorageHandle(None, [volume("a"), volume("b", phase="Released"), volume("c", promised_to="x")])
    index = VolumeIndex(handle.lister(PersistentVolume))

    def on(group: VolumeGroup) -> list[str]:
        return [item.name for items in group.reached({}) for item in items]

    def seen() -> tuple[list[str], list[str], list[str]]:
        promised = [item.name for item in index.promised("default/x")]
        return on(index.free("slow")), on(index.free("fast")), promised

    assert seen() == (["a"], [], ["c"])
    handle.put(volume("a", promised_to="x"), version="2")
    handle.put(volume("b", of="fast"), version="2")
    handle.drop(volume("c"))
    assert seen() == ([], ["b"], ["a"])
    handle.drop(volume("a"))
    handle.drop(volume("b"))
    assert seen() == ([], [], [])
    assert not index._groups
    assert not index._promised


def test_a_group_sorts_volumes_and_finds_them_by_the_nodes_that_reach_them() -> None:
    """The smallest first, then by name; what is taken away leaves nothing behind."""
    either = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}
    complex_place = {"required": {"nodeSelectorTerms": [either, either]}}
    places = [None, reachable_from(HOST, "n1"), {"required": {"nodeSelectorTerms": [either]}}, complex_place]
    manifests = [
        volume(f"v{number}-{size}", size=f"{size}Gi", at=place)
        for number, place in enumerate(places)
        for size in (3, 1, 2)
    ]
    handle = StorageHandle(None, manifests)
    index = VolumeIndex(handle.lister(PersistentVolume))
    found = [[item.name for item in items] for items in index.free("slow").reached({HOST: "n1", ZONE: "b"})]
    assert found == [[f"v{number}-{size}" for size in (1, 2, 3)] for number in range(4)]
    assert [len(items) for items in index.free("slow").reached({HOST: "n2", ZONE: "c"})] == [3]
    assert set(index.free("slow").labels) == {HOST, ZONE}
    for manifest in manifests:
        handle.drop(manifest)
    assert index.free("slow").is_empty
    assert not index._groups
