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

from tests.batch.chaos.troubled_cluster import KINDS, TroubledCluster


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
            print(f"seed {seed}: {each}", flush=True)
        for each, count in outcome.warnings.items():
            troubles[f"warning: {each}"] += count
        troubles += outcome.troubles
        judged += outcome.verdict.judged
        undecided += outcome.verdict.undecided
        broken += outcome.verdict.rules
        refused += outcome.refused
    print(f"{preset}: {len(seeds)} runs in {time.process_time() - began:.0f} s of CPU; {refused} pods refused by nodes")
    for what, count in sorted(troubles.items()):
        print(f"  {count:6} {what}")
    for rule in range(1, 10):
        print(f"  rule {rule}: {judged[rule]} judged, {undecided[rule]} undecided, {broken[rule]} violations")
    return int(broken.total() > 0 or refused > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.batch.chaos", description=__doc__)
    parser.add_argument("--preset", choices=[*KINDS], default="kai")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    sys.exit(asyncio.run(_main(args.preset, range(args.first, args.first + args.seeds))))
