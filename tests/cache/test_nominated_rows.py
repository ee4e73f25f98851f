"""Who is nominated where, by row and priority: kept as it changes, and the same as looked up anew."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.api import Pod
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.nominated_rows import before
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import NominatingInfo, PodInfo
from pyscheduler.queue.nominator import Nominator
from pyscheduler.runtime.preemption.node_shapes import request_key
from pyscheduler.runtime.preemption.nominated_usage import NominatedUsages
from pyscheduler.testing import make_node, make_pod

NODES = tuple(f"n{number}" for number in range(5))
PODS = tuple(
    PodInfo.of(make_pod(f"p{number}", priority=number % 3, requests={"cpu": f"{100 * (number % 2)}m"}))
    for number in range(8)
)


class History:
    """Nodes come and go, and pods are nominated to them, to others, and to nobody."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nominator = Nominator()
        self.cache = Cache()
        self.snapshot = Snapshot(nominator=self.nominator)
        self.usages = NominatedUsages()
        self.present: set[str] = set()
        for name in NODES[:3]:
            self.toggle(name)

    def toggle(self, name: str) -> None:
        """Add the node, or remove it."""
        if name in self.present:
            self.cache.remove_node(make_node(name))
        else:
            self.cache.add_node(make_node(name))
        self.present ^= {name}

    def happen(self) -> str:
        """Let one thing happen, and say which."""
        what = self.rng.choice(["nominate", "nominate", "nominate", "drop", "node", "trial", "nothing"])
        info = self.rng.choice(PODS)
        if what == "nominate":
            self.nominator.add(info, NominatingInfo(self.rng.choice(NODES)))
        elif what == "drop":
            self.nominator.delete(info.pod)
        elif what == "node":
            self.toggle(self.rng.choice(NODES))
        self.cache.update_snapshot(self.snapshot)
        if what == "trial" and self.present:
            self.try_out(3)
        return what

    def try_out(self, depth: int) -> None:
        """Place and nominate pods in nested statements, while the queue's nominations change, and roll back."""
        with self.snapshot.undo_at_end():
            for info in self.rng.sample(PODS, 2):
                name = self.rng.choice(sorted(self.present))
                if self.rng.random() < 0.5 and self.nobody_is(info):
                    self.snapshot.place(info, name)
                else:
                    self.snapshot.nominate(info, self.rng.choice((name, "")))
                self.nominator.add(self.rng.choice(PODS), NominatingInfo(self.rng.choice(NODES)))
                self.look()
            if depth:
                self.try_out(depth - 1)
                self.look()

    def nobody_is(self, info: PodInfo) -> bool:
        """Return True if the pod is on no node."""
        return all(info.pod.uid != each.pod.uid for node in self.snapshot.nodes for each in node.pods)

    def nominated_before(self, pod: Pod) -> dict[int, list[PodInfo]]:
        """Return the pods that `pod` has to leave room for, by row, from a look at all nominations."""
        snapshot = self.snapshot
        rows = {name: row for name in snapshot.nominated_nodes if (row := snapshot.nodes.index(name)) is not None}
        return {row: ahead for name, row in rows.items() if (ahead := before(snapshot.nominated_pods(name), pod))}

    def look(self) -> str:
        """Compare what is kept with what a look at all nominations gives, for some pod; say what that came to."""
        info = self.rng.choice(PODS)
        pod, nodes = info.pod, self.snapshot.nodes
        afresh = self.nominated_before(pod)
        kept = self.snapshot.nominated_before(pod.priority)
        self.snapshot.check_invariants()
        found = self.usages.before(kept, len(nodes), pod)
        assert found.is_current
        for row in range(len(nodes)):
            keys = [(each.pod.uid, request_key(each)) for each in afresh.get(row, ())]
            assert found.pods_of(row) == tuple(keys)
        if kept.row_of(pod.uid) is not None:
            return "the pod itself is nominated"
        return "somebody is nominated" if kept.pods else "nobody is nominated"


@pytest.mark.slow
def test_what_is_kept_is_what_a_look_at_all_gives() -> None:
    """For pods of every priority, whatever happens to nominations, nodes and statements in between."""
    fired: Counter[str] = Counter()

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(st.integers(0, 2**32))
    def play(seed: int) -> None:
        history = History(seed)
        for _ in range(60):
            fired[history.happen()] += 1
            fired[history.look()] += 1

    play()
    print(dict(sorted(fired.items())))  # noqa: T201 - how often each happened
    assert len(fired) == 8
    assert min(fired.values()) > 50


def test_what_was_promised_is_not_current_once_somebody_else_is_nominated() -> None:
    """A search that let the loop turn looks again; one during which nothing happened goes on."""
    history = History(0)
    history.cache.update_snapshot(history.snapshot)
    kept = history.snapshot.nominated_before(0)
    found = history.usages.before(kept, 3, PODS[0].pod)
    assert found.is_current
    history.nominator.add(PODS[1], NominatingInfo("n0"))
    assert not found.is_current
    # Somebody else has looked in between: it still is not.
    assert history.snapshot.nominated_before(0) is kept
    assert not found.is_current
