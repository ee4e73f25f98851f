"""`make soak`: run the scheduler for a long time under load, and check that its memory stays the same within ±5 %.

The scheduler keeps records of the last 50,000 pods. The check begins when this number is reached, because the memory
grows until then.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import IO, Final

import click

from benchmarks.measure import memory_of
from benchmarks.server import created_after, serving

__all__ = ["full_after", "made", "main", "soak", "verdict"]

#: Before so many seconds, not everything that is kept for a time has its size.
_FULL_SECONDS: Final = 300.0
#: So many finished stories fill the ring.
_RING: Final = 50_000
#: The scheduler has caught up if it is behind by no more than the pods of so many seconds.
_BEHIND_SECONDS: Final = 5.0
_SAMPLE_SECONDS: Final = 5.0
#: For so long, so many times as many pods come, so that the ring of finished stories is full in time.
_FILLING_SECONDS: Final = 165.0
_FILLING: Final = 3
#: The first sample is the median of so many: one sample alone may be taken within a garbage collection.
_FIRST: Final = 5
_MOST_CHANGE: Final = 0.05
#: The memory is watched for at least so long.
_LEAST_SECONDS: Final = 60.0
#: The part of the pods that fit on a node.
_FITTING: Final = 0.95


def soak(minutes: float, *, nodes: int, per_second: int, life_seconds: float) -> list[tuple[float, float, float]]:
    """Return samples: seconds since the start, resident MiB of the scheduler, and bindings so far."""
    samples: list[tuple[float, float, float]] = []
    with serving(nodes=nodes) as server:
        command = (sys.executable, "-m", "pyscheduler", "run", "--master", server.url, "--health-port", "0")
        with subprocess.Popen([*command, "--kube-api-qps", "-1"], stderr=subprocess.PIPE, text=True) as scheduler:
            lines: list[str] = []
            drain = threading.Thread(target=_read, args=(scheduler.stderr, lines), daemon=True)
            drain.start()
            server(
                "come_and_go",
                per_second=per_second,
                life_seconds=life_seconds,
                filling=_FILLING,
                filling_seconds=_FILLING_SECONDS,
            )
            begun = time.monotonic()
            while (now := time.monotonic() - begun) < minutes * 60:
                if scheduler.poll() is not None:
                    raise click.ClickException(f"pyscheduler run ended with code {scheduler.returncode}: {lines[-1:]}")
                samples.append((now, memory_of(scheduler.pid)["resident_mib"], float(server("bound"))))
                time.sleep(_SAMPLE_SECONDS)
            scheduler.terminate()
            drain.join()
    return samples


def _read(stream: IO[str] | None, lines: list[str]) -> None:
    assert stream is not None
    for line in stream:
        lines[:] = [line.strip()]


def made(seconds: float, per_second: int) -> float:
    """Return how many pods have come after a time."""
    return created_after(seconds, per_second=per_second, filling=_FILLING, filling_seconds=_FILLING_SECONDS)


def full_after(samples: list[tuple[float, float, float]], per_second: int) -> float | None:
    """Return the seconds after which the memory counts; None if everything was full at no sample."""
    for seconds, _, bound in samples:
        if seconds < _FULL_SECONDS:
            continue
        behind = made(seconds, per_second) * _FITTING - bound
        if bound >= _RING and behind <= _BEHIND_SECONDS * per_second:
            return seconds
    return None


def verdict(samples: list[tuple[float, float, float]], per_second: int) -> list[str]:
    """Return what is wrong with the samples: memory that leaves its bounds, or pods that were not bound."""
    problems = []
    begin = full_after(samples, per_second)
    full = [memory for seconds, memory, _ in samples if begin is not None and seconds >= begin]
    if begin is None or len(full) * _SAMPLE_SECONDS < _LEAST_SECONDS:
        problems.append(
            f"{len(full)} samples were taken with everything full: run for longer, or on a machine that does less else"
        )
    else:
        first = sorted(full[:_FIRST])[_FIRST // 2]
        low, high = min(full) / first - 1, max(full) / first - 1
        if low < -_MOST_CHANGE or high > _MOST_CHANGE:
            since = f"minute {begin / 60:.1f}"
            problems.append(f"memory changed by {low:+.1%} to {high:+.1%} after {since}; at most ±{_MOST_CHANGE:.0%}")
    seconds, _, bound = samples[-1]
    # A slow machine may lag by some seconds.
    wanted = made(seconds, per_second) * _FITTING * 0.9
    if bound < wanted:
        problems.append(f"{bound:.0f} pods were bound; at this rate {wanted:.0f} are the least")
    return problems


@click.command(context_settings={"max_content_width": 100})
@click.option("--minutes", default=60.0, show_default=True, help="How long to run, in minutes.")
@click.option("--nodes", default=500, show_default=True, help="Number of nodes.")
@click.option("--pods-per-second", "per_second", default=100, show_default=True, help="New pods each second.")
def main(minutes: float, nodes: int, per_second: int) -> None:
    """Run the scheduler under load and watch its memory; exit code 1 if it does not stay the same."""
    samples = soak(minutes, nodes=nodes, per_second=per_second, life_seconds=30.0)
    for seconds, memory, bound in samples[:: max(1, round(60 / _SAMPLE_SECONDS))]:
        click.echo(f"{seconds / 60:6.1f} min {memory:8.1f} MiB {bound:10.0f} bound")
    problems = verdict(samples, per_second)
    for problem in problems:
        click.echo(f"error: {problem}", err=True)
    if problems:
        raise SystemExit(1)
    begin = full_after(samples, per_second)
    assert begin is not None, "there would be a problem"
    click.echo(f"memory stayed within ±{_MOST_CHANGE:.0%} from minute {begin / 60:.1f} to {minutes:g}")


if __name__ == "__main__":
    main()
