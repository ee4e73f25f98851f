"""Random clusters of rival jobs over HTTP: two replicas, of which the leader is killed, and faults of all kinds.

``python -m tests.integration.chaos_batch --preset kai --runs 100`` prints how often each rule and each trouble
occurred, and exits with 1 if a rule is broken. A run takes some seconds of real time. Leases and grace periods are
short, so that most evictions are judged before it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import msgspec

from kube_objects.clock import LoopClock
from kube_testserver.serving.router import UnansweredError
from pyscheduler_lab.audit import Verdict, check
from tests.batch.chaos.mortal_scheduler import WRITES
from tests.batch.chaos.troubled_cluster import QUEUES, SETUPS, TroubledCluster
from tests.integration.chaos import Books, until
from tests.integration.conftest import Served
from tests.integration.programs import Api
from tests.integration.test_chaos_kills import kept_running

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kube_testserver.requests import Request
    from pyscheduler_lab.audit import Change

__all__ = ["LEADERS", "Trap", "run"]

LEADERS = "leaderElection: {leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 300ms}\n"
#: For so long there are troubles; then the cluster rests until nothing was written for a while, or for so long.
TROUBLED_SECONDS = 5.0
QUIET_SECONDS = 5.0
REST_SECONDS = 40.0
#: `QUIET_SECONDS` if evictions were refused: the scheduler tries them again after ten seconds.
REFUSED_QUIET_SECONDS = 13.0
#: What a leader did not write while the cluster was quiet, it does not write so much later.
SURE_SECONDS = 25.0
#: How often the leader is killed.
KILLS = (1, 1, 2)


class Trap:
    """Kills the sender of a write of a kind, before or after the server carries it out."""

    def __init__(self, troubled: TroubledCluster) -> None:
        self.kind = ""
        self.is_lost = False
        self.caught: Counter[str] = Counter()
        self.replicas: list[Any] = []
        self._troubled = troubled
        router = troubled.cluster.server.router
        self._handle = router.handle
        router.handle = self._note  # type: ignore[method-assign]  # the server's own ear

    async def _note(self, request: Request) -> Any:
        method, path = WRITES.get(self.kind, ("", "^$"))
        is_write = request.method != "GET" and method in {"", request.method}
        if not is_write or not re.search(path, request.path):
            return await self._handle(request)
        for replica in self.replicas:
            if replica.url.endswith(request.host) and replica.is_alive:
                replica.strike(signal.SIGKILL)
                self.caught[self.kind] += 1
                self.kind = ""
                self._troubled.note_crash()
        if self.is_lost:
            raise UnansweredError
        return await self._handle(request)


class HurriedCluster(TroubledCluster):
    """A cluster whose pods end soon, and whose broken gangs are evicted soon."""

    stops: ClassVar[tuple[float, ...]] = (0.0, 0.2, 1.0)
    refusals: ClassVar[tuple[float, ...]] = (0.5, 1.0, 2.5, 5.0)
    grace = 1
    group_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {"kai": {"stalenessGracePeriod": "5s"}}

    def random_trouble(self) -> None:
        """Let something happen from outside, perhaps."""
        self._trouble()

    def arm(self) -> None:
        """Let some requests go wrong."""
        self._arm()

    def calm(self) -> None:
        """End all faults; create the queues that are missing."""
        self._calm()


@attrs.frozen
class Run:
    """What a run came to: the verdict on the changes, how often each trouble happened, and how many pods were bound."""

    verdict: Verdict
    changes: Sequence[Change]
    troubles: Counter[str]
    bound: int
    refused: int
    twice: int


async def run(preset: str, seed: int, folder: Path) -> Run:
    """Live through some seconds of troubles, rest, and judge the log of the API server."""
    troubled = HurriedCluster(preset, seed, LoopClock())
    cluster, rng = troubled.cluster.server, troubled.rng
    options = attrs.evolve(
        troubled.setup.options, lease_seconds=20.0, burst_seconds=20.0, status_seconds=20.0, reason_seconds=20.0
    )
    server = cluster.server()
    await server.start()
    config = folder / f"{preset}-{seed}.yaml"
    config.write_text(troubled.setup.config.replace("profiles:", f"{LEADERS}profiles:", 1), encoding="utf-8")
    books, trap = Books(cluster), Trap(troubled)
    async with kept_running(Served(cluster, Api(server.url)), config) as replicas:
        trap.replicas = replicas.replicas
        await until(lambda: books.lease)
        # The first jobs borrow, and those of other queues reclaim.
        first = rng.choice(QUEUES)
        for _ in range(5):
            troubled.add_job(first)
        begun = time.monotonic()
        await until(lambda: books.made or time.monotonic() > begun + REST_SECONDS)
        troubled.arm()
        for _ in range(rng.randint(5, 8)):
            troubled.add_job()
        end = time.monotonic() + TROUBLED_SECONDS
        kills = sorted(end - rng.uniform(0.5, TROUBLED_SECONDS) for _ in range(rng.choice(KILLS)))
        while time.monotonic() < end:
            await asyncio.sleep(0.1)
            troubled.end_refusals()
            troubled.recreate()
            if rng.random() < 0.25:
                troubled.random_trouble()
            if kills and time.monotonic() >= kills[0]:
                del kills[0]
                trap.is_lost, trap.kind = rng.random() < 0.5, rng.choice([*WRITES])
        trap.kind = ""
        troubled.calm()
        has_refused = any(count and what.startswith("evict: 403") for what, count in troubled.troubles.items())
        await _rest(troubled, books, REFUSED_QUIET_SECONDS if has_refused else QUIET_SECONDS)
    await server.stop()
    history = troubled.log.history()
    history.end += SURE_SECONDS
    verdict = check(history, options)
    troubled.lifecycle.stop()
    troubled.log.stop()
    troubles = troubled.troubles + Counter({f"killed at: {kind}": count for kind, count in trap.caught.items()})
    twice = sum(count > 1 for count in books.made.values())
    await troubled.cluster.close()
    return Run(verdict, history.changes, troubles, len(books.made), troubled.lifecycle.rejections, twice)


async def _rest(troubled: TroubledCluster, books: Books, quiet: float) -> None:
    """Wait until no pod, group or queue changed for a while, under one leader."""
    end, since = time.monotonic() + REST_SECONDS, time.monotonic()
    seen: tuple[int, str, bool] | None = None
    while (now := time.monotonic()) < end and now < since + quiet:
        await asyncio.sleep(0.1)
        troubled.recreate()
        count = sum(change.kind != "Event" for change in troubled.log.history().changes)
        is_led = books.lease[-1].at > now - 1.0
        state = (count, books.lease[-1].holder, is_led)
        if state != seen or not is_led:
            seen, since = state, time.monotonic()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _main(preset: str, seeds: range, dump: Path | None) -> int:
    troubles: Counter[str] = Counter()
    judged: Counter[int] = Counter()
    undecided: Counter[int] = Counter()
    broken: Counter[int] = Counter()
    began, bound, bad = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            found = await run(preset, seed, Path(folder))
            for each in found.verdict.violations:
                _say(f"seed {seed}: {each}")
            if dump and found.verdict.violations:
                lines = [msgspec.json.encode([each.at, each.type, each.obj]) for each in found.changes]
                (dump / f"{preset}-{seed}.jsonl").write_bytes(b"\n".join(lines))
            if found.refused or found.twice:
                _say(f"seed {seed}: {found.refused} pods refused by nodes, {found.twice} bound twice")
            troubles += found.troubles
            judged += found.verdict.judged
            undecided += found.verdict.undecided
            broken += found.verdict.rules
            bound += found.bound
            bad += found.refused + found.twice
    _say(f"{preset}: {len(seeds)} runs in {time.monotonic() - began:.0f} s; {bound} pods bound")
    for what, count in sorted(troubles.items()):
        _say(f"  {count:6} {what}")
    for rule in range(1, 10):
        _say(f"  rule {rule}: {judged[rule]} judged, {undecided[rule]} undecided, {broken[rule]} violations")
    return int(broken.total() + bad > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.integration.chaos_batch", description=__doc__)
    parser.add_argument("--preset", choices=[*SETUPS], default="kai")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--dump", type=Path, help="folder for the logs of runs that break a rule")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if args.dump:
        args.dump.mkdir(parents=True, exist_ok=True)
    sys.exit(asyncio.run(_main(args.preset, range(args.first, args.first + args.runs), args.dump)))
