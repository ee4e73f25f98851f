"""The demo from outside: its verdict, and that it leaves nothing behind however it ends."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.integration.programs import FAST, Program, program
from tests.processes import PATIENCE_SECONDS

TRACE = Path(__file__).parents[2] / "lab" / "pyscheduler_lab" / "data" / "openb"
DEMO = ("demo", "--trace", str(TRACE), "--config", str(FAST))


def children(pid: int) -> list[int]:
    """Return the processes that `pid` has started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()]


def is_pyscheduler(pid: int) -> bool:
    """Tell whether that process is there still, and one of ours."""
    try:
        return b"pyscheduler" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


async def server_of(demo: Program) -> int:
    """Wait until the demo schedules over HTTP; return its server's process id."""
    await demo.said("pods over HTTP at ")
    (server,) = children(demo.process.pid)
    assert is_pyscheduler(server)
    return server


async def until_gone(pid: int) -> None:
    """Wait until a process has ended."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while is_pyscheduler(pid):  # noqa: ASYNC110 - it is another's child, for which nobody can wait
            await asyncio.sleep(0.05)


async def test_a_short_demo() -> None:
    """Pods are bound, the table and the verdict are printed, the exit code is 0, and the server is gone."""
    async with program(*DEMO, "--pods", "300") as demo:
        server = await server_of(demo)
        assert await demo.ended() == 0, demo.err
    await until_gone(server)
    assert demo.err == []
    assert (
        demo.out[-1] == "check passed: no node is overcommitted, no pod was bound twice, no pending pod fits on a node"
    )
    table = {line[:30].strip(): line[30:].strip() for line in demo.out}
    assert table["nodes"] == "1523"
    assert table["pods bound"] == "300"
    assert "pods/s bound in" in table["throughput"]
    assert int(table["throughput"].split()[0]) < 100_000, "all of it took no time"
    for row in ("time in queue", "time of an attempt"):
        assert table[row].startswith("p50 ")
    for row in ("GPU allocated", "CPU allocated", "peak memory of the scheduler"):
        assert table[row]


async def test_a_short_demo_with_gpus_one_by_one() -> None:
    """Pods share GPUs, and the checker counts each GPU; the profile is the demo's own."""
    async with program("demo", "--trace", str(TRACE), "--gpus", "each", "--pods", "200") as demo:
        assert await demo.ended() == 0, demo.err
    assert demo.out[-1].startswith("check passed: ")
    table = {line[:30].strip(): line[30:].strip() for line in demo.out}
    assert table["pods bound"] == "200"
    assert float(table["GPU allocated"].rstrip("%")) < float(table["GPUs in use"].rstrip("%"))
    async with program(*DEMO, "--gpus", "each") as demo:
        assert await demo.ended() == 2
    assert "leave out --config" in demo.err[-1]


async def test_no_server_is_left_behind() -> None:
    """Ctrl-C, SIGTERM and even SIGKILL take the server along; the first two without a traceback."""
    await asyncio.gather(*map(ends_with_its_server, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)))


async def ends_with_its_server(number: signal.Signals) -> None:
    """Send a signal to a demo while it schedules."""
    async with program(*DEMO, "--pods", "3000") as demo:
        server = await server_of(demo)
        demo.send(number)
        code = await demo.ended()
    await until_gone(server)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    assert not any("Traceback" in line for line in demo.err), demo.err
