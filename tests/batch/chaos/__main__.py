"""Run many random clusters with troubles, in this process, and print how often each rule and each trouble occurred.

``PYTHONHASHSEED=0 python -m tests.batch.chaos --preset kai --seeds 100``. Exits with 1 if a rule is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections import Counter

from tests.batch.chaos.troubled_cluster import SETUPS, TroubledCluster


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _main(preset: str, seeds: range) -> int:
    troubles: Counter[str] = Counter()
    judged: Counter[int] = Counter()
    undecided: Counter[int] = Counter()
    broken: Counter[int] = Counter()
    began, refused = time.process_time(), 0
    for seed in seeds:
        troubled = TroubledCluster(preset, seed)
        outcome = await troubled.run()
        await troubled.cluster.close()
        for each in outcome.verdict.violations:
            _say(f"seed {seed}: {each}")
        for each, count in outcome.warnings.items():
            troubles[f"warning: {each}"] += count
        troubles += outcome.troubles
        judged += outcome.verdict.judged
        undecided += outcome.verdict.undecided
        broken += outcome.verdict.rules
        refused += outcome.refused
    _say(f"{preset}: {len(seeds)} runs in {time.process_time() - began:.0f} s of CPU; {refused} pods refused by nodes")
    for what, count in sorted(troubles.items()):
        _say(f"  {count:6} {what}")
    for rule in range(1, 10):
        _say(f"  rule {rule}: {judged[rule]} judged, {undecided[rule]} undecided, {broken[rule]} violations")
    return int(broken.total() > 0 or refused > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.batch.chaos", description=__doc__)
    parser.add_argument("--preset", choices=[*SETUPS], default="kai")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    sys.exit(asyncio.run(_main(args.preset, range(args.first, args.first + args.seeds))))
