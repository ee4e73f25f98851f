"""A dialect of pod groups that somebody else's distribution brings through its hook, served by Coscheduling."""

from __future__ import annotations

import asyncio
import importlib
import shutil
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from msgspec import structs

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.api import decode
from pyscheduler.cli.main import cli
from pyscheduler.cli.podgroup.command import main as podgroup
from pyscheduler.framework import ConfigError, PolicyRule, QueueingHint
from pyscheduler.podgroup import DIALECTS
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.assembly.permissions import needs_of_plugins
from pyscheduler.testing import FakeCluster, node_manifest, pod_manifest
from pyscheduler_lab.simulation.group_objects import definitions

EXAMPLE = Path(__file__).parents[2] / "examples/10-own-dialect"
HOOKS = (EXAMPLE / "acme_teams/hooks.py").read_text(encoding="utf-8")
ROWS = (EXAMPLE / "acme_teams/rows.py").read_text(encoding="utf-8")
MEMBER = {"acme.example/team": "t"}
PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, queueSort: {disabled: [{name: PrioritySort}]}}
- schedulerName: other
  plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, queueSort: {disabled: [{name: PrioritySort}]}}
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of an installed distribution that brings a dialect and no plugin, examples/10."""
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(EXAMPLE / "acme_teams", tmp_path / "acme_teams", ignore=shutil.ignore_patterns("__pycache__"))
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    lines = [f"{name} = {module}\n" for name, module in points["pyscheduler"].items()]
    info = tmp_path / "acme_teams-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-teams\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("".join(["[pyscheduler]\n", *lines]), encoding="utf-8")
    for name in ("acme_teams", "acme_teams.hooks", "acme_teams.rows"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


async def test_members_wait_for_the_minimum_of_their_object(acme: Path, cluster: FakeCluster) -> None:
    """In all profiles: the kind is watched, members wait for the minimum of its object; then all are bound."""
    teams = importlib.import_module("acme_teams.rows").ROW.kinds[0]
    cluster.add_node("n")
    cluster.serve(teams)
    metadata = {"name": "t", "namespace": "default"}
    cluster.add({"apiVersion": teams.api_version, "kind": teams.kind, "metadata": metadata, "size": 3}, teams.type)
    framework = cluster.framework(config=PROFILES)
    for name in ("a", "b"):
        cluster.add_pod(name, annotations=MEMBER)
    await framework.settle()
    assert not any(framework.result(name).node for name in ("a", "b"))
    assert "minMember of group: 3" in framework.result("a").message
    cluster.add_pod("c", annotations=MEMBER)
    await framework.settle()
    await cluster.clock.advance(60.0)
    assert all(framework.result(name).node for name in ("a", "b", "c"))
    needs = needs_of_plugins(framework.scheduler.profiles.values(), [teams])
    assert {(need.who, need.rule.resources) for need in needs if need.rule.api_groups == ("acme.example",)} == {
        ("Coscheduling", ("teams",)),
        ("Coscheduling", ("teams/status",)),
    }


async def test_its_status_is_written(acme: Path, cluster: FakeCluster) -> None:
    """The object on the row says what the status holds; the plugin asks for the permission to write it."""
    teams = importlib.import_module("acme_teams.rows").ROW.kinds[0]
    cluster.add_node("n")
    cluster.serve(teams)
    team = {"apiVersion": teams.api_version, "kind": teams.kind, "metadata": {"name": "t", "namespace": "default"}}
    cluster.add({**team, "size": 2}, teams.type)
    framework = cluster.framework(config=PROFILES)
    for name in ("a", "b"):
        cluster.add_pod(name, annotations=MEMBER)
        await framework.settle()
        await cluster.clock.advance(2.0)
        stored = cluster.server.get(teams.api_version, teams.kind, "t", namespace="default")
        assert stored["status"]["state"] == ("Waiting" if name == "a" else "Complete")
    (coscheduling,) = (each for each in framework.profile.plugins.values() if each.name == "Coscheduling")
    old, new = (decode(teams.type, msgspec.json.encode({**stored, "status": {"state": state}})) for state in "ab")
    (hint,) = (each.queueing_hint for each in coscheduling.events_to_register() if "teams" in str(each.event.resource))
    assert hint is not None
    assert hint(framework.result("a").pod, old, new) is QueueingHint.SKIP
    assert hint(framework.result("a").pod, old, structs.replace(old, size=1)) is QueueingHint.QUEUE
    assert PolicyRule(api_groups=("acme.example",), resources=("teams/status",), verbs=("patch",)) in coscheduling.rbac


TEAM = {"apiVersion": "acme.example/v1", "kind": "Team", "metadata": {"name": "t", "namespace": "default"}, "size": 3}


async def test_kubectl_podgroup_shows_it(acme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Table, data and description have its groups, with the phase that its status says."""
    row = importlib.import_module("acme_teams.rows").ROW
    cluster = EmbeddedCluster(clock=LoopClock())
    cluster.add(*definitions([row], cluster))
    cluster.add({**TEAM, "status": {"state": "Waiting"}})
    cluster.add(*(pod_manifest(f"p{number}", annotations=MEMBER) for number in range(2)))
    server = cluster.server()
    await server.start()
    (tmp_path / "kubeconfig").write_text(
        f"{{current-context: e, clusters: [{{name: e, cluster: {{server: '{server.url}'}}}}], "
        "contexts: [{name: e, context: {cluster: e, user: u}}], users: [{name: u, user: {}}]}"
    )

    def kubectl(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            podgroup((*arguments[:1], "--kubeconfig", str(tmp_path / "kubeconfig"), *arguments[1:]))
        assert ended.value.code == 0
        return capsys.readouterr().out

    try:
        shown = await asyncio.to_thread(kubectl, "get")
        assert shown.splitlines()[1].split()[:7] == ["t", "acme", "Waiting", "3", "0", "0", "2"]
        (item,) = msgspec.json.decode(await asyncio.to_thread(kubectl, "get", "-o", "json"))["items"]
        assert (item["dialect"], item["status"]["phaseFrom"]) == ("acme", "object")
        assert "acme (Acme)" in await asyncio.to_thread(kubectl, "describe", "t")
    finally:
        await server.stop()


def test_a_row_that_cannot_work_is_left_out_of_the_table(acme: Path) -> None:
    """`kubectl podgroup` and simulations warn about it and know all other dialects."""
    (acme / "acme_teams/rows.py").write_text("1 / 0", encoding="utf-8")
    warnings: list[str] = []
    table = discover().dialect_table(warnings.append)
    assert list(table) == list(DIALECTS)
    assert [text for text in warnings if 'dialect "acme"' in text and "ZeroDivisionError" in text] == warnings != []


SCENARIO = """
schema: 1
profiles: {p: {plugins: [PLUGIN], queueSort: PLUGIN}}
scenarios:
- id: team
  profile: p
  nodes: [{name: n, cpu: 8}]
  steps:
  - create_podgroup: {name: t, dialect: acme, min: 2}
  - create_pods: {prefix: a, group: t, dialect: acme}
  - expect: {pending: {t: 1}, phase: {t: Waiting}, within: 5}
  - create_pods: {prefix: b, group: t, dialect: acme}
  - expect: {bound: {t: 2}, phase: {t: Complete}, within: 30}
"""


@pytest.mark.parametrize("plugin", ["Coscheduling", "Gang"])
def test_scenarios_can_use_it(acme: Path, tmp_path: Path, plugin: str) -> None:
    """`pyscheduler simulate` creates its objects and pods, serves its kind, and reads the phase of its status."""
    (acme / "acme_teams/rows.py").write_text(ROWS.replace('"Coscheduling"', f'"{plugin}"'), encoding="utf-8")
    (acme / "acme_teams/hooks.py").write_text(HOOKS.replace('"Coscheduling"', f'"{plugin}"'), encoding="utf-8")
    (tmp_path / "file.yaml").write_text(SCENARIO.replace("PLUGIN", plugin.lower()), encoding="utf-8")
    done = CliRunner().invoke(cli, ["simulate", str(tmp_path / "file.yaml")])
    assert done.output.startswith("passed  team")


def test_explain_knows_its_groups(acme: Path, tmp_path: Path) -> None:
    """`pyscheduler explain` says how many members the group misses."""
    pods = [pod_manifest(f"p{number}", annotations=MEMBER) for number in range(2)]
    objects = {"apiVersion": "v1", "kind": "List", "items": [node_manifest("n"), TEAM, *pods]}
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump(objects), encoding="utf-8")
    (tmp_path / "config.yaml").write_text(PROFILES, encoding="utf-8")
    arguments = ["explain", "p0", "--objects", tmp_path / "objects.yaml", "--config", tmp_path / "config.yaml"]
    done = CliRunner().invoke(cli, [*map(str, arguments), "-o", "json"])
    found = msgspec.json.decode(done.stdout)
    assert "current pods number: 2, minMember of group: 3" in found["message"]


def test_row_is_not_imported_without_its_plugin(acme: Path, cluster: FakeCluster) -> None:
    """A broken row costs nothing where its plugin is not enabled."""
    (acme / "acme_teams/rows.py").write_text("1 / 0", encoding="utf-8")
    cluster.framework()


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        pytest.param("1 / 0", "cannot be loaded: ZeroDivisionError", id="does not import"),
        pytest.param("ROW = 'acme'", r"is not a pyscheduler\.podgroup\.Dialect", id="is no dialect"),
        pytest.param(ROWS.replace('"acme"', '"sigs"'), 'calls itself "sigs"', id="has another name"),
        pytest.param(ROWS.replace('"Coscheduling"', '"Gang"'), 'claimed by "Gang"', id="is meant for another"),
        pytest.param(ROWS.replace('(Key(KeyPlace.ANNOTATION, "acme.example/team"),)', "()"), "no key", id="has no key"),
    ],
)
def test_unusable_row_is_a_one_line_error(acme: Path, cluster: FakeCluster, rows: str, error: str) -> None:
    """Whose dialect it is, and what is wrong with it."""
    (acme / "acme_teams/rows.py").write_text(rows, encoding="utf-8")
    with pytest.raises(ConfigError, match=error) as caught:
        cluster.framework(enable=["Coscheduling"])
    assert 'dialect "acme"' in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        pytest.param('"", "m:ROW", claimed_by="Gang"', "expected two names", id="no name"),
        pytest.param('"acme", "m:ROW", claimed_by=None', "expected two names", id="nobody claims it"),
        pytest.param('"acme", "m", claimed_by="Gang"', 'expected "module:ROW"', id="no row"),
        pytest.param('"acme", object(), claimed_by="Gang"', 'expected "module:ROW"', id="an object"),
    ],
)
def test_bad_offer_of_a_hook_is_an_error_of_its_distribution(acme: Path, call: str, error: str) -> None:
    """The distribution is broken, and says why; others are not."""
    code = HOOKS.replace('"acme", "acme_teams.rows:ROW", claimed_by="Coscheduling"', call)
    (acme / "acme_teams/hooks.py").write_text(code, encoding="utf-8")
    registry = discover()
    (problem,) = next(each for each in registry.distributions if each.name == "acme-teams").errors
    assert error in problem
    assert "Coscheduling" in registry


def test_the_list_of_plugins_shows_it(acme: Path) -> None:
    """`pyscheduler plugins` says what the distribution brings, though that is no plugin."""
    shown = CliRunner().invoke(cli, ["plugins"])
    assert 'acme-teams 1.0 (acme-teams = acme_teams.hooks)\n  dialect "acme" of pod groups, for Coscheduling' in (
        shown.output
    )
    (distribution,) = (
        each
        for each in msgspec.json.decode(CliRunner().invoke(cli, ["plugins", "-o", "json"]).output)["distributions"]
        if each["name"] == "acme-teams"
    )
    assert distribution["dialects"] == {"acme": "Coscheduling"}
