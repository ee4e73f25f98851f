"""The health port of a running scheduler: probes, metrics, configuration."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from kube_testserver.serving.faults import Fault
from lab.tests.conftest import hooks, install
from tests.integration.conftest import Served
from tests.integration.programs import FAST, Api, free_port, nodes, pods, program
from tests.integration.test_bad_input import ENABLED, PLUGIN

#: How long a plugin takes to be imported, in seconds: so long that no busy machine blocks a loop.
IMPORT_SECONDS = 4


async def test_probes_and_pages(served_cluster: Served) -> None:
    """Alive before the first sync, ready after it; then metrics and the effective configuration are there."""
    cluster = served_cluster.cluster
    cluster.add(*nodes(2), *pods(3))
    cluster.faults.add(Fault(method="GET", path="/api/v1/nodes$", status=503))
    port = free_port()
    health = Api(f"http://127.0.0.1:{port}")
    arguments = ("--config", str(FAST), "--master", served_cluster.url, "--health-port", str(port))
    async with program("run", "--bind-address", "127.0.0.1", *arguments) as scheduler:
        await scheduler.said(f"Serving health and metrics address=127.0.0.1 port={port}")
        await scheduler.said("API server unreachable watches=1 resources=nodes ")
        assert await health("GET", "/healthz") == (200, "ok")
        assert await health("GET", "/livez") == (200, "ok")
        alive = "[+]ping ok\n[+]event-loop ok\nlivez check passed\n"
        assert await health("GET", "/livez?verbose") == (200, alive)
        status, text = await health("GET", "/readyz")
        assert (status, "[-]sched-handler-sync failed: reason withheld" in text) == (500, True)
        cluster.faults.clear()
        await served_cluster.api.until_bound(3)
        assert await health("GET", "/readyz") == (200, "ok")
        status, configuration = await health("GET", "/configz")
        assert (status, configuration["componentconfig"]["profiles"][0]["schedulerName"]) == (200, "pyscheduler")
        status, text = await health("GET", "/metrics")
        assert status == 200
        assert 'scheduler_schedule_attempts_total{profile="pyscheduler",result="scheduled"} 3.0' in text
        assert "\npyscheduler_event_loop_longest_block_seconds " in text
        assert re.search(r'kubernetes_build_info{.*git_version="v\d.*major="1",minor="36".*} 1.0', text)
        assert 'version_info{binary="1.36",component="kube",emulation="1.36",min_compat="1.35"} 1.0' in text
        assert re.search(r'registered_metrics_total{deprecated_version="",stability_level="STABLE"} \d+', text)
        status, text = await health("GET", "/metrics/resources")
        assert (status, text.count("kube_pod_resource_request{")) == (200, 6)
        assert (await health("GET", "/nothing"))[0] == 404
        assert (await health("POST", "/metrics", {}))[0] == 405
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0


async def test_imports_are_no_block_of_the_loop(served_cluster: Served, tmp_path: Path) -> None:
    """Slow imports at the start do not make an alert fire: nothing waits for the event loop yet."""
    module = f"import time\n\ntime.sleep({IMPORT_SECONDS})\n{PLUGIN}"
    environment = install(tmp_path, "late", hooks("Mine", "late_plugin:Mine"), late_plugin=module)
    file, port = tmp_path / "config.yaml", free_port()
    header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    file.write_text(header + ENABLED % "Mine")
    arguments = ("--config", str(file), "--master", served_cluster.url, "--health-port", str(port))
    async with program("run", *arguments, env=environment) as scheduler:
        await scheduler.said("Successfully acquired lease")
        _, text = await Api(f"http://127.0.0.1:{port}")("GET", "/metrics")
        (seconds,) = re.findall(r"(?m)^pyscheduler_event_loop_longest_block_seconds (\S+)$", text)
        assert float(seconds) < IMPORT_SECONDS
