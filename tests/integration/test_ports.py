"""The ports of a running scheduler: open to whom they should be, and named by its flags."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import yaml

from tests.integration.conftest import Served
from tests.integration.programs import Api, free_port, nodes, pods, program, served
from tests.integration.test_bad_input import mistakes
from tests.processes import PATIENCE_SECONDS

_TOKENS = 'prometheus-token,prometheus,1,"monitoring"\n'
_RBAC = "rbac.authorization.k8s.io"


def get(url: str, token: str = "") -> tuple[int, str]:
    """Ask an HTTPS port whose certificate nobody knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def monitoring() -> list[dict[str, object]]:
    """Return what lets the group `monitoring` read metrics."""
    rule = {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "scrape"}, "rules": [rule]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "scrape"},
            "subjects": [{"kind": "Group", "name": "monitoring", "apiGroup": _RBAC}],
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "scrape"},
        },
    ]


async def test_the_https_port_on_a_cluster_with_roles(tmp_path: Path) -> None:
    """As kubeadm starts a scheduler: probes open to all, metrics to whom the cluster lets, all else to nobody."""
    (tmp_path / "tokens.csv").write_text(_TOKENS)
    kubeconfig = str(tmp_path / "kubeconfig")
    options = ("--authorization", "rbac", "--token-auth-file", str(tmp_path / "tokens.csv"))
    port = free_port()
    async with served(
        tmp_path, [*monitoring(), *nodes(2), *pods(3)], options=(*options, "--write-kubeconfig", kubeconfig)
    ) as api:
        arguments = (
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            "--leader-elect=true",
            f"--secure-port={port}",
            "--health-port=0",
            "--disabled-metrics=scheduler_pending_pods",
            "--allow-metric-labels=scheduler_schedule_attempts_total,result=error",
            "-v=2",
        )
        async with program("run", *arguments) as scheduler:
            await scheduler.said("Successfully bound", times=3)
            url = f"https://127.0.0.1:{port}"
            assert get(f"{url}/readyz?verbose") == (
                200,
                "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
            )
            status, text = get(f"{url}/metrics")
            assert (status, json.loads(text)["message"]) == (
                403,
                'forbidden: User "system:anonymous" cannot get path "/metrics"',
            )
            assert get(f"{url}/metrics", "who-knows")[0] == 401
            status, text = get(f"{url}/metrics", "prometheus-token")
            assert status == 200
            assert "scheduler_pending_pods" not in text
            assert 'scheduler_schedule_attempts_total{profile="pyscheduler",result="unexpected"} 3.0\n' in text
            status, text = get(f"{url}/configz", "prometheus-token")
            assert (status, json.loads(text)["message"]) == (
                403,
                'forbidden: User "prometheus" cannot get path "/configz"',
            )
            scheduler.send(signal.SIGTERM)
            assert await scheduler.ended() == 0
        assert api.url


def listening_sockets(pid: int) -> set[str]:
    """Return the TCP sockets that a process listens on."""
    tables = [Path(f"/proc/net/{table}").read_text().splitlines()[1:] for table in ("tcp", "tcp6")]
    rows = [line.split() for lines in tables for line in lines]
    listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}
    return listening & {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}


async def test_plain_http_is_served_only_where_it_is_asked_for(served_cluster: Served) -> None:
    """No port without credentials by default; `--health-port` is on loopback, and elsewhere with `--bind-address`."""
    served_cluster.cluster.add(*nodes(1), *pods(1))
    run = ("run", "--master", served_cluster.url, "--leader-elect=false", "--secure-port=0")
    port, said = free_port(), "Serving health and metrics address="
    async with (
        program(*run) as silent,
        program(*run, f"--health-port={port}") as local,
        program(*run, f"--health-port={free_port()}", "--bind-address=0.0.0.0") as open_to_all,
    ):
        assert (await local.said(said)).endswith(f"{said}127.0.0.1 port={port}")
        assert f"{said}0.0.0.0 port=" in await open_to_all.said(said)
        await silent.said("Caches are synced")
        assert silent.count(said) == 0
        assert await asyncio.to_thread(listening_sockets, silent.process.pid) == set()
        assert len(await asyncio.to_thread(listening_sockets, local.process.pid)) == 1


async def test_the_effective_configuration_can_be_written(tmp_path: Path) -> None:
    """With the flags in it, without a cluster, and as a file that `--config` takes again; then it ends."""
    file = tmp_path / "effective.yaml"
    flags = ("--leader-elect=false", "--kube-api-qps=7", "--profiling=false")
    async with program("run", "--write-config-to", str(file), *flags) as written:
        assert await written.ended() == 0
        assert written.count(f"Wrote configuration file={file}") == 1
    found = yaml.safe_load(file.read_text())
    assert list(found) == sorted(found)
    assert found["leaderElection"]["leaderElect"] is False
    assert (found["clientConnection"]["qps"], found["enableProfiling"]) == (7, False)
    again = tmp_path / "again.yaml"
    async with program("run", "--config", str(file), "--write-config-to", str(again)) as written:
        assert await written.ended() == 0
    assert again.read_text() == file.read_text()
    (told,) = await mistakes("run", "--write-config-to=/nowhere/file")
    assert told.startswith("--write-config-to: /nowhere/file: no such")


async def test_versions() -> None:
    """`--version` as of kube-scheduler; `raw` has all fields."""
    async with program("run", "--version") as shown:
        assert await shown.ended() == 0
    assert shown.out[0].startswith("pyscheduler ")
    async with program("--version=raw") as raw:
        assert await raw.ended() == 0
    assert raw.out[0].startswith('version.Info{Major:"1", Minor:"36", ')


async def test_a_standby_is_alive_and_ready(served_cluster: Served) -> None:
    """As in kube-scheduler, where the caches of a standby are synced, too; with delayCacheUntilActive they are not."""
    served_cluster.cluster.add(*nodes(1))
    ports = [free_port() for _ in range(3)]
    delayed = ("apiVersion: kubescheduler.config.k8s.io/v1", "kind: KubeSchedulerConfiguration")
    base = ("run", "--master", served_cluster.url, "--secure-port=0", "--bind-address=127.0.0.1")
    file = Path(os.environ.get("TMPDIR", "/tmp")) / f"delayed-{ports[0]}.yaml"
    file.write_text(
        "\n".join([*delayed, "delayCacheUntilActive: true", "profiles: [{schedulerName: pyscheduler}]", ""])
    )
    try:
        async with program(*base, f"--health-port={ports[0]}") as leader:
            await leader.said("Successfully acquired lease")
            async with (
                program(*base, f"--health-port={ports[1]}") as standby,
                program(*base, f"--health-port={ports[2]}", "--config", str(file)) as late,
            ):
                await standby.said("New leader elected")
                await late.said("New leader elected")
                ready = "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
                assert await Api(f"http://127.0.0.1:{ports[1]}")("GET", "/readyz?verbose") == (200, ready)
                status, text = await Api(f"http://127.0.0.1:{ports[2]}")("GET", "/readyz")
                assert (status, "[-]sched-handler-sync failed" in text) == (500, True)
                assert await Api(f"http://127.0.0.1:{ports[2]}")("GET", "/livez") == (200, "ok")
                leader.send(signal.SIGTERM)
                assert await leader.ended() == 0
    finally:
        file.unlink()
