"""Rows that changed since a moment, whether it is long ago or not."""

from __future__ import annotations

import random

import pytest

from pyscheduler.cache.changes import ChangeLog


@pytest.mark.parametrize("seed", range(3))
def test_changes_since_any_moment_are_those_that_happened(seed: int) -> None:
    """However far back the moment lies, each row is named once, as one with another node where it has one."""
    rng = random.Random(seed)
    log = ChangeLog(20)
    history: list[tuple[bool, int]] = []
    for _ in range(500):
        is_node, row = rng.random() < 0.2, rng.randrange(20)
        (log.note_node if is_node else log.note_pods)(row)
        history.append((is_node, row))
        moment = rng.choice((0, len(history) - 1, rng.randrange(len(history))))
        changes = log.since(moment)
        nodes = {row for is_node, row in history[moment:] if is_node}
        assert changes.nodes.tolist() == sorted(nodes)
        assert changes.pods.tolist() == sorted({row for _, row in history[moment:]} - nodes)
        assert sorted(changes.rows.tolist()) == sorted({row for _, row in history[moment:]})
        again = log.since(moment)
        assert (again.nodes.tolist(), again.pods.tolist()) == (changes.nodes.tolist(), changes.pods.tolist())
        log.check_invariants()
    assert log.position == len(history)
    assert log.node_version == sum(is_node for is_node, _ in history)


def test_rows_that_move_begin_an_epoch() -> None:
    """Who kept something by row learns that rows mean other nodes now."""
    log = ChangeLog(4)
    log.note_pods(1)
    log.begin_epoch()
    assert (log.epoch, log.node_version, log.position) == (1, 1, 1)
