"""A plugin that never returns: another replica takes over, probes fail, and SIGTERM ends the program all the same."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kube_testserver.serving.faults import Fault
from lab.tests.conftest import hooks, install
from pyscheduler.cli.demo.audit import audit
from pyscheduler.serving import watchdog
from pyscheduler.testing import pod_manifest
from tests.integration.conftest import Served
from tests.integration.programs import free_port, nodes, program, served
from tests.integration.test_bad_input import NOBODY
from tests.integration.test_stop import until_hit
from tests.processes import PATIENCE_SECONDS

#: How long the watchdog waits here, in seconds: less than in earnest, because a plugin that computes meanwhile takes a
#: whole CPU. SIGALRM ends only those that nothing else ends, however late the watchdog's thread runs.
END_SECONDS, LAST_RESORT_SECONDS, AFTER_LOSS_SECONDS = 1, 2, 6
#: After so long without a renewal a leader loses its lease.
RENEW_SECONDS = 4

#: Blocks in the extension point and in the way that `$TRAP` names, for pods whose name begins with "trap".
PLUGIN = f"""
import ctypes, hashlib, os, re, sys, time
from pyscheduler import FilterPlugin, PostFilterPlugin, Status
from pyscheduler.serving import watchdog

watchdog._END_SECONDS = {END_SECONDS}
watchdog._LAST_RESORT_SECONDS = {LAST_RESORT_SECONDS} if "in-regex" in os.environ.get("TRAP", "") else 3600
watchdog._AFTER_LOSS_SECONDS = {AFTER_LOSS_SECONDS}
arm_for = watchdog._arm_for

def arm_and_say(seconds):
    arm_for(seconds)
    print("The timer is set", file=sys.stderr, flush=True)

watchdog._arm_for = arm_and_say

def block(way):
    print("The trap is shut", file=sys.stderr, flush=True)
    if way == "sleeping":
        time.sleep(3600)
    elif way == "in-c":  # releases the interpreter lock, and looks for no signals
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
    elif way == "with-the-lock":  # the interpreter's; no thread of Python runs
        ctypes.PyDLL(None).sleep(3600)
    elif way == "in-regex":  # keeps the lock, too, but looks for signals
        re.match("(a+)+$", "a" * 64 + "b")
    while True:
        pass

class Trap(FilterPlugin, PostFilterPlugin):
    point, _, way = os.environ.get("TRAP", "").partition("/")

    def filter(self, state, pod, node):
        if not self.point or not pod.name.startswith("trap"):
            return None
        if self.point == "filter":
            block(self.way)
        return Status.unschedulable("trap")

    def post_filter(self, state, pod, statuses):
        if self.point == "post_filter":
            block(self.way)
        return None, Status.unschedulable("trap")
"""

CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaseDuration: {RENEW_SECONDS + 1}s, renewDeadline: {RENEW_SECONDS}s, retryPeriod: 500ms}}
profiles:
- schedulerName: pyscheduler
  plugins: {{multiPoint: {{enabled: [{{name: Trap}}]}}}}
"""


@pytest.fixture
def trap(tmp_path: Path) -> dict[str, str]:
    """Install the plugin; return the environment that finds it."""
    return install(tmp_path / "site", "trap", hooks("Trap", "trap_plugin:Trap"), trap_plugin=PLUGIN)


@pytest.fixture
def run(tmp_path: Path) -> tuple[str, ...]:
    """Return the arguments of a scheduler with the plugin; its leases are short."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    return ("run", "--config", str(config), "--secure-port=0")


def livez(port: int) -> str:
    """Return what the probe answers; nothing where the program ends without an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=PATIENCE_SECONDS) as answer:
            text: str = answer.read().decode()
            return text
    except (ConnectionError, urllib.error.URLError):
        return ""


def test_the_watchdog_ends_the_program_within_kubernetes_grace_period() -> None:
    """An orderly end has ten seconds, also without a lease, and the last line one more; kubelet kills later."""
    assert watchdog._END_SECONDS > 10
    assert watchdog._END_SECONDS + watchdog._LAST_LINE_SECONDS < watchdog._LAST_RESORT_SECONDS < 30
    assert (
        watchdog._END_SECONDS + watchdog._LAST_LINE_SECONDS + watchdog._PUT_OFF_SECONDS < watchdog._AFTER_LOSS_SECONDS
    )


async def test_a_standby_takes_over_from_a_blocked_leader(
    tmp_path: Path, trap: dict[str, str], run: tuple[str, ...]
) -> None:
    """The lease is not renewed, the probe fails, the leader ends with a line that names the plugin, one other binds."""
    ways = ("sleeping", "computing", "with-the-lock")
    await asyncio.gather(*(is_taken_over_from(tmp_path, trap, run, way) for way in ways))


async def is_taken_over_from(tmp_path: Path, trap: dict[str, str], run: tuple[str, ...], way: str) -> None:
    """Block a leader in a way, on a cluster of its own, and check that another replica binds."""
    (tmp_path / way).mkdir()
    port = free_port()
    async with (
        served(tmp_path / way, nodes(1)) as api,
        program(*run, "--master", api.url, f"--health-port={port}", env={**trap, "TRAP": f"filter/{way}"}) as leader,
    ):
        await leader.said("Successfully acquired lease")
        await leader.said("The timer is set")  # within a second; only then it ends what holds the lock
        async with program(*run, "--master", api.url, env=trap) as standby:
            await standby.said("New leader elected")
            await api.create_pod("before")
            await api.until_bound(1)
            assert await asyncio.to_thread(livez, port) == "ok"
            await api.create_pod("trap")
            await leader.said("The trap is shut")
            assert await asyncio.to_thread(livez, port) == ""
            if way == "with-the-lock":  # no thread runs that could say more
                assert await leader.ended() == -signal.SIGALRM
                assert leader.count(" in block") == 1, leader.err[-5:]
            else:
                assert await leader.ended() == 1
                (told,) = [line for line in leader.err if "Exiting immediately" in line]
                assert (
                    "the lease is lost while the event loop is blocked in plugin Trap (filter) blockedSeconds=" in told
                )
                assert "the event loop has not turned for" in told
            await standby.said("Successfully acquired lease")
            await api.until_bound(2)
            assert leader.count("Released the leader lease") == 0
            standby.send(signal.SIGTERM)
            assert await standby.ended() == 0
        report = await asyncio.to_thread(audit, api.url)
        assert (report.problems, report.bound) == ([], 2)


async def ends_at_its_deadline(arguments: tuple[str, ...], trap: dict[str, str], state: str) -> None:
    """Run a scheduler that gets blocked, send SIGTERM once it is, and see how it ends."""
    line = f"Exiting immediately: the event loop is blocked in plugin Trap ({state.partition('/')[0]}) blockedSeconds="
    code = 1
    if state == "filter/in-regex":  # no thread runs that could say more
        line, code = " in block", -signal.SIGALRM
    async with program(*arguments, env={**trap, "TRAP": state}) as scheduler:
        await scheduler.said("The trap is shut")
        begun = time.monotonic()
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == code
        assert time.monotonic() - begun >= END_SECONDS
        assert scheduler.count(line) == 1, scheduler.err[-5:]


async def test_sigterm_ends_a_scheduler_that_is_blocked(
    served_cluster: Served, trap: dict[str, str], run: tuple[str, ...]
) -> None:
    """In a plugin that sleeps, computes, is in C code or in a regular expression, or preempts: the log says where."""
    served_cluster.cluster.add(*nodes(1), pod_manifest("trap"))
    alone = (*run, "--master", served_cluster.url, "--leader-elect=false")
    states = ["filter/sleeping", "filter/computing", "filter/in-c", "post_filter/computing", "filter/in-regex"]
    await asyncio.gather(*(ends_at_its_deadline(alone, trap, state) for state in states))


async def test_a_blocked_loop_is_told_of(served_cluster: Served, trap: dict[str, str], run: tuple[str, ...]) -> None:
    """After five seconds the log names plugin and functions, once; a second SIGTERM ends the program at once."""
    served_cluster.cluster.add(*nodes(1), pod_manifest("trap"))
    alone = (*run, "--master", served_cluster.url, "--leader-elect=false")
    async with program(*alone, env={**trap, "TRAP": "filter/sleeping"}) as scheduler:
        line = await scheduler.said("s in plugin Trap (filter)")
        assert 5 <= float(line.partition("The event loop has been blocked for ")[2].split()[0]) <= 6
        stack = (await scheduler.said("Where the event loop is blocked stack=")).partition("stack=")[2]
        assert stack.startswith('"block (trap_plugin.py:')
        assert "Trap.filter (trap_plugin.py:" in stack
        while scheduler.process.returncode is None:  # two that come at once are one
            scheduler.send(signal.SIGTERM)
            await asyncio.sleep(0.1)
        assert await scheduler.ended() == 1
        assert scheduler.count("Stopping at once, for a second signal") == 1
        assert scheduler.count("s in plugin Trap (filter)") == 1


async def test_sigterm_while_the_api_server_is_waited_for(served_cluster: Served) -> None:
    """Where the server refuses connections, and where it takes them and never answers: at once, with exit code 0."""
    slow = served_cluster.cluster.faults.add(Fault(path="/api/v1$", delay_seconds=60.0))
    run = ("run", "--secure-port=0", "--master")
    async with program(*run, served_cluster.url) as hanging, program(*run, NOBODY) as refused:
        await refused.said("Waiting for the API server")
        await until_hit(slow)
        for scheduler in (refused, hanging):
            scheduler.send(signal.SIGTERM)
            assert await scheduler.ended() == 0
