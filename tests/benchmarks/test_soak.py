"""The verdict of the soak: memory after minute five, and pods that were bound at both rates."""

from __future__ import annotations

from benchmarks.soak import made, verdict

#: The ring of finished stories.
RING = 50_000


def samples(memory: float, *, share: float = 0.95, minutes: float = 10.0) -> list[tuple[float, float, float]]:
    """Return samples of a run at 100 pods a second; `memory` is the last one, and 100 MiB all before."""
    times = [each * 5.0 for each in range(int(minutes * 12))]
    found = [(seconds, 100.0, made(seconds, 100) * share) for seconds in times]
    return [*found[:-1], (found[-1][0], memory, found[-1][2])]


def test_ring_is_full_before_the_memory_is_watched() -> None:
    """The pods that have come half a minute before minute five fill it, also those that fit no node."""
    assert made(270, 100) >= RING
    assert made(165, 100) == 49_500
    assert made(265, 100) - made(165, 100) == 100 * 100


def test_memory_and_bindings_are_judged() -> None:
    """Memory may change by a twentieth; nine of ten pods that fit must be bound."""
    assert verdict(samples(104.9), 100) == []
    (grown,) = verdict(samples(106.0), 100)
    assert grown == "memory changed by +0.0% to +6.0% after minute 5; at most ±5%"
    (late,) = verdict(samples(100.0, share=0.8), 100)
    assert "pods were bound; at this rate" in late
    (short,) = verdict(samples(100.0, minutes=5.0), 100)
    assert "run for at least six minutes" in short
