"""The local copy by itself: what a list leaves over, and order of versions."""

from __future__ import annotations

from typing import Any

import pytest

from kube_objects.meta import is_older
from pyscheduler.api import Malformed, Pod
from pyscheduler.cluster.real.local_copy import LocalCopy, UnannouncedError
from pyscheduler.testing.builders import make_pod


@pytest.fixture
def pods(warnings: Any) -> LocalCopy[Pod]:
    """Make an empty copy."""
    return LocalCopy("pods", warnings)


def keys(copy: LocalCopy[Pod]) -> list[str]:
    """Return the names in it."""
    return sorted(pod.name for pod in copy)


@pytest.mark.parametrize(
    ("one", "other", "older"),
    [
        pytest.param("9", "10", True, id="numbers-not-texts"),
        pytest.param("10", "9", False, id="newer"),
        pytest.param("7", "7", False, id="equal"),
        pytest.param("", "7", False, id="none"),
        pytest.param("7", "", False, id="than-none"),
        pytest.param("a", "b", False, id="opaque"),
        pytest.param("-1", "1", False, id="sign"),
    ],
)
def test_versions_are_compared_only_where_both_are_numbers(one: str, other: str, older: bool) -> None:
    """What is not known to be older is not older."""
    assert is_older(one, other) is older


def test_objects_missing_in_a_list_are_deleted_one_by_one(pods: LocalCopy[Pod]) -> None:
    """The caller may pause between any two; what could not be read stays."""
    for name in ("a", "b", "c", "d"):
        pods.put(make_pod(name))
    steps = pods.finish_list({"default/a"}, {"default/b"})
    next(steps)
    assert len(pods) == 3
    assert list(steps) == [None]
    assert keys(pods) == ["a", "b"]


def test_prime_ends_the_cleaning_up_after_a_list(pods: LocalCopy[Pod]) -> None:
    """What was primed is newer than the list, also where the list did not know it."""
    for name in ("a", "b", "c"):
        pods.put(make_pod(name))
    steps = pods.finish_list(set(), set())
    next(steps)
    pods.prime([make_pod("b"), make_pod("c"), make_pod("d")], watched=True)
    assert list(steps) == []
    assert keys(pods) == ["b", "c", "d"]


def test_change_of_what_is_not_there(pods: LocalCopy[Pod]) -> None:
    """Only an addition, or an object that could not be read so far, may come out of nothing."""
    with pytest.raises(UnannouncedError, match="default/a was MODIFIED"):
        pods.apply("MODIFIED", make_pod("a"))
    with pytest.raises(UnannouncedError, match="default/a was DELETED"):
        pods.apply("DELETED", make_pod("a"))
    pods.apply_unreadable("ADDED", Malformed("default", "a", "5", "why"))
    pods.apply("MODIFIED", make_pod("a"))
    assert keys(pods) == ["a"]
    with pytest.raises(UnannouncedError):
        pods.apply("MODIFIED", make_pod("b"))


def test_known_state_is_kept_where_nothing_changed(pods: LocalCopy[Pod]) -> None:
    """The same version again is not taken over: others hold the object that is there."""
    first = make_pod("a")
    pods.put(first)
    pods.put(make_pod("a"))
    assert pods.get("default/a") is first


def test_old_news_about_the_predecessor_of_a_namesake(pods: LocalCopy[Pod]) -> None:
    """A copy that is ahead is not thrown back, by changes or by deletions."""
    pods.prime([make_pod("a", uid="new", resource_version="9")], watched=True)
    pods.apply("MODIFIED", make_pod("a", uid="old", resource_version="7"))
    pods.apply("DELETED", make_pod("a", uid="old", resource_version="8"))
    found = pods.get("default/a")
    assert found is not None
    assert found.uid == "new"
