"""Keys for the queue, from either form of QueueSort, and from plugins that fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyscheduler.framework import Plugin, QueuedPodInfo, QueueSortPlugin
from pyscheduler.queue.heap import PodHeap


class ByName(QueueSortPlugin):
    """Fails for a pod called `bad`."""

    def sort_key(self, info: QueuedPodInfo) -> tuple[object, ...]:
        if info.pod.name.startswith("bad"):
            raise ValueError("no key")
        return (info.pod.name,)


class Less(QueueSortPlugin):
    """Orders by name too, in the other form."""

    def less(self, first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
        if "bad" in {first.pod.name, second.pod.name}:
            raise ValueError("cannot tell")
        return first.pod.name < second.pod.name


class Both(ByName):
    """Defines both forms; the key is cheaper."""

    def less(self, first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
        raise AssertionError("asked though there is a key")


def order(kit: Any, plugin: type[Plugin], *pods: QueuedPodInfo) -> list[str]:
    """Sort pods by their keys."""
    profile = kit.profile(plugin)
    assert profile.queue_sort_name == plugin.name
    return [info.pod.name for info in sorted(pods, key=profile.sort_key)]


@pytest.mark.parametrize("plugin", [ByName, Less, Both])
def test_either_form_orders(kit: Any, plugin: type[Plugin]) -> None:
    """`sort_key` and `less` give the same order; with both, the key is used."""
    assert order(kit, plugin, *(kit.queued(name) for name in "cab")) == ["a", "b", "c"]
    assert not kit.recorder.warnings


def test_a_pod_whose_key_fails_comes_last(kit: Any) -> None:
    """The pod stays in the queue, behind those with a key; such pods go by priority, then by their coming."""
    pods = [
        kit.queued("bad-2", enqueued_at=2.0),
        kit.queued("z"),
        kit.queued("bad-1", enqueued_at=1.0),
        kit.queued("a"),
        kit.queued("bad-9", enqueued_at=9.0, priority=5),
    ]
    assert order(kit, ByName, *pods) == ["a", "z", "bad-9", "bad-1", "bad-2"]
    assert kit.recorder.warnings == {"plugin_error": 3}


@pytest.mark.parametrize(
    ("keys", "expected", "said"),
    [
        pytest.param(
            [("b",), (None,), ("a",)], "2 0 1", "NoneType at [0], where others have str", id="none among texts"
        ),
        pytest.param([(1, "x"), (2.5, "y"), (1, 7)], "0 1 2", "Real at [1], where others have str", id="behind equals"),
        pytest.param([(1, (2, "x")), (1, (2, 3))], "0 1", "Real at [1][1], where others have str", id="nested"),
        pytest.param([(1,), (2, "x"), (2, None)], "0 1 2", "NoneType at [1], where others have str", id="longer"),
        pytest.param([({},), (1,)], "1 0", "dict at [0] has no order", id="what has no order"),
        pytest.param([(3,), (2.5,), (np.int64(1),), (True, "x")], "2 3 1 0", None, id="numbers of all kinds"),
        pytest.param([(None, 2), (None, 1)], "1 0", None, id="always none"),
    ],
)
def test_keys_that_cannot_be_compared_stop_nobody(
    kit: Any, keys: list[tuple[Any, ...]], expected: str, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The pod whose key is unlike those before comes last, and the log says in what; all others keep their order."""
    profile = kit.profile(type("Odd", (QueueSortPlugin,), {"sort_key": lambda _, info: keys[int(info.pod.name)]}))
    heap = PodHeap(profile.sort_key)
    for number in range(len(keys)):
        heap.put(kit.queued(str(number), enqueued_at=float(number)))
    popped = [info.pod.name for info in iter(heap.pop, None)]
    assert popped == expected.split()
    assert kit.recorder.warnings == ({"plugin_error": 1} if said else {})
    assert (said or "") in caplog.text


@pytest.mark.parametrize("plugin", [ByName, Less])
def test_a_pods_key_is_the_same_when_it_is_made_again(kit: Any, plugin: type[Plugin]) -> None:
    """So a queue of such pods passes its own check, which the end of each test on a fake cluster makes."""
    heap = PodHeap(kit.profile(plugin).sort_key)
    for name in ("bad-1", "a", "bad-2"):
        heap.put(kit.queued(name))
    heap.check_invariants()


def test_a_comparison_that_fails_goes_by_priority(kit: Any) -> None:
    """When `less` raises, priority and then arrival decide."""
    pods = [kit.queued("bad", enqueued_at=2.0), kit.queued("a", enqueued_at=3.0), kit.queued("b", priority=1)]
    assert order(kit, Less, pods[0], pods[1]) == ["bad", "a"]
    kit.registry.__init__()
    assert order(kit, Less, pods[0], pods[2]) == ["b", "bad"]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param({"sort_key": lambda *_: 3}, "a tuple", id="a key that is no tuple"),
        pytest.param({"less": lambda *_: None}, "a bool", id="a comparison that is no bool"),
    ],
)
def test_answers_of_the_wrong_type_are_reported(
    kit: Any, members: dict[str, object], expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong answers are logged and counted, and the queue goes on."""
    plugin = type("Odd", (QueueSortPlugin,), members)
    pods = [kit.queued("late", enqueued_at=2.0), kit.queued("early", enqueued_at=1.0)]
    assert order(kit, plugin, *pods) == ["early", "late"]
    assert f"expected {expected}" in caplog.text
