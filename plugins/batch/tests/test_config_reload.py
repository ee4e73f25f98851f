"""Reload of the configuration file: new args count from the next pass on, and a broken file changes nothing."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.config.feature_gates import default_gates
from pyscheduler.config.load import loads
from pyscheduler.serving.config_reload import ConfigReloader
from pyscheduler_batch.sessions.assembly import sessions_of

if TYPE_CHECKING:
    from pathlib import Path

#: A file of Volcano; without `enqueue`, `preempt` and `reclaim`.
FIRST = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}]
configurations: []
"""
OTHER = "preset: kube-batch\nschedulerName: volcano\n" + FIRST.replace("configurations: []", "")
RECLAIMS = FIRST.replace('"allocate"', '"allocate, reclaim"')


class Reloading:
    """A scheduler with one batch profile of a file, and what follows the file."""

    def __init__(self, batch: Any, path: Path, text: str) -> None:
        self.batch, self.path = batch, path
        path.write_text(text, encoding="utf-8")
        self.measured = batch.cluster.framework(config=text)
        self.reloader = ConfigReloader(str(path), loads(text), default_gates(), self.measured.scheduler)

    async def replace(self, text: str) -> None:
        """Replace the file, and look at it."""
        self.path.write_text(text, encoding="utf-8")
        await self.reloader.look()

    @property
    def refusals(self) -> int:
        """Return how often a file was refused."""
        return self.measured.warnings["config_not_reloaded"]

    def actions(self) -> list[str]:
        """Return the actions of the profile."""
        return [action.name for action in sessions_of(self.measured.scheduler)[0].plugin.actions]


@pytest.fixture
def reloading(volcano: Any, tmp_path: Path) -> Reloading:
    """Return a scheduler with the first file."""
    return Reloading(volcano, tmp_path / "volcano-scheduler.conf", FIRST)


async def test_new_actions_take_effect_at_the_next_pass(reloading: Reloading) -> None:
    """A queue above its share keeps its pods until the file names `reclaim`; nothing else has to change."""
    batch = reloading.batch
    batch.nodes(1, cpu="2")
    for name in ("a", "b"):
        batch.queue(name)
    await reloading.measured.start()
    batch.group("one", "a", 1)
    batch.pods("one", 2, profile="volcano")
    await batch.pass_time()
    batch.go("Running", "one-0", "one-1")
    batch.group("two", "b", 1)
    batch.pods("two", 1, profile="volcano")
    await batch.pass_time(60)
    await reloading.reloader.look()
    assert not any(pod.is_terminating for pod in batch.cluster.pods())
    await reloading.replace(RECLAIMS)
    await batch.pass_time()
    assert sum(pod.is_terminating for pod in batch.cluster.pods()) == 1
    assert reloading.refusals == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("actions: [", "line", id="no YAML"),
        pytest.param("", "empty", id="empty"),
        pytest.param(FIRST.replace("allocate", "allocates"), 'did you mean "allocate"', id="unknown action"),
        pytest.param(FIRST.replace("{name: gang}", "{name: gag}"), 'did you mean "gang"', id="unknown policy"),
        pytest.param(FIRST.replace("{name: gang}", "{name: tdm}"), 'policy "tdm"', id="policy that does not exist yet"),
        pytest.param(OTHER, "the preset cannot change", id="other preset"),
        pytest.param("kind: Pod\napiVersion: v1\n", "Pod", id="another kind"),
    ],
)
async def test_a_broken_file_is_refused(reloading: Reloading, text: str, why: str, caplog: Any) -> None:
    """The args of before stay, with one line and one count for each broken content; a good file counts again."""
    await reloading.measured.start()
    before = reloading.reloader.config
    with caplog.at_level(logging.INFO, logger="pyscheduler.serving.config_reload"):
        for _ in range(3):
            await reloading.replace(text)
        lines = [record.getMessage() for record in caplog.records if "not reloaded" in record.getMessage()]
        assert len(lines) == reloading.refusals == 1
        assert why in lines[0]
        assert "\n" not in lines[0]
        assert f" err={reloading.path}: " in lines[0], "the plain text, without quotes of its own"
        assert reloading.actions() == ["allocate"]
        assert reloading.reloader.config == before
        await reloading.replace(RECLAIMS)
    assert reloading.actions() == ["allocate", "reclaim"]
    assert reloading.reloader.config != before
    assert sum("Reloaded the args" in record.getMessage() for record in caplog.records) == 1


async def test_a_missing_file_is_refused_once(reloading: Reloading, caplog: Any) -> None:
    """While a ConfigMap is replaced the file may be missing for a moment."""
    await reloading.measured.start()
    reloading.path.unlink()
    for _ in range(3):
        await reloading.reloader.look()
    assert reloading.refusals == 1
    assert sum("no such file" in record.getMessage() for record in caplog.records) == 1
    await reloading.replace(RECLAIMS)
    assert reloading.actions() == ["allocate", "reclaim"]


async def test_the_file_is_followed_while_the_scheduler_runs(reloading: Reloading) -> None:
    """A change is seen within ten seconds; other changes of profiles are named in a line of the log."""
    await reloading.measured.start()
    following = asyncio.create_task(reloading.reloader.run())
    await asyncio.to_thread(lambda: None)
    await reloading.batch.pass_time(1)
    reloading.path.write_text(RECLAIMS, encoding="utf-8")
    for _ in range(50):
        await reloading.batch.pass_time(1)
        await asyncio.to_thread(lambda: None)
        if reloading.actions() == ["allocate", "reclaim"]:
            break
    assert reloading.actions() == ["allocate", "reclaim"]
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_other_changes_of_the_file_need_a_restart(volcano: Any, tmp_path: Path, caplog: Any) -> None:
    """Args of `Batch` count at once; a plugin that was added to the profile does not, and the log says so."""
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: Batch, args: {preset: volcano, actions: "allocate", gangBarrier: true}}]
"""
    reloading = Reloading(volcano, tmp_path / "config.yaml", text)
    await reloading.measured.start()
    new = text.replace("gangBarrier: true", "gangBarrier: false")
    new = new.replace("{name: DefaultPreemption}", "{name: DefaultPreemption}, {name: ImageLocality}")
    await reloading.replace(new)
    plugin = sessions_of(reloading.measured.scheduler)[0].plugin
    assert not plugin.gang_barrier
    assert "ImageLocality" in reloading.measured.scheduler.profiles["batch"].plugins
    assert any("need a restart" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("policy", ["resourcequota", "network-topology-aware"])
async def test_a_policy_that_needs_a_new_watch_is_refused(
    reloading: Reloading, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A policy that reads a kind which nothing watches yet: the old file stays in force, and the message names it."""
    await reloading.measured.start()
    await reloading.replace(FIRST.replace("{name: gang}]", f"{{name: gang}}, {{name: {policy}}}]"))
    assert reloading.refusals == 1
    assert f'the policy "{policy}" cannot be added while the scheduler runs; restart it' in caplog.text


async def test_quota_reservation_needs_a_restart(reloading: Reloading, caplog: pytest.LogCaptureFixture) -> None:
    """It decides what is watched; the old file stays in force."""
    await reloading.measured.start()
    await reloading.replace(FIRST + "quotaReservation: none\n")
    assert reloading.refusals == 1
    assert "quotaReservation cannot change while the scheduler runs; restart it" in caplog.text
