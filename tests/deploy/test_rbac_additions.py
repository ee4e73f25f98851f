"""configs/rbac: what profiles for groups need beyond the default one, and what people need who look at groups."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kube_objects.kinds import NODES, PODS
from pyscheduler.api import KubeObject, ResourceKind
from pyscheduler.cli.main import cli
from pyscheduler.podgroup import DIALECTS, kinds_of
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_batch.cli.queue.offline_pass import open_offline, profiles_for
from pyscheduler_batch.dialects import JOB_DIALECTS, QUEUE_DIALECTS
from pyscheduler_quota.quotas import RESOURCE_QUOTAS
from tests.deploy.conftest import ROOT

FOLDER = ROOT / "configs/rbac"
GATES = "GenericWorkload=true,GangScheduling=true"
Rule = tuple[str, str, str]


def manifests(text: str) -> list[dict[str, Any]]:
    """Read YAML documents."""
    return list(yaml.safe_load_all(text))


def rules_of(found: Iterable[dict[str, Any]]) -> set[Rule]:
    """Return what roles grant, one by one: API group, resource, verb."""
    return {
        (group, resource, verb)
        for manifest in found
        for rule in manifest.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@cache
def needed(profile: str, *options: str) -> set[Rule]:
    """Return what `pyscheduler config --rbac` prints for a profile."""
    arguments = ["config", "--rbac", "--config", str(ROOT / "configs" / f"{profile}.yaml"), *options]
    return rules_of(manifests(CliRunner().invoke(cli, arguments, catch_exceptions=False).output))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "profile", "options"),
    [
        pytest.param("coscheduling", "coscheduling", (), id="coscheduling"),
        pytest.param("coscheduling", "coscheduling-ming", (), id="ming"),
        pytest.param("gang", "gang", (), id="gang"),
        pytest.param("in-tree-gang", "in-tree-gang", ("--feature-gates", GATES), id="in-tree"),
    ],
)
def test_an_addition_is_what_the_default_roles_lack(name: str, profile: str, options: tuple[str, ...]) -> None:
    """No rule is missing, and none is idle; it is bound to the account of configs/deploy."""
    found = manifests((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    assert rules_of(found) == needed(profile, *options) - needed("default")
    role, binding = found
    assert role["metadata"]["name"] == binding["roleRef"]["name"] == f"pyscheduler-{name}"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "pyscheduler", "namespace": "kube-system"}]


def test_whoever_may_view_a_namespace_may_see_its_groups() -> None:
    """The role for people covers every dialect, for reading alone."""
    (role,) = manifests((FOLDER / "podgroup-viewer.yaml").read_text(encoding="utf-8"))
    kinds = kinds_of(DIALECTS)
    verbs = ("get", "list", "watch")
    assert rules_of([role]) == {(kind.group, kind.plural, verb) for kind in kinds for verb in verbs}
    assert role["metadata"]["labels"] == {"rbac.authorization.k8s.io/aggregate-to-view": "true"}


async def read_by_a_pass(config_file: str | None = None) -> list[ResourceKind]:
    """Return the kinds that an offline scheduler reads: with the presets of all dialects, or the profiles of a file."""
    found: list[ResourceKind] = []

    async def read(kind: ResourceKind) -> list[KubeObject]:
        found.append(kind)
        return []

    presets = {row.name: [f"of-{row.name}"] for row in QUEUE_DIALECTS}
    async with open_offline(read, profiles_for(presets, registry=discover(), config_file=config_file)):
        return found


async def test_a_role_for_people_lists_what_queue_commands_read(tmp_path: Path) -> None:
    """The role covers queues and groups of all dialects, and what passes read, for reading alone."""
    (role,) = manifests((FOLDER / "queue-viewer.yaml").read_text(encoding="utf-8"))
    queues = [kind for row in QUEUE_DIALECTS for kind in row.kinds]
    kinds = [PODS, NODES, RESOURCE_QUOTAS, *queues, *kinds_of([row.groups for row in JOB_DIALECTS])]
    text = (ROOT / "configs/batch-volcano.yaml").read_text(encoding="utf-8")
    file = tmp_path / "hypernodes.yaml"
    file.write_text(text.replace("- name: nodeorder", "- name: network-topology-aware"), encoding="utf-8")
    kinds += [*await read_by_a_pass(), *await read_by_a_pass(str(file))]
    assert rules_of([role]) == {(kind.group, kind.plural, verb) for kind in kinds for verb in ("get", "list")}
