"""Compare pyscheduler with other schedulers, one after the other, on the same real API server.

    python -m benchmarks.beside --kubeconfig FILE "kube-scheduler=/path/to/kube-scheduler --config {config}"

Each scheduler starts after its pods are created. The benchmark measures the time to the first binding, and
the time from the first to the last binding.
"""

from __future__ import annotations

import asyncio
import compileall
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
import msgspec
import numpy as np

import kube_cel
import kube_objects
import pyscheduler
from benchmarks import foreign, results
from benchmarks.foreign import ForeignCluster
from benchmarks.measure import memory_of
from benchmarks.plan import make_plan
from benchmarks.report import Sheet, titled
from benchmarks.shapes import SCHEDULER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.plan import Plan
    from pyscheduler.scheduler.ports import Transport

__all__ = [
    "CASES",
    "OURS",
    "PREFIX",
    "THEIRS",
    "BindingCount",
    "Program",
    "compare",
    "main",
    "pairs",
    "row_name",
    "sheet",
]

#: The cases by their number of nodes.
CASES: Final = (
    ("SchedulingBasic", 5000),
    ("SchedulingNodeAffinity", 1000),
    ("SchedulingPodAffinity", 1000),
    ("SchedulingPodAntiAffinity", 1000),
    ("TopologySpreading", 1000),
)
OURS: Final = "pyscheduler"
#: How the names of the rows begin.
PREFIX: Final = "beside/"
#: What the page compares us with.
THEIRS: Final = "kube-scheduler"
#: By heading of the page, the figure and its form.
_CELLS: Final = {
    "pods/s": ("pods_per_second", "{:,.0f}"),
    "peak memory, MiB": ("peak_mib", "{:,.0f}"),
}
_OUR_COMMAND: Final = f"{shlex.quote(sys.executable)} -m pyscheduler run --config {{config}}"
_CONFIG: Final = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: %s, qps: 100000, burst: 100000}}
leaderElection: {{leaderElect: false}}
profiles: [{{schedulerName: {SCHEDULER}}}]
"""
#: How long a round may take, in seconds.
_ROUND_SECONDS: Final = 600.0
_BOUND: Final = {"watch": "true", "fieldSelector": f"spec.nodeName!=,spec.schedulerName={SCHEDULER}"}
#: How each event of a pod that came to match begins, after a line's end or at the beginning.
_ADDED: Final = b'{"type":"ADDED"'
_VERSION: Final = re.compile(rb'"resourceVersion":"(\d+)"')


@attrs.frozen
class Program:
    """A scheduler's program: its name, and its command line with `{config}` for the configuration file."""

    name: str
    command: str

    @classmethod
    def read(cls, text: str) -> Program:
        """Read `NAME=COMMAND`; a `BadParameter` if it is something else."""
        name, equals, command = text.partition("=")
        if not equals or not name or "{config}" not in command:
            raise click.BadParameter(f"{text!r} is not NAME=COMMAND with {{config}} in it")
        return cls(name, command)

    def start(self, config: Path, log: Path) -> subprocess.Popen[bytes]:
        """Start it; what it prints goes into `log`."""
        with log.open("wb") as output:
            command = shlex.split(self.command.replace("{config}", shlex.quote(str(config))))
            return subprocess.Popen(command, stdout=output, stderr=output)


def row_name(case: str, nodes: int, program: str) -> str:
    """Return the name of a row."""
    return f"{PREFIX}{case}-{nodes}/{program}"


def pairs(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return by case and nodes our figures and kube-scheduler's, of the cases that have both."""
    found = {
        f"{case}, {nodes:,} nodes": (rows.get(row_name(case, nodes, OURS)), rows.get(row_name(case, nodes, THEIRS)))
        for case, nodes in CASES
    }
    return {title: (ours, theirs) for title, (ours, theirs) in found.items() if ours and theirs}


def sheet(rows: Mapping[str, Mapping[str, Any]]) -> Sheet:
    """Return the table of both programs; each cell has our figure, then kube-scheduler's."""
    headings = ["pyscheduler / kube-scheduler", *_CELLS]
    lines = [
        [
            titled(title, ours),
            *(f"{form.format(ours[key])} / {form.format(theirs[key])}" for key, form in _CELLS.values()),
        ]
        for title, (ours, theirs) in pairs(rows).items()
    ]
    return Sheet(headings=headings, rows=lines)


class BindingCount:
    """When each measured pod was seen bound."""

    def __init__(self, transport: Transport, namespace: str, version: str) -> None:
        self.moments: list[float] = []
        self._transport = transport
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._query = {**_BOUND, "resourceVersion": version}

    async def until(self, count: int) -> None:
        """Watch until so many are; an API server ends the watch of a client that reads too slowly."""
        while len(self.moments) < count:
            begun = self._query["resourceVersion"]
            await self._watch(count)
            if self._query["resourceVersion"] == begun:
                raise click.ClickException(f"the watch ended after {len(self.moments):,} of {count:,} bindings")

    async def _watch(self, count: int) -> None:
        """Count whole events until there are so many or the watch ends."""
        left = b""
        async with self._transport.stream(self._path, query=self._query, timeout_seconds=30) as stream:
            async for chunk in stream:
                events, newline, left = (left + chunk).rpartition(b"\n")
                self.moments += [time.perf_counter()] * events.count(_ADDED)
                for version in _VERSION.findall(events[events.rfind(newline) + 1 :]):
                    self._query["resourceVersion"] = version.decode()
                if len(self.moments) >= count:
                    return


@attrs.define
class _Rounds:
    """The results of the rounds of a program; seconds, and MiB."""

    pods: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    first_binds: list[float] = attrs.Factory(list)
    peaks: list[float] = attrs.Factory(list)

    def figures(self) -> dict[str, Any]:
        """Return the row."""
        return {
            "pods": self.pods,
            "rounds": len(self.peaks),
            "pods_per_second": self.pods / self.seconds,
            "cpu_with_list_per_1000": self.cpu_seconds / self.pods * 1000,
            "first_bind_seconds": float(np.median(self.first_binds)),
            "peak_mib": max(self.peaks),
        }


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _round(world: ForeignCluster, plan: Plan, program: Program, config: Path, rounds: _Rounds) -> None:
    log = config.with_suffix(".log")
    await world.fill()
    transport = await world.transport()
    listed = await transport.request("GET", "/api/v1/namespaces/default/pods", query={"limit": "1"})
    version = msgspec.json.decode(listed.body)["metadata"]["resourceVersion"]
    count = BindingCount(transport, f"bench-{plan.measured_namespace}", version)
    begun = time.perf_counter()
    process = program.start(config, log)
    watching = asyncio.create_task(count.until(plan.measured_count))
    try:
        while not watching.done():
            await asyncio.wait([watching], timeout=1)
            if process.poll() is not None or time.perf_counter() - begun > _ROUND_SECONDS:
                said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise click.ClickException(
                    f"{program.name} bound {len(count.moments):,} of {plan.measured_count:,} pods; it said:\n{said}"
                )
        await watching
        rounds.cpu_seconds += _cpu_seconds(process.pid)
        rounds.peaks.append(memory_of(process.pid)["peak_mib"])
    finally:
        watching.cancel()
        process.terminate()
        process.wait()
        await transport.close()
    rounds.pods += plan.measured_count
    rounds.seconds += count.moments[-1] - count.moments[0]
    rounds.first_binds.append(count.moments[0] - begun)
    await world.clear()


async def compare(
    case: str, nodes: int, programs: Sequence[Program], kubeconfig: str, turns: int
) -> dict[str, dict[str, Any]]:
    """Return the rows of a case: each program in turn, `turns` times, on a cluster that has no nodes of its own."""
    plan = make_plan(case, nodes, distinct=False)
    found = {program.name: _Rounds() for program in programs}
    world = await ForeignCluster.open(plan, kubeconfig, shared=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "scheduler.yaml"
            config.write_text(_CONFIG % kubeconfig, encoding="utf-8")
            for _ in range(turns):
                for program in programs:
                    await _round(world, plan, program, config, found[program.name])
    finally:
        await world.close()
    return {row_name(case, nodes, name): rounds.figures() for name, rounds in found.items()}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("others", nargs=-1, required=True, metavar="NAME=COMMAND...")
@click.option("--kubeconfig", required=True, type=click.Path(exists=True, path_type=Path), help="The API server.")
@click.option("--turns", type=click.IntRange(1), default=2, show_default=True, help="Rounds of each program in a case.")
@click.option("--case", "wanted", multiple=True, metavar="NAME", help="Only these cases; repeatable.")
@click.option("--save", type=click.Path(path_type=Path), help="Put the results into that file, beside those of others.")
def main(others: tuple[str, ...], kubeconfig: Path, turns: int, wanted: tuple[str, ...], save: Path | None) -> None:
    """Measure pyscheduler and other programs in turns on an API server that has no nodes of its own.

    COMMAND has {config} where the configuration file is to be.
    """
    programs = [Program(OURS, _OUR_COMMAND), *map(Program.read, others)]
    for package in (pyscheduler, kube_objects, kube_cel):
        # A program that compiles its modules at each start, in an environment that keeps no bytecode, would be slower.
        compileall.compile_dir(package.__path__[0], quiet=1)
    place = str(kubeconfig.resolve())
    asyncio.run(foreign.check(place, shared=False))
    command = "python -m benchmarks.beside --kubeconfig FILE " + " ".join(f"{one.name}=COMMAND" for one in programs[1:])
    for case, nodes in CASES:
        if wanted and case not in wanted:
            continue
        for name, figures in asyncio.run(compare(case, nodes, programs, place, turns)).items():
            click.echo(f"{name}: {', '.join(f'{key} {value:,.2f}' for key, value in figures.items())}")
            if save is not None:
                results.save(save, {name: figures}, command=command)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.beside")
