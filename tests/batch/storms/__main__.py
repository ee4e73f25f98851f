"""`python -m tests.batch.storms`: let random clusters come to rest, and judge their evictions.

`--workloads N` (default 1,000) runs so many random workloads, under the presets of `--preset` (default all) in turn;
`--first SEED` begins elsewhere. It prints how often each thing happened. It returns 1 if evictions did not end, if a
pod was evicted twice although nothing had changed outside, or if a protected pod was evicted.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import attrs

from tests.batch.storms.rivals import PRESETS, RULES, storm

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOGETHER = 10


@attrs.frozen
class _Report:
    """The results of some workloads of a preset."""

    preset: str
    counts: Counter[str]
    judged: Counter[int]
    problems: list[str]


def _report(preset: str, seeds: Sequence[int]) -> _Report:
    """Run some workloads."""
    counts: Counter[str] = Counter()
    judged: Counter[int] = Counter()
    problems = []
    for seed in seeds:
        outcome = asyncio.run(storm(preset, seed))
        counts += outcome.counts
        counts["workload"] += 1
        counts["workload with an eviction"] += any(what.startswith("eviction") for what in outcome.counts)
        judged += Counter({rule: outcome.verdict.judged[rule] for rule in RULES})
        problems += [f"{preset}, seed {seed}: {problem}" for problem in outcome.problems]
    return _Report(preset, counts, judged, problems)


def main() -> int:
    """Run, print, and return 1 where a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.batch.storms")
    parser.add_argument("--workloads", type=int, default=1000, help="number of random workloads")
    parser.add_argument("--first", type=int, default=0, help="seed of the first workload")
    parser.add_argument("--preset", choices=PRESETS, action="append", help="only this preset; repeatable")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    presets = options.preset or PRESETS
    end = options.first + options.workloads
    width = _TOGETHER * len(presets)
    pairs = [
        (preset, range(at + turn, min(at + width, end), len(presets)))
        for at in range(options.first, end, width)
        for turn, preset in enumerate(presets)
    ]
    counts: dict[str, Counter[str]] = {preset: Counter() for preset in presets}
    judged: Counter[int] = Counter()
    problems = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for report in pool.map(_report, *zip(*pairs, strict=True)):
            counts[report.preset] += report.counts
            judged += report.judged
            problems += len(report.problems)
            for problem in report.problems:
                print(problem, flush=True)
    for preset, found in counts.items():
        print(f"{preset}:")
        for what, count in sorted(found.items()):
            print(f"  {what}: {count:,}")
    print("judged: " + ", ".join(f"rule {rule} {count:,} times" for rule, count in sorted(judged.items())))
    print(f"violations: {problems:,}")
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
