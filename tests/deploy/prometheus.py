"""Prometheus and promtool: from the path, or from Debian's package, unpacked into a folder of the test run."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.monitoring.rules import Rule, rules_text
from tests import processes
from tests.integration.programs import Program, free_port
from tests.processes import PATIENCE_SECONDS, run

#: The longest download and unpacking, in seconds.
_SECONDS = 300
#: The name of the job that is scraped.
_JOB = "pyscheduler"


def tools(folder: Path) -> Path:
    """Return the folder with `prometheus` and `promtool`; skip the test, with the reason, if there are none."""
    found = shutil.which("promtool")
    if found and shutil.which("prometheus"):
        return Path(found).parent
    unpacked = folder / "prometheus" / "usr" / "bin"
    if not (unpacked / "promtool").exists():
        _unpack(folder)
    return unpacked


def _unpack(folder: Path) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        pytest.skip("ALERTS ARE NOT TESTED: no prometheus and promtool on the path, and no apt-get to fetch them with")
    folder.mkdir(parents=True, exist_ok=True)
    fetched = run("apt-get", "download", "prometheus", cwd=folder, seconds=_SECONDS)
    if fetched.returncode:
        run("apt-get", "update", cwd=folder, seconds=_SECONDS)
        fetched = run("apt-get", "download", "prometheus", cwd=folder, seconds=_SECONDS)
    packages = list(folder.glob("prometheus_*.deb"))
    if fetched.returncode or not packages:
        pytest.skip(f"ALERTS ARE NOT TESTED: apt-get has no package prometheus: {fetched.stderr.strip()[-200:]}")
    unpacked = run("dpkg", "-x", str(packages[0]), str(folder / "prometheus"), cwd=folder, seconds=_SECONDS)
    assert unpacked.returncode == 0, unpacked.stderr


class Prometheus:
    """A running Prometheus, and the alerts that it has fired."""

    def __init__(self, url: str) -> None:
        self._url = url
        #: The labels of all alerts that have fired so far, by the name of the alert.
        self.fired: dict[str, list[Mapping[str, str]]] = {}

    async def query(self, text: str) -> list[Any]:
        """Return the series of an expression."""
        answer = await asyncio.to_thread(self._get, "query", {"query": text})
        found: list[Any] = answer["result"]
        return found

    async def firing(self) -> set[str]:
        """Return the alerts that fire now."""
        answer = await asyncio.to_thread(self._get, "alerts", {})
        now = [each["labels"] for each in answer["alerts"] if each["state"] == "firing"]
        for labels in now:
            seen = self.fired.setdefault(labels["alertname"], [])
            if labels not in seen:
                seen.append(labels)
        return {labels["alertname"] for labels in now}

    def _get(self, name: str, query: Mapping[str, str]) -> Any:
        url = f"{self._url}/api/v1/{name}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)["data"]

    def missing(self, wanted: Mapping[str, Mapping[str, str]]) -> set[str]:
        """Return the alerts of `wanted` that have not fired with these labels."""
        return {
            name
            for name, labels in wanted.items()
            if not any(labels.items() <= found.items() for found in self.fired.get(name, ()))
        }

    async def until_fired(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Wait until each of these alerts has fired at least once with these labels."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            await self.firing()
            if not (missing := self.missing(wanted)):
                return
            assert time.monotonic() < end, f"did not fire: {missing}; fired: {self.fired}"
            await asyncio.sleep(0.5)

    async def until_quiet(self) -> None:
        """Wait until no alert fires."""
        end = time.monotonic() + PATIENCE_SECONDS
        while now := await self.firing():
            assert time.monotonic() < end, f"did not clear: {now}"
            await asyncio.sleep(0.5)


@asynccontextmanager
async def prometheus(
    binaries: Path, folder: Path, rules: Iterable[Rule], ports: Iterable[int]
) -> AsyncIterator[Prometheus]:
    """Run Prometheus, which scrapes these ports and evaluates these rules each second."""
    (folder / "rules.yaml").write_text(rules_text(rules))
    targets = [f"127.0.0.1:{port}" for port in ports]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [{"job_name": _JOB, "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yaml").write_text(json.dumps(config))
    port = free_port()
    running = await processes.start(
        str(binaries / "prometheus"),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
        env=dict(os.environ),
    )
    output = Program(running)
    found = Prometheus(f"http://127.0.0.1:{port}")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    await found.query("up")
                except OSError:
                    assert running.returncode is None, output.err
                    await asyncio.sleep(0.2)
                else:
                    break
        yield found
    finally:
        await output.kill()
