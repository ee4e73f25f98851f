"""Caches that weigh what they keep."""

from __future__ import annotations

import pytest

from kube_objects.caching import MAX_WEIGHT, bounded_cache


@pytest.fixture
def calls() -> list[str]:
    """Give a list for what was worked out."""
    return []


def test_what_was_worked_out_is_returned_again(calls: list[str]) -> None:
    """Equal arguments get the same object."""

    @bounded_cache(8)
    def work_out(text: str) -> list[str]:
        calls.append(text)
        return [text]

    assert work_out("a") is work_out("a")
    assert calls == ["a"]


def test_heavy_arguments_are_forgotten(calls: list[str]) -> None:
    """Where arguments weigh too much together, all are forgotten, long before there are too many of them."""

    @bounded_cache(1 << 14)
    def work_out(text: str) -> list[str]:
        calls.append(text[:1])
        return [text]

    half = MAX_WEIGHT // 2 - 100
    for letter in "abc":
        work_out(letter * half)
    work_out("c" * half)
    work_out("a" * half)
    assert calls == ["a", "b", "c", "a"]


def test_light_arguments_are_forgotten_by_number(calls: list[str]) -> None:
    """The one not asked for longest goes, as with `lru_cache`."""

    @bounded_cache(2)
    def work_out(text: str) -> list[str]:
        calls.append(text)
        return [text]

    for letter in "abca":
        work_out(letter)
    assert calls == ["a", "b", "c", "a"]


def test_errors_are_not_kept(calls: list[str]) -> None:
    """A function that raises is asked again."""

    @bounded_cache(2)
    def work_out(text: str) -> list[str]:
        calls.append(text)
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            work_out("a")
    assert calls == ["a", "a"]
