"""In which order equally important pods are spared: as kube-scheduler's sort leaves them."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.framework import PodInfo, PreemptionRules
from pyscheduler.runtime.preemption.victim_order import by_importance, places_of
from pyscheduler.testing import make_pod


def order(pods: str) -> list[int]:
    """Return the places of pods: capitals have a higher priority, letters say when they were started, z is not yet."""
    keys = [(-each.isupper(), math.inf if each in "zZ" else float(ord(each.lower()))) for each in pods]
    return [*places_of(keys, [each in "zZ" for each in pods])]


@pytest.mark.parametrize(
    ("pods", "places"),
    [
        pytest.param("aAbB", [1, 3, 0, 2], id="priority before start"),
        pytest.param("aaaa", [0, 1, 2, 3], id="started together"),
        pytest.param("zzzz", [3, 2, 1, 0], id="not started"),
        pytest.param("zbzaZz", [4, 3, 1, 5, 2, 0], id="those that were started come first"),
        pytest.param("z" * 12, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0], id="as many as are sorted by insertion"),
        pytest.param("z" * 13, [11, 10, 9, 8, 7, 0, 5, 4, 3, 2, 1, 12, 6], id="one more"),
        pytest.param(
            "z" * 20, [6, 0, 4, 16, 12, 3, 17, 1, 9, 15, 14, 7, 5, 13, 8, 18, 2, 11, 19, 10], id="twenty, as a heap"
        ),
        pytest.param("a" * 20, [*range(20)], id="twenty started together"),
        pytest.param(
            "onmlkjihgfedcbaa", [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0], id="in the opposite order"
        ),
        pytest.param("aazbCbBbzbzzzcab", [6, 4, 1, 14, 0, 9, 7, 15, 5, 3, 13, 2, 11, 10, 8, 12], id="a mixture"),
        pytest.param(
            "aZZazzzazaazaazZazazzzzazczbza",
            [
                *(2, 1, 15, 7, 16, 23, 3, 13, 18, 9),
                *(10, 0, 12, 29, 27, 25, 24, 5, 22, 6, 14, 8, 17, 4, 11, 26, 28, 19, 20, 21),
            ],
            id="equals set apart",
        ),
    ],
)
def test_equals_end_up_where_gos_sort_puts_them(pods: str, places: list[int]) -> None:
    """Recorded from Go 1.26, with the clock read for each comparison."""
    assert order(pods) == places


def test_of_two_pods_that_were_not_started_the_later_one_on_the_node_is_spared() -> None:
    """Whatever `now` is, also where a pod was started at that very moment."""
    now = 1767225600.0
    started = PodInfo.of(make_pod("started", status={"startTime": "2026-01-01T00:00:00Z"}))
    first, second = (PodInfo.of(make_pod(name)) for name in ("first", "second"))
    assert by_importance([first, started, second], PreemptionRules(), now) == [started, second, first]


def test_whatever_is_sorted_comes_out_sorted_and_whole() -> None:
    """Any number of pods, in any order to begin with; those that were not started are the last of their priority."""
    fired: Counter[str] = Counter()

    @settings(max_examples=max(30, settings.default.max_examples), derandomize=True, deadline=None)
    @given(
        (st.integers(0, 12) | st.integers(13, 130)).flatmap(
            lambda size: st.text("abcdABCDzZ", min_size=size, max_size=size)
        ),
        st.sampled_from(["as it is", "sorted", "reversed"]),
    )
    def sort_any(pods: str, shape: str) -> None:
        if shape != "as it is":
            pods = "".join(sorted(pods, reverse=shape == "reversed"))
        places = order(pods)
        assert sorted(places) == [*range(len(pods))]
        lined = [pods[place] for place in places]
        assert lined == sorted(pods, key=lambda each: (each.islower(), each.lower()))
        fired["few"] += len(pods) <= 12
        fired["many"] += len(pods) > 12

    sort_any()
    print(dict(fired))  # noqa: T201 - how often each case was met
    assert min(fired["few"], fired["many"]) > 5
