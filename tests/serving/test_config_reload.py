"""A configuration file that changes while the scheduler runs: what needs a restart is shown as stale."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs
import pytest

from pyscheduler.config.feature_gates import default_gates
from pyscheduler.config.load import loads
from pyscheduler.config.types import Configuration
from pyscheduler.serving.config_reload import ConfigReloader
from pyscheduler.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from pathlib import Path

    from pyscheduler.testing import FakeCluster

TEXT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 20
profiles:
- schedulerName: pyscheduler
"""


@attrs.define
class Followed:
    """A file and what follows it."""

    path: Path
    reloader: ConfigReloader
    metrics: Metrics

    async def says(self, text: str) -> str:
        """Replace the file, look at it, and return the value of the metric."""
        self.path.write_text(text, encoding="utf-8")
        return await self.looked()

    async def looked(self) -> str:
        """Look at the file, and return the value of the metric."""
        await self.reloader.look()
        return self.shown

    @property
    def shown(self) -> str:
        """Return the value of the metric; "" while it is not shown."""
        lines = self.metrics.render()[0].decode().splitlines()
        return next((line.split()[1] for line in lines if line.startswith("pyscheduler_config_stale ")), "")


@pytest.fixture
def followed(cluster: FakeCluster, tmp_path: Path) -> Followed:
    """Return a running configuration whose lease comes from a flag, and its file."""
    path, metrics = tmp_path / "config.yaml", Metrics()
    path.write_text(TEXT, encoding="utf-8")

    def with_flags(config: Configuration) -> Configuration:
        return attrs.evolve(config, leader_election=attrs.evolve(config.leader_election, resource_name="flag"))

    config = with_flags(loads(TEXT, source=str(path)))
    framework = cluster.framework(config=TEXT)
    framework.scheduler.recorder = metrics
    reloader = ConfigReloader(str(path), config, default_gates(), framework.scheduler, with_flags=with_flags)
    return Followed(path, reloader, metrics)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param(TEXT.replace("20", "30"), "podMaxBackoffSeconds", id="value"),
        pytest.param(TEXT + "parallelism: 4\n", "parallelism", id="other field"),
        pytest.param(TEXT + "- schedulerName: second\n", "profiles", id="profile"),
        pytest.param(
            TEXT + "extenders: [{urlPrefix: 'http://a', filterVerb: f}]\npercentageOfNodesToScore: 50\n",
            "percentageOfNodesToScore,extenders",
            id="several",
        ),
    ],
)
async def test_change_that_needs_a_restart_is_stale(
    followed: Followed, text: str, fields: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The metric is 1 and the log has one line, until the file says again what is in force."""
    caplog.set_level(logging.INFO)
    assert followed.shown == ""
    assert await followed.looked() == "0.0"
    assert await followed.says(text) == "1.0"
    assert await followed.looked() == "1.0"
    line = f"The configuration file has changes that need a restart file={followed.path} fields={fields}"
    assert caplog.text.count(line) == caplog.text.count("need a restart") == 1
    assert await followed.says(TEXT + "# a comment\n") == "0.0"
    assert caplog.text.count("The configuration file says what is in force again") == 1


async def test_file_that_cannot_be_used_is_stale(followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    """A mistake and a missing file are stale, too; the log says so once."""
    assert await followed.says(TEXT + "unknownField: 1\n") == "1.0"
    assert "unknownField" in caplog.text
    followed.path.unlink()
    assert await followed.looked() == "1.0"
    assert await followed.looked() == "1.0"
    assert caplog.text.count("no such file") == 1
    assert await followed.says(TEXT) == "0.0"
