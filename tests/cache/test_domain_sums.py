"""Counts summed up by domain: the same as added up anew, whatever changes in between."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.api import EVERYTHING, Node
from pyscheduler.cache import domain_sums
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import PodInfo
from pyscheduler.testing import make_node, make_pod

ZONES = ("a", "b", "c", None)


class History:
    """Nodes come, go and change their zone, pods come and go, and now and then somebody asks what if."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cache = Cache()
        self.snapshot = Snapshot()
        self.zones: dict[str, str | None] = {}
        self.pods: dict[str, PodInfo] = {}
        self.number = 0
        for _ in range(40):
            self.add_node()

    def add_node(self) -> None:
        self.number += 1
        name = f"n{self.number}"
        self.zones[name] = self.rng.choice(ZONES)
        self.cache.add_node(self.node(name))

    def node(self, name: str) -> Node:
        zone = self.zones[name]
        return make_node(name, labels={"zone": zone} if zone is not None else {})

    def remove_node(self) -> None:
        name = self.rng.choice([*self.zones])
        del self.zones[name]
        self.cache.remove_node(make_node(name))
        for uid, info in list(self.pods.items()):
            if info.pod.node_name == name:
                self.cache.remove_pod(self.pods.pop(uid).pod)

    def move_node(self) -> None:
        name = self.rng.choice([*self.zones])
        before = self.node(name)
        self.zones[name] = self.rng.choice(ZONES)
        self.cache.update_node(before, self.node(name))

    def add_pods(self) -> None:
        for _ in range(self.rng.choice((1, 1, 20))):
            self.number += 1
            info = PodInfo.of(make_pod(f"p{self.number}", node_name=self.rng.choice([*self.zones])))
            self.pods[info.pod.uid] = info
            self.cache.add_pod(info)

    def remove_pod(self) -> None:
        if self.pods:
            self.cache.remove_pod(self.pods.pop(self.rng.choice([*self.pods])).pod)

    def look(self) -> None:
        """Compare what is kept with what adding up gives, of all rows and of some."""
        nodes = self.snapshot.nodes
        some = nodes.take(np.arange(0, len(nodes), 2))
        for view in (nodes, some):
            counts = view.matching_pods(EVERYTHING, None)
            column = view.labels("zone")
            sums = view.domain_sums("zone", counts)
            assert sums.tolist() == [int(counts[column.ids == each].sum()) for each in range(len(column.values))]
            sums[:] = -1  # the caller's own

    def happen(self, name: str) -> None:
        if name == "what if":
            with self.snapshot.undo_at_end():
                self.snapshot.place(PodInfo.of(make_pod("guest")), self.rng.choice([*self.zones]))
                self.look()
        else:
            getattr(self, name)()
            self.cache.update_snapshot(self.snapshot)
        self.look()


EVENTS = {"add_pods": 6, "remove_pod": 3, "add_node": 1, "remove_node": 1, "move_node": 1, "what if": 2}


@pytest.mark.slow
def test_sums_are_what_adding_up_gives() -> None:
    """After every event, within a question and after it; most of the time without adding up all rows."""
    fired: Counter[str] = Counter()
    anew = domain_sums.sum_by_domain

    @settings(max_examples=30, deadline=None, derandomize=True)
    @given(st.integers(0, 2**32))
    def play(seed: int) -> None:
        history = History(seed)
        history.cache.update_snapshot(history.snapshot)
        for name in history.rng.choices([*EVENTS], [*EVENTS.values()], k=60):
            fired[name] += 1
            history.happen(name)

    def counted(*args: object) -> object:
        fired["added up anew"] += 1
        return anew(*args)  # type: ignore[arg-type]  # as it came

    domain_sums.sum_by_domain = counted  # type: ignore[assignment]  # to see how often
    try:
        play()
    finally:
        domain_sums.sum_by_domain = anew
    print(dict(sorted(fired.items())))  # noqa: T201 - how often each happened
    assert min(fired[name] for name in (*EVENTS, "added up anew")) > 50
    assert fired["added up anew"] < sum(fired[name] for name in EVENTS) / 2


def test_those_not_asked_for_longest_are_forgotten() -> None:
    """A hundred kinds of pods more than are kept cost their adding up, and nothing else."""
    snapshot, cache = Snapshot(), Cache()
    cache.add_node(make_node("n", labels={"zone": "a"}))
    cache.update_snapshot(snapshot)
    for number in range(300):
        counts = np.array([number], dtype=np.int64)
        assert snapshot.nodes.domain_sums("zone", counts).tolist() == [0, number]
