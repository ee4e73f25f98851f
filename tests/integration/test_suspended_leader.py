"""A leader that is suspended beyond its lease and continues: it ends without a crash, in order where it can."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from lab.tests.conftest import hooks, install
from pyscheduler.testing import pod_manifest
from tests.integration.programs import nodes, program, served

#: Leaders that are suspended at the same moment, in each way. Each has a lease of its own.
RUNS = 2
RENEW_SECONDS = 4

#: Runs coroutines nearly all the time: their frames are freed as soon as they end.
PLUGIN = """
import os, sys
from pyscheduler import PreFilterPlugin, Status
from pyscheduler.serving import watchdog

watchdog._AFTER_LOSS_SECONDS = float(os.environ["AFTER_LOSS"])
put_off = watchdog.Watchdog._put_off

def put_off_and_say(self, now):
    put_off(self, now)
    if self._set_at == now:
        print("The timer is set", file=sys.stderr, flush=True)

watchdog.Watchdog._put_off = put_off_and_say

async def descend(depth):
    return await descend(depth - 1) if depth else 0

class Load(PreFilterPlugin):
    is_told = False

    def pre_filter(self, state, pod, nodes):
        if not self.is_told:
            self.is_told = True
            print("The load begins", file=sys.stderr, flush=True)
        for _ in range(200):
            try:
                descend(20).send(None)
            except StopIteration:
                pass
        return Status.unschedulable("load")
"""

CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaseDuration: {RENEW_SECONDS + 1}s, renewDeadline: {RENEW_SECONDS}s, retryPeriod: 500ms}}
profiles:
- schedulerName: pyscheduler
  plugins: {{multiPoint: {{enabled: [{{name: Load}}]}}}}
"""


#: How long the timer waits after a lost lease, how long a leader is suspended, and how it ends.
WAYS = [
    (300, RENEW_SECONDS + 2, 1),
    # The timer has expired meanwhile. SIGALRM ends the program.
    (6, RENEW_SECONDS + 6 + 2, -signal.SIGALRM),
]


async def test_a_suspended_leader_under_load_ends_without_a_crash(tmp_path: Path) -> None:
    """It has lost its lease and says so; after a long time the signal of its own timer ends it."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    env = install(tmp_path / "site", "load", hooks("Load", "load_plugin:Load"), load_plugin=PLUGIN)
    run = ("run", "--config", str(config), "--secure-port=0")

    async def suspended(url: str, lease: str, after_loss: float, seconds: float, code: int) -> None:
        arguments = (*run, "--master", url, f"--leader-elect-resource-name={lease}")
        async with program(*arguments, env={**env, "AFTER_LOSS": str(after_loss)}) as leader:
            await leader.said("The timer is set")
            await leader.said("The load begins")
            leader.send(signal.SIGSTOP)
            await asyncio.sleep(seconds)  # no clock but the kernel's knows how long that was
            leader.send(signal.SIGCONT)
            assert await leader.ended() == code
            if code == 1:
                assert leader.count("leader election lost") + leader.count("the lease is lost") == 1, leader.err[-5:]
            # That would be the stacks of all threads, which run.
            assert leader.count("Timeout (") == leader.count("Fatal Python error") == 0

    async with served(tmp_path, [*nodes(1), *(pod_manifest(f"pod-{number}") for number in range(3000))]) as api:
        await asyncio.gather(*(suspended(api.url, f"leader-{at}", *way) for at, way in enumerate(RUNS * WAYS)))
