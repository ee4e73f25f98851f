"""`pyscheduler config --rbac`: the permissions of a profile, as manifests that can be applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
import yaml

from kube_objects.kinds import kind_of
from pyscheduler import ClusterEvent, ClusterEventWithHint, EnqueueExtensions, FilterPlugin, Pod, PolicyRule
from pyscheduler.api import BUILT_IN_KINDS, Service
from pyscheduler.cli.offline_scheduler import offline_scheduler
from pyscheduler.cli.rbac import as_list, grants_of
from pyscheduler.config.load import load, loads
from pyscheduler.framework import ActionType, EventResource, NodeInfo, Status
from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.podgroup import DIALECTS, GroupObject, Key, KeyPlace
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_batch.dialects import QUEUE_DIALECTS
from pyscheduler_batch.model.queue_object import QueueObject
from tests.cli.conftest import Run
from tests.examples.conftest import ROOT

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: %s, resourceName: mine, resourceNamespace: here}
profiles:
  - schedulerName: pyscheduler
    plugins: {multiPoint: {enabled: [{name: Choosy}]}}
"""


class Choosy(FilterPlugin, EnqueueExtensions):
    """Watches a kind, hears of another, and writes in a namespace of its own."""

    watches = (kind_of(Service, "services"),)
    rbac = (
        PolicyRule(
            api_groups=("",), resources=("configmaps",), verbs=("update",), resource_names=("book",), namespaces=("x",)
        ),
    )

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD))]


def said(run: Run, *arguments: str) -> str:
    """Run `config --rbac`; return what it printed."""
    code, out, err = run("config", "--rbac", *arguments)
    assert (code, err) == (0, "")
    return out


def refusal(run: Run, *arguments: str) -> str:
    """Run `config`; return the one line that says why not."""
    code, out, err = run("config", *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    return err


def permissions(manifests: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return by role what it grants, as `verb group/resource name`."""
    return {
        "/".join(filter(None, (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]))): {
            f"{verb} {group}/{resource} {name}".strip()
            for rule in each["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])
            for verb in rule["verbs"]
        }
        for each in manifests
        if "rules" in each
    }


def choosy(*, leader_elect: bool, delegated_auth: bool = False) -> dict[str, set[str]]:
    """Return the permissions of a profile with the plugin above."""
    registry = discover()
    registry.add("Choosy", Choosy)
    config = loads(FILE % str(leader_elect).lower(), source="file")
    grants = grants_of(offline_scheduler(config, registry), config, delegated_auth=delegated_auth)
    return permissions(as_list(grants, name="it")["items"])


class Lane(QueueObject):
    """A queue of another system."""

    api_version: ClassVar[str] = "lanes.example/v1"
    kind: ClassVar[str] = "Lane"


class Crew(GroupObject):
    """A group of another system."""

    api_version: ClassVar[str] = "crews.example/v1"
    kind: ClassVar[str] = "Crew"


LANES = attrs.evolve(QUEUE_DIALECTS[0], name="lanes", kinds=(kind_of(Lane, "lanes", namespaced=False),))
CREWS = attrs.evolve(DIALECTS[0], name="crews", keys=(Key(KeyPlace.LABEL, "crew"),), kinds=(kind_of(Crew, "crews"),))


def test_kinds_of_own_dialects_have_permissions_in_their_own_group_only() -> None:
    """Queues and groups of another system can be read, the status of groups written; no other group has them."""
    registry = discover()
    registry.add_queue_dialect("lanes", f"{__name__}:LANES")
    registry.add_dialect("crews", f"{__name__}:CREWS", claimed_by="Coscheduling")
    for name, expected in (
        ("batch-kube-batch", {"list lanes.example/lanes", "watch lanes.example/lanes"}),
        (
            "coscheduling",
            {f"{verb} crews.example/crews" for verb in ("list", "watch", "patch")}
            | {"patch crews.example/crews/status"},
        ),
    ):
        config = load(ROOT / "configs" / f"{name}.yaml")
        grants = grants_of(offline_scheduler(config, registry), config)
        granted = permissions(as_list(grants, name="it")["items"])["ClusterRole/it"]
        assert {each for each in granted if "lanes" in each or "crews" in each} == expected


DEFAULT = {
    "list /nodes",
    "watch /nodes",
    "get /pods",
    "list /pods",
    "watch /pods",
    "create /pods/binding",
    "patch /pods/status",
    "create events.k8s.io/events",
    "patch events.k8s.io/events",
    "create authentication.k8s.io/tokenreviews",
    "create authorization.k8s.io/subjectaccessreviews",
}


def test_rules_include_what_plugins_watch_and_declare() -> None:
    """Kinds to list and watch, and its own rules, each where it is needed; the lease where the file has it."""
    found = choosy(leader_elect=True)
    extra = {f"{verb} {kind}" for verb in ("list", "watch") for kind in ("/services", "storage.k8s.io/storageclasses")}
    assert found.pop("ClusterRole/it") >= {each for each in DEFAULT if "reviews" not in each} | extra
    assert found == {
        "Role/here/it": {f"{verb} coordination.k8s.io/leases mine" for verb in ("get", "update")}
        | {"create coordination.k8s.io/leases"},
        "Role/x/it": {"update /configmaps book"},
    }


def test_no_lease_rule_without_leader_election() -> None:
    """An account needs nothing for what is switched off."""
    assert choosy(leader_elect=False).keys() == {"ClusterRole/it", "Role/x/it"}


def test_review_permissions_unless_no_delegated_auth(run: Run) -> None:
    """Two reviews, and one object read by name; nothing of it with `--no-delegated-auth`."""
    without = choosy(leader_elect=False)
    found = choosy(leader_elect=False, delegated_auth=True)
    assert found.pop("Role/kube-system/it") == {"get /configmaps extension-apiserver-authentication"}
    assert found.pop("ClusterRole/it") - without.pop("ClusterRole/it") == {
        "create authentication.k8s.io/tokenreviews",
        "create authorization.k8s.io/subjectaccessreviews",
    }
    assert found == without
    assert "reviews" not in said(run, "--no-delegated-auth")


def test_default_profile_writes_only_core_objects(run: Run) -> None:
    """The default profile writes bindings, statuses and events, and reads built-in kinds; no wildcard anywhere."""
    found = permissions(json.loads(said(run, "-o", "json"))["items"])
    cluster = found["ClusterRole/pyscheduler"]
    assert cluster >= DEFAULT
    readable = {f"{kind.group}/{kind.plural}" for kind in BUILT_IN_KINDS}
    beyond = {tuple(each.split()) for each in cluster - DEFAULT}
    assert {verb for verb, _ in beyond} <= {"list", "watch", "get", "delete", "patch", "update", "create"}
    assert {resource for verb, resource in beyond if verb in {"list", "watch"}} <= readable
    assert "*" not in "".join(sorted(set().union(*found.values())))


def test_yaml_and_json_are_the_same_manifests(run: Run) -> None:
    """Both forms, twice: the same every time, each rule under a comment that says what for."""
    arguments = ("--service-account", "kube-system:pyscheduler", "--config", str(ROOT / "configs/default.yaml"))
    text = said(run, *arguments)
    manifests = list(yaml.safe_load_all(text))
    assert json.loads(said(run, *arguments, "-o", "json"))["items"] == manifests
    assert said(run, *arguments) == text
    assert text.startswith("# Made by: pyscheduler config --config ")
    rules = sum(len(each.get("rules", ())) for each in manifests)
    assert text.count("\n  # for ") == rules


def test_roles_can_be_bound_to_an_account(run: Run) -> None:
    """Each role is followed by its binding, of its kind and in its namespace, to that account."""
    text = said(run, "--name", "mine", "--service-account", "kube-system:robot")
    manifests = list(yaml.safe_load_all(text))
    for role, binding in zip(manifests[::2], manifests[1::2], strict=True):
        assert binding["kind"] == f"{role['kind']}Binding"
        assert binding["metadata"] == role["metadata"]
        assert role["metadata"]["name"] == "mine"
        assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": "mine"}
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "kube-system"}]


@pytest.mark.parametrize("text", ["pyscheduler", ":pyscheduler", "kube-system:", "a:b:c"])
def test_an_account_is_namespace_and_name(text: str, run: Run) -> None:
    """Anything else is told in one line."""
    assert refusal(run, "--rbac", "--service-account", text).startswith(f'error: --service-account "{text}" must be ')


@pytest.mark.parametrize("option", ["--name", "--service-account"])
def test_options_about_roles_need_roles(option: str, run: Run) -> None:
    """They would say nothing without `--rbac`."""
    assert refusal(run, option, "a:b") == f"error: {option} is for roles; add --rbac\n"


def test_mistake_in_the_file_is_reported_with_rbac(tmp_path: Path, run: Run) -> None:
    """A profile that cannot be built has no permissions."""
    file = tmp_path / "profile.yaml"
    file.write_text((FILE % "true").replace("Choosy", "Nobody"), encoding="utf-8")
    assert 'plugin "Nobody" does not exist' in refusal(run, "--rbac", "--config", str(file))


def test_values_of_the_chart_hold_the_file_and_its_rules(run: Run, tmp_path: Path) -> None:
    """They have the text of the file, the gates of the command, and all rules of the roles but those of the lease."""
    file = ROOT / "configs/in-tree-gang.yaml"
    gates = "GenericWorkload=true,GangScheduling=true"
    options = ("--config", str(file), "--feature-gates", gates)
    values = yaml.safe_load(said(run, *options, "-o", "helm-values"))
    assert (values["config"], values["featureGates"]) == (file.read_text(encoding="utf-8"), gates)
    cluster, here = yaml.safe_load_all(said(run, *options))
    assert values["rbac"]["clusterRules"] == cluster["rules"]
    others = [rule for rule in here["rules"] if rule["resources"] != ["leases"]]
    assert values["rbac"]["namespaceRules"] == {"kube-system": others}
    assert len(here["rules"]) == len(others) + 2
    held = tmp_path / "map.yaml"
    held.write_text(yaml.safe_dump({"kind": "ConfigMap", "data": {"config.yaml": values["config"]}}), encoding="utf-8")
    of_map = said(run, "--config", str(held), "--feature-gates", gates, "-o", "helm-values")
    assert yaml.safe_load(of_map) == values
    options = ("--config", str(file), "--rbac", "--no-delegated-auth", "-o", "helm-values")
    assert yaml.safe_load(run("config", *options)[1])["rbac"]["namespaceRules"] == {}
    text = "error: -o helm-values needs --rbac and --config FILE, and no --name or --service-account\n"
    assert refusal(run, "-o", "helm-values") == refusal(run, "--rbac", "-o", "helm-values") == text
