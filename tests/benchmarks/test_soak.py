"""The verdict of the soak: memory once everything is full, and pods that were bound at both rates."""

from __future__ import annotations

from benchmarks.soak import full_after, made, verdict

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
    assert grown == "memory changed by +0.0% to +6.0% after minute 5.0; at most ±5%"
    _, late = verdict(samples(100.0, share=0.8), 100)
    assert "pods were bound; at this rate" in late
    (short,) = verdict(samples(100.0, minutes=5.5), 100)
    assert short.startswith("6 samples were taken with everything full")


def test_memory_counts_once_a_slow_scheduler_has_caught_up() -> None:
    """It is 60 seconds late until minute seven; the memory that it needs until then does not count."""
    late = [
        (
            seconds,
            100.0 if seconds >= 420 else 150.0,
            made(seconds if seconds >= 420 else max(seconds - 60, 0), 100) * 0.95,
        )
        for seconds, *_ in samples(100.0)
    ]
    assert full_after(late, 100) == 420
    assert verdict(late, 100) == []
    assert full_after(late[:80], 100) is None
    (never,) = verdict(samples(100.0, share=0.93), 100)
    assert never.startswith("0 samples")
