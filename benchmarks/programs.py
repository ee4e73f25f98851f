"""Measure the program `pyscheduler`: how long its commands take, and how much memory `pyscheduler run` needs."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import clusters
from benchmarks.measure import memory_of
from benchmarks.server import serving
from pyscheduler.cli.demo.trace_demo import play
from pyscheduler.config.load import load
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import Settings
from pyscheduler_fgd.typical_tasks import WHOLE
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.reproduction.arrivals import arrivals
from pyscheduler_lab.reproduction.packing import place_all
from pyscheduler_lab.simulation.replay import UNSCHEDULABLE_SECONDS, Replay
from pyscheduler_lab.traces import Job, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyscheduler_lab.simulation.replay_cluster import Fidelity

__all__ = [
    "demo",
    "footprint",
    "help_seconds",
    "leadership",
    "packing",
    "ready_seconds",
    "replay",
    "simulation",
    "sweep",
]

_ROOT = Path(__file__).parents[1]
_PROGRAM = (sys.executable, "-m", "pyscheduler")
_DEMO_PODS = 8152
_UNTHROTTLED = ("--kube-api-qps", "-1")
#: After the last binding its echo and its event are still to come.
_SETTLED_SECONDS = 3.0
_DAY_SECONDS = 86_400.0
#: Half of the jobs of a simulated day take longer than two hours.
_LENGTH_MU = math.log(7200.0)


def help_seconds(runs: int) -> float:
    """Return how long `pyscheduler --help` takes, the median of some runs, in seconds."""
    seconds = []
    for _ in range(runs):
        begun = time.perf_counter()
        subprocess.run([*_PROGRAM, "--help"], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def ready_seconds(node_count: int) -> float:
    """Return how long `run` takes from its start until its caches hold a cluster of so many nodes, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nodes.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": clusters.nodes(node_count)}))
        arguments = ("cluster", "--port", "0", "--load", str(file), "--stop-with-stdin", "-v", "0")
        with subprocess.Popen([*_PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            url = server.stdout.readline().decode().split()[1]
            seconds = _ready_on(url)
            server.terminate()
    return seconds


def _ready_on(url: str) -> float:
    begun = time.perf_counter()
    arguments = ("run", "--master", url, "--health-port", "0")
    with subprocess.Popen([*_PROGRAM, *arguments], stderr=subprocess.PIPE, text=True) as scheduler:
        assert scheduler.stderr is not None
        synced = any("Caches are synced" in line for line in scheduler.stderr)
        seconds = time.perf_counter() - begun
        scheduler.terminate()
        scheduler.stderr.read()
    if not synced:
        raise RuntimeError(f"pyscheduler run ended with code {scheduler.returncode} before its caches were synced")
    return seconds


def leadership(*, kill: bool) -> dict[str, float]:
    """Return how long a standby takes to lead: after the leader was stopped, and after a `kill`, in seconds.

    The lease's times are kube-scheduler's defaults.
    """
    with serving(nodes=5) as server:
        figures = {"after_stop_seconds": _takeover_seconds(server.url, signal.SIGTERM)}
        if kill:
            figures["after_kill_seconds"] = _takeover_seconds(server.url, signal.SIGKILL)
        return figures


def _takeover_seconds(url: str, number: signal.Signals) -> float:
    with _replica(url, "Successfully acquired lease") as leader, _replica(url, "New leader elected") as standby:
        begun = time.perf_counter()
        leader.send_signal(number)
        _read_until(standby, "Successfully acquired lease")
        return time.perf_counter() - begun


@contextmanager
def _replica(url: str, words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a scheduler that has said so much."""
    arguments = ("run", "--master", url, "--health-port", "0")
    with subprocess.Popen([*_PROGRAM, *arguments], stderr=subprocess.PIPE, text=True) as process:
        _read_until(process, words)
        yield process
        process.terminate()
        assert process.stderr is not None
        process.stderr.read()


def _read_until(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    if not any(words in line for line in process.stderr):
        raise RuntimeError(f"pyscheduler run ended with code {process.returncode} before it said {words!r}")


def footprint(nodes: int, pods: int, *, secure: bool) -> dict[str, float]:
    """Return what `pyscheduler run` takes of memory once it has bound so many pods of 8 kB, and they run, in MiB.

    `secure`: over TLS, with a bearer token. The credentials come from a kubeconfig either way.
    """
    with tempfile.TemporaryDirectory() as folder, serving(nodes=nodes, secure=secure) as server:
        file = Path(folder) / "kubeconfig.yaml"
        file.write_text(json.dumps(_kubeconfig(server.url, server.identity)))
        arguments = ("run", "--kubeconfig", str(file), "--health-port", "0", "--secure-port", str(_free_port()))
        command = [*_PROGRAM, *arguments, *_UNTHROTTLED]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as scheduler:
            _read_until(scheduler, "Caches are synced")
            drain = threading.Thread(target=scheduler.communicate)
            drain.start()
            server("create", count=pods, pause_seconds=0.0, prefix="pod", heavy=True)
            while server("bound") < pods:
                time.sleep(0.1)
            assert server("run_pods") >= pods
            time.sleep(_SETTLED_SECONDS)
            figures = memory_of(scheduler.pid)
            scheduler.terminate()
            drain.join()
    return figures


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _kubeconfig(url: str, identity: Mapping[str, str] | None) -> dict[str, Any]:
    cluster, user = {"server": url}, {}
    if identity is not None:
        cluster["certificate-authority-data"] = base64.b64encode(identity["authority"].encode()).decode()
        user["token"] = identity["token"]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": user}],
    }


def demo(pod_count: int = _DEMO_PODS) -> dict[str, float]:
    """Return the figures of the demo with so many pods, its server in a process of its own."""
    trace, config = _ROOT / "lab" / "pyscheduler_lab" / "data" / "openb", _ROOT / "configs" / "default.yaml"
    outcome = asyncio.run(play(trace, str(config), limit=pod_count))
    p50, p99 = np.percentile(outcome.metrics.attempts, [50, 99])
    return {
        "pods_per_second": outcome.report.bound / outcome.seconds,
        "attempt_p50_ms": float(p50) * 1e3,
        "attempt_p99_ms": float(p99) * 1e3,
        "peak_mib": outcome.peak_kib / 1024,
        "problems": len(outcome.report.problems),
    }


def replay(jobs: int | None) -> dict[str, float]:
    """Return the figures of the Philly trace in virtual time, all of vc1 or only its first jobs, with Coscheduling."""
    return _replayed(Trace.read("philly", vc="vc1").first(jobs).jobs, "24x8gpu", "coscheduling.yaml")


def simulation(pods: int, nodes: int, *, fidelity: Fidelity = "full") -> dict[str, float]:
    """Return the figures of a day in virtual time on which so many plain pods come, and find room at once."""
    rng = random.Random(1)
    jobs = [
        Job(
            name=f"job-{number}",
            arrival=_DAY_SECONDS * number / pods,
            duration=rng.lognormvariate(_LENGTH_MU, 1.0),
            workers=1,
            gpus=rng.choice((1, 1, 1, 2, 4)),
            cpu_milli=4000,
            memory_mib=16 * 1024,
        )
        for number in range(pods)
    ]
    return _replayed(jobs, f"{nodes}x8gpu", "default.yaml", fidelity=fidelity)


def sweep(jobs: int, seeds: int) -> dict[str, float]:
    """Return the figures of `lab sweep` on two processes, and how many times as long it takes on one.

    Two profiles replay the first jobs of Philly's vc1 with each seed.
    """
    text = f"traces: [{{trace: philly, vc: vc1, jobs: {jobs}}}]\nclusters: 24x8gpu\nprofiles: [default, binpack]\n"
    seconds = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sweep.yaml").write_text(f"{text}seeds: {seeds}\n")
        for workers in (1, 2):
            command = f"lab sweep sweep.yaml --out {workers} --workers {workers}"
            began = time.perf_counter()
            subprocess.run((*_PROGRAM, *command.split()), cwd=folder, check=True, capture_output=True)
            seconds[workers] = time.perf_counter() - began
    return {"seconds": seconds[2], "of_one_process": seconds[1] / seconds[2]}


def packing(policy: str, tasks: int | None) -> dict[str, float]:
    """Return the figures of one run of the FGD paper's experiment, all of it or only its first tasks.

    The rate counts every task, also those that are dropped without a scheduling cycle.
    """
    cluster, source = Cluster.read("openb"), Trace.read("openb").jobs
    order = arrivals(source, WHOLE * cluster.gpus, seed=0)[:tasks]
    begun = time.process_time()
    placed, _ = place_all(policy, cluster, source, order, seed=0)
    seconds = time.process_time() - begun
    return {
        "cpu_seconds": seconds,
        "tasks_per_cpu_second": len(placed) / seconds,
    }


def _replayed(jobs: Sequence[Job], pool: str, configuration: str, *, fidelity: Fidelity = "full") -> dict[str, float]:
    played = Replay(
        jobs,
        Cluster.read(pool),
        load(_ROOT / "configs" / configuration),
        registry=discover(),
        settings=Settings(max_unschedulable_seconds=UNSCHEDULABLE_SECONDS),
        fidelity=fidelity,
    )
    report = asyncio.run(played.run())
    return {
        "seconds": report.wall_s,
        "attempts": report.attempts,
        "simulated_per_second": report.attempts_by_result.get("scheduled", 0) / report.wall_s,
        **{f"{phase.name}_cpu_seconds": phase.cpu_s for phase in report.phases},
    }
