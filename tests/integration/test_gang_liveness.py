"""Whoever could be bound is bound, within windows and backoffs: not first when the queue is flushed after five minutes.

Each history is random, and its own little arithmetic of cores and members says at every moment which groups, and which
plain pods, have room for all that they miss. Whoever has that for `PATIENCE_SECONDS` on end and still pends has been
forgotten by somebody. `HYPOTHESIS_PROFILE=search` looks at many more histories.
"""

from __future__ import annotations

import logging
import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import settings

from pyscheduler_gang.plugin import Gang
from tests.integration.group_history import EVENTS, GROUPS, OPENINGS, GroupHistory, Way
from tests.integration.groups_checker import Counting

#: A window (20 s), the longest backoff (10 s), a reservation that is given back late, and some more.
PATIENCE_SECONDS: Final = 45.0
_PAUSES: Final = (None, 0, 0, 0.3, 0.6, 1, 3, 12, 40, 70, 120)
_STEPS: Final = 24
#: Victims take so long to end, in seconds.
_GRACE_SECONDS: Final = 1.5


class Eager(GroupHistory):
    """A world in which nobody is kept waiting for longer than need be. `counts` says how often somebody could go."""

    def __init__(self, way: Way, number: int) -> None:
        self._since: dict[object, float] = {}
        self._refused = 0
        super().__init__(way, number)

    # --- what happens besides

    def urgent_pods(self) -> None:
        """Create pods that may preempt others: plain ones, or members of a group."""
        self._pods(self.rng.choice(("", *GROUPS)), self.rng.randrange(1, 4), priority=100)

    def whole_group(self) -> None:
        """Create as many members as a group needs."""
        group = self.rng.choice(GROUPS)
        self._pods(group, max(self.minimum.get(group, 2), 1))

    def make_room(self) -> bool:
        """Let some bound pods go."""
        bound = [pod for pod in self._living() if pod["spec"].get("nodeName")]
        for pod in bound[: self.rng.randrange(1, 4)]:
            self.cluster.delete_pod(pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
        return bool(bound)

    def larger_node(self) -> None:
        """Add a node for several pods."""
        self._node(self.rng.randrange(3, 8))

    async def advance(self, seconds: float) -> None:
        """Let time pass, and pods end that were told to go."""
        left = seconds
        while left > 0:
            await super().advance(min(left, _GRACE_SECONDS))
            left -= _GRACE_SECONDS
            for pod in self.server.pods():
                if pod["metadata"].get("deletionTimestamp"):
                    self.counts["victims"] += 1
                    self.cluster.delete_pod(pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
        await super().advance(0)

    # --- judging

    def judge(self) -> None:
        """Look at what there is, and who has waited for too long."""
        super().judge()
        now = self.cluster.clock.now()
        if self.checker.counts["bind failures"] != self._refused:
            # That puts its group into a window, as often as it happens.
            self._refused = self.checker.counts["bind failures"]
            self._since.clear()
        could = dict(self._could_go())
        self._since = {each: self._since.get(each, now) for each in could}
        for each, since in self._since.items():
            self.counts["could go"] += since == now
            assert now - since <= PATIENCE_SECONDS, f"{each} could go since {since:.1f}: {could[each]}"

    def _could_go(self) -> Iterator[tuple[object, str]]:
        """Iterate over groups and plain pods that have room for all that they miss, each with what that is.

        A group counts as another one as soon as others of it pend: it has got further, or begins anew.
        """
        scheduler = self.framework.scheduler
        pods = {pod["metadata"]["uid"]: pod for pod in self._living()}
        placed = {attempt.pod.uid: attempt.node_name for attempt in scheduler._bindings.values()}
        placed |= {uid: node for uid, pod in pods.items() if (node := pod["spec"].get("nodeName"))}
        taken = Counter(placed.values())
        open_nodes = [node for node in self.server.nodes() if not node["spec"].get("unschedulable")]
        cores = {node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"]) for node in open_nodes}
        room = sum(max(count - taken[name], 0) for name, count in cores.items())
        nominated = {uid for uid in pods.keys() - placed.keys() if scheduler.queue.nominator.node_of(uid)}
        groups: dict[str, set[str]] = {group: set() for group in GROUPS}
        for uid, pod in pods.items():
            group = self._named_by(pod)
            if group in groups:
                groups[group].add(uid)
            elif uid not in placed and room > len(nominated - {uid}):
                yield uid, "a plain pod"
        for group, members in groups.items():
            ready = {uid for uid in members - placed.keys() if not pods[uid]["spec"].get("schedulingGates")}
            missing = self._missing(group, members, ready, placed)
            if missing is not None and room - len(nominated - members) >= missing:
                yield (
                    (group, frozenset(ready)),
                    f"{missing} of {len(ready)} pending, for {room} cores",
                )

    def _named_by(self, pod: dict[str, Any]) -> str:
        metadata = pod["metadata"]
        name = (metadata.get("labels") or {}).get(self.way.counting.label)
        return f"{metadata['namespace']}/{name}" if name else ""

    def _missing(self, group: str, members: set[str], ready: set[str], placed: dict[str, str]) -> int | None:
        """Return how many cores it takes for some of a group to be bound; None where that is not what it lacks."""
        if not ready or not self.checker.declared(group):
            return None
        if self.way.counting is Counting.GANG:
            return self._gang_missing(group, ready)
        missing = max(self.checker.minimum(group) - len(members & placed.keys()), 1)
        return missing if len(ready) >= missing else None

    def _gang_missing(self, gang: str, ready: set[str]) -> int | None:
        plugin = self.framework.plugin("Gang")
        assert isinstance(plugin, Gang)
        record = plugin.gangs.named(gang)
        if record is None or len(record.state.group.gang_group) > 1 or not ready - record.timed_out:
            return None
        if plugin.gangs.is_satisfied_for_good(record):
            return 1
        state, policy = record.state, str(plugin.gangs.policy(record))
        bound = 0 if policy == "only-waiting" else len(state.bound)
        missing = max(state.group.min - bound - len(state.waiting), 1)
        return missing if len(ready - record.timed_out) >= missing and not plugin.gangs.is_short(record) else None


_MORE: Final = ("urgent_pods", "whole_group", "make_room", "larger_node")
#: The definition of the objects comes and goes elsewhere: it takes the informer a while to see that it is back.
_NAMES: Final = (
    *sorted(EVENTS.keys() - {"delete_or_create_definition"}),
    *_MORE,
    *_MORE,
    "relabel_pod",
    "change_minimum",
)

#: Each with the seeds of its histories; three of them (99, 173, 180) are such that found somebody asleep.
WAYS = [
    pytest.param(Way(config="coscheduling.yaml", counting=Counting.SIGS), (1, 2, 3, 99), id="coscheduling"),
    pytest.param(Way(config="coscheduling-ming.yaml", counting=Counting.MING), (1, 2, 9), id="ming"),
    pytest.param(Way(config="gang.yaml", counting=Counting.GANG), (1, 2, 173, 180), id="gang"),
]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log nothing: what goes wrong here goes wrong on purpose."""
    for name in _MORE:
        monkeypatch.setitem(EVENTS, name, getattr(Eager, name))
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _play(way: Way, seed: int) -> Counter[str]:
    """Play one history, and let two minutes pass after it."""
    rng = random.Random(seed)
    world = Eager(way, seed)
    opening = rng.choice(sorted(OPENINGS))
    told = [opening]
    try:
        world.happen(opening, seed, 0)
        for _ in range(rng.randrange(2, _STEPS)):
            name, number, pause = rng.choice(_NAMES), rng.randrange(2**16), rng.choice(_PAUSES)
            told.append(f"{name} ({number}, {pause})")
            world.happen(name, number, pause)
        world.happen("nothing", 0, 120)
    except AssertionError as error:
        error.add_note(f"seed {seed}: {'; '.join(told)}")
        raise
    finally:
        world.checker.close()
        world.runner.run(world.cluster.close())
        world.runner.close()
    return world.counts


@pytest.mark.parametrize(("way", "seeds"), WAYS)
def test_nobody_sleeps_who_could_be_bound(way: Way, seeds: tuple[int, ...]) -> None:
    """Groups and nodes come, go and change, pods preempt each other: who has room for all it misses is bound soon."""
    if not settings.default.derandomize:
        start = random.randrange(2**31)
        seeds = tuple(range(start, start + 300))
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += _play(way, seed)
    sys.stdout.write(f"{dict(sorted(counts.items()))}\n")
    for name in ("could go", "victims"):
        assert counts[name], f"never happened: {name}"
