"""The store: versions, order, pages of the past, and a log that forgets."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.store import Collection, ExpiredVersionError, StaleRecordError, Store


def thing(name: str, namespace: str = "ns", **content: Any) -> dict[str, Any]:
    """Return an object to be stored."""
    return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": "0"}, **content}


@pytest.fixture
def store() -> Store:
    """Return a store with a short memory."""
    return Store(history_limit=8)


@pytest.fixture
def things(store: Store) -> Collection:
    """Return a collection whose objects have a color."""
    return store.collection("things", lambda obj: {"color": obj.get("color", "")})


def test_stored_objects_cannot_be_changed_from_outside(things: Collection) -> None:
    """Neither the object given nor the object read is the one that is stored."""
    given = thing("a", labels={"x": "1"})
    record = things.insert("ns/a", given)
    given["labels"]["x"] = "changed"
    record.decode()["labels"]["x"] = "changed"
    found = things.get("ns/a")
    assert found is not None
    assert found.decode()["labels"] == {"x": "1"}


def test_labels_and_fields_are_kept_beside_the_bytes(things: Collection) -> None:
    """A record knows what selectors ask for without being decoded."""
    obj = thing("a", color="red")
    obj["metadata"]["labels"] = {"app": "t"}
    record = things.insert("ns/a", obj)
    assert (record.labels, record.fields) == ({"app": "t"}, {"color": "red"})


def test_a_stale_write_is_refused_and_names_the_present(things: Collection) -> None:
    """A write derived from a record that is not the present one changes nothing."""
    first = things.insert("ns/a", thing("a"))
    present = things.replace(first, thing("a", color="red"))
    for write in (
        lambda: things.insert("ns/a", thing("a")),
        lambda: things.replace(first, thing("a", color="blue")),
        lambda: things.remove(first),
    ):
        with pytest.raises(StaleRecordError) as refusal:
            write()
        assert refusal.value.current is present
    things.remove(present)
    with pytest.raises(StaleRecordError) as refusal:
        things.remove(present)
    assert refusal.value.current is None


def test_a_limit_counts_only_what_matches(things: Collection) -> None:
    """Filtered objects take no place in a page."""
    for name in "abcdef":
        things.insert(f"ns/{name}", thing(name, color="red" if name in "bdf" else ""))
    page = things.page(limit=2, matches=lambda record: record.fields["color"] == "red")
    assert [record.name for record in page.records] == ["b", "d"]
    assert page.remaining == 1


def test_the_log_forgets_in_slices_and_says_how_far_it_reaches(store: Store, things: Collection) -> None:
    """Beyond its limit the log drops the oldest changes; versions before them are gone."""
    record = things.insert("ns/a", thing("a"))
    for number in range(20):
        record = things.replace(record, thing("a", color=str(number)))
    assert things.trimmed > 1
    with pytest.raises(ExpiredVersionError) as refusal:
        things.page(version=2)
    assert refusal.value.oldest == things.trimmed
    with pytest.raises(ExpiredVersionError):
        things.position_after(things.trimmed - 1)
    position = things.position_after(things.trimmed)
    assert things.read(position, 1)[0].version == things.trimmed + 1
    store.check_invariants()


def test_compaction_forgets_up_to_a_version(store: Store, things: Collection) -> None:
    """After a compaction only later versions can be asked for, as with etcd."""
    first = things.insert("ns/a", thing("a"))
    second = things.insert("ns/b", thing("b"))
    position = things.position_after(1)
    store.compact(first.version)
    with pytest.raises(ExpiredVersionError):
        things.read(position, 10)
    assert [change.record for change in things.read(things.position_after(first.version), 10)] == [second]
    store.compact()
    assert things.read(things.position_after(store.version), 10) == []


def test_a_deletion_shows_the_last_state_under_its_own_version(things: Collection) -> None:
    """The record of a deletion carries the deletion's version, and the change the record before."""
    record = things.insert("ns/a", thing("a", color="red"))
    gone = things.remove(record)
    change = things.read(things.position_after(record.version), 1)[0]
    assert (change.type, change.record, change.old) == ("DELETED", gone, record)
    assert gone.decode()["metadata"]["resourceVersion"] == str(gone.version) == "3"
    assert gone.decode()["color"] == "red"


def test_listeners_hear_of_every_write_until_they_stop(things: Collection) -> None:
    """A listener is called once per write, and no more after it was taken off."""
    heard: list[int] = []
    stop = things.listen(lambda: heard.append(len(things)))
    record = things.insert("ns/a", thing("a"))
    things.remove(record)
    stop()
    stop()
    things.insert("ns/b", thing("b"))
    assert heard == [1, 0]


def test_a_draft_is_not_stored(store: Store, things: Collection) -> None:
    """A draft looks like a record, but neither counts a version nor is heard of."""
    draft = things.draft("ns/a", thing("a"))
    assert (draft.name, store.version, len(things)) == ("a", 1, 0)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda things: things._keys.reverse(), id="keys out of order"),
        pytest.param(lambda things: things._records.popitem(), id="record missing"),
        pytest.param(lambda things: things._log.pop(), id="change missing"),
        pytest.param(lambda things: things._log.reverse(), id="log out of order"),
        pytest.param(lambda things: next(iter(things._records.values())).labels.update(x="y"), id="labels changed"),
    ],
)
def test_invariants_find_damage(store: Store, damage: Any) -> None:
    """Whatever does not fit together is found."""
    things = store.collection("things")
    for name in "abc":
        things.insert(f"ns/{name}", thing(name))
    store.check_invariants()
    damage(things)
    with pytest.raises((AssertionError, KeyError)):
        store.check_invariants()
