"""Whatever is written, and from wherever a watch begins: the list plus the watch is the store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from kube_testserver.store import Change, Collection, ExpiredVersionError, Record, Store

KEYS = st.tuples(st.sampled_from(["a", "a-b", "b"]), st.sampled_from(["x", "y", "z"]))
COLORS = st.sampled_from(["red", "green", "blue"])
State = dict[str, bytes]


def state_of(records: list[Record]) -> State:
    """Return the state a list shows."""
    return {record.key: record.body for record in records}


def replay(state: State, changes: list[Change]) -> State:
    """Apply changes as a client does, checking that each one makes sense after the ones before."""
    state = dict(state)
    for change in changes:
        key = change.record.key
        assert (key in state) == (change.type != "ADDED")
        if change.type == "DELETED":
            del state[key]
        else:
            state[key] = change.record.body
    return state


class Watch:
    """A client: its state, and its place in the log."""

    def __init__(self, state: State, position: int) -> None:
        self.state = state
        self.position = position


class StoreMachine(RuleBasedStateMachine):
    """Random writes, compactions, lists of the past and watches, against a plain model."""

    watches = Bundle("watches")

    @initialize()
    def begin(self) -> None:
        self.store = Store(history_limit=6)
        self.things: Collection = self.store.collection("things", lambda obj: {"color": obj["color"]})
        self.others = self.store.collection("others")
        self.model: State = {}
        self.past: dict[int, State] = {self.store.version: {}}

    def remember(self) -> None:
        self.model = state_of(self.things.page().records)
        self.past[self.store.version] = self.model

    @rule(key=KEYS, color=COLORS)
    def write(self, key: tuple[str, str], color: str) -> None:
        namespace, name = key
        obj: dict[str, Any] = {"metadata": {"name": name, "namespace": namespace}, "color": color}
        present = self.things.get(f"{namespace}/{name}")
        record = self.things.replace(present, obj) if present else self.things.insert(f"{namespace}/{name}", obj)
        assert record.fields == {"color": color}
        expected = {**self.model, record.key: record.body}
        self.remember()
        assert self.model == expected

    @rule(key=KEYS)
    def delete(self, key: tuple[str, str]) -> None:
        present = self.things.get("/".join(key))
        if present is not None:
            self.things.remove(present)
            self.remember()
            assert present.key not in self.model

    @rule()
    def write_elsewhere(self) -> None:
        self.others.insert(str(self.store.version), {"metadata": {"name": "o"}})
        self.past[self.store.version] = self.model

    @rule(back=st.integers(0, 12))
    def compact(self, back: int) -> None:
        self.store.compact(max(self.store.version - back, 1))

    @rule(back=st.integers(0, 12), limit=st.integers(1, 4), prefix=st.sampled_from(["", "a/", "b/"]))
    def list_the_past_in_pages(self, back: int, limit: int, prefix: str) -> None:
        version = max(self.store.version - back, 1)
        if version < self.things.trimmed:
            with pytest.raises(ExpiredVersionError) as refusal:
                self.things.page(version=version)
            assert refusal.value.oldest == self.things.trimmed
            return
        seen: State = {}
        start = ""
        more = True
        while more:
            page = self.things.page(prefix=prefix, start=start, limit=limit, version=version)
            seen.update(state_of(page.records))
            more = page.remaining > 0
            start = page.records[-1].key + "\0" if more else ""
        expected = {key: body for key, body in self.past[version].items() if key.startswith(prefix)}
        assert list(seen.items()) == sorted(expected.items())

    @rule(target=watches, back=st.integers(0, 12))
    def watch(self, back: int) -> Watch | None:
        version = max(self.store.version - back, 1)
        try:
            return Watch(self.past[version], self.things.position_after(version))
        except ExpiredVersionError:
            assert version < self.things.trimmed
            return None

    @rule(target=watches, watch=consumes(watches), batch=st.integers(1, 5))
    def read_on(self, watch: Watch | None, batch: int) -> Watch | None:
        """Read what is new, in batches; a client that was overtaken would list again."""
        if watch is None:
            return None
        state, position = watch.state, watch.position
        try:
            while changes := self.things.read(position, batch):
                state = replay(state, changes)
                position += len(changes)
        except ExpiredVersionError:
            return None
        assert state == self.model
        return Watch(state, position)

    @invariant()
    def store_is_consistent(self) -> None:
        self.store.check_invariants()


TestStore = StoreMachine.TestCase
