"""The chart with real Helm: rendered, linted, installed, upgraded, rolled back and removed."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import random
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from click.testing import CliRunner

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.resources.open_definitions import open_definition
from pyscheduler.cli.main import cli
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.config.load import loads
from pyscheduler.testing import VirtualClock, node_manifest
from tests import processes
from tests.deploy.chart import CHART, PROFILES, SCHEMA, VALUES, Helm, tool
from tests.deploy.conftest import ROOT, manifests, shell_lines
from tests.integration.programs import program

#: Values under which every template renders something.
ALL: dict[str, Any] = {
    "plugins": {"images": [{"image": "plugins:1", "path": "/plugins", "pullPolicy": "Always"}]},
    "priorityClass": {"name": "schedulers", "create": True, "value": 1000},
    "serviceAccount": {"name": "scheduler"},
    "service": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "monitoring": {
        "reader": {"namespace": "monitoring", "name": "prometheus"},
        "serviceMonitor": {"enabled": True},
        "rules": {"enabled": True},
        "dashboards": {"enabled": True},
    },
}
#: Partitions of a cluster by KAI's label.
SHARDS: dict[str, Any] = {
    "profile": "batch-kai",
    "shards": [
        {
            "name": "a",
            "nodeSelector": {"kai.scheduler/node-pool": "a"},
            "queues": [{"apiVersion": "scheduling.run.ai/v2", "name": "q", "spec": {"displayName": "q"}}],
        },
        {"name": "rest", "nodeSelector": {"kai.scheduler/node-pool": ""}},
    ],
}
PAGE = ROOT / "docs/how-to/install-with-helm.md"
OWN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: own}]\n"


def named(objects: list[dict[str, Any]], kind: str, name: str = "pyscheduler") -> dict[str, Any]:
    """Return the object of a kind and name."""
    (found,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Give Helm without a cluster."""
    return Helm(tmp_path_factory.mktemp("helm"))


# --- rendered -----------------------------------------------------------------------------------


def test_the_linter_has_nothing_to_say(helm: Helm) -> None:
    """With the defaults, with all parts, and with shards."""
    for values in ({}, ALL, SHARDS):
        found = helm("lint", "--strict", helm.chart, values=values)
        assert re.findall(r"^\[(?!INFO)", found, re.MULTILINE) == [], found


def test_the_deployment_of_the_repository_is_the_chart_with_its_defaults(helm: Helm) -> None:
    """`configs/deploy` has the same objects; its files have comments, and lack the marks of a release."""
    rendered = helm.objects()
    for each in rendered:
        labels = each["metadata"]["labels"]
        assert labels.pop("helm.sh/chart") == f"pyscheduler-{chart_version()}"
        assert labels.pop("app.kubernetes.io/instance") == "pyscheduler"
        if each["apiVersion"].startswith("rbac."):  # written by a command that labels nothing
            assert each["metadata"].pop("labels") == {"app.kubernetes.io/name": "pyscheduler"}
    template = named(rendered, "Deployment")["spec"]["template"]["metadata"]
    assert re.fullmatch("[0-9a-f]{64}", template.pop("annotations")["checksum/config"])
    assert template["labels"].pop("app.kubernetes.io/instance") == "pyscheduler"
    wanted = {(each["kind"], each["metadata"]["name"]): each for each in manifests()}
    assert {(each["kind"], each["metadata"]["name"]): in_order(each) for each in rendered} == {
        key: in_order(each) for key, each in wanted.items()
    }


def in_order(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest with the rules of a role in a fixed order."""
    return {**manifest, **({"rules": sorted(manifest["rules"], key=str)} if "rules" in manifest else {})}


def chart_version() -> str:
    """Return the version of the chart."""
    return str(yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["version"])


@attrs.frozen
class Leaf:
    """A value of the schema: where it is, and another value."""

    path: tuple[str | int, ...]
    other: Any

    def __str__(self) -> str:
        """Return the path, for the id of a test."""
        return ".".join(map(str, self.path))


def leaves(schema: Mapping[str, Any], value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Leaf]:
    """Yield each value of the schema, with one that differs from `value`."""
    if "properties" in schema:
        for key, inner in schema["properties"].items():
            yield from leaves(inner, (value or {}).get(key), (*path, key))
    elif "properties" in schema.get("items", {}):
        yield from leaves(schema["items"], value[0], (*path, 0))
    else:
        yield Leaf(path, other(schema, value))


def other(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value that a schema admits, and that is another one."""
    candidates = [*schema.get("examples", ()), *schema.get("enum", ())]
    match schema["type"]:
        case "boolean":
            candidates.append(not value)
        case "integer":
            candidates.append(value - 1 if value > schema["minimum"] else value + 1)
        case "string":
            candidates.append("other")
    return next(each for each in candidates if each != value)


def merged(into: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with others in their places, as Helm merges them."""
    result = copy.deepcopy(dict(into))
    for key, value in values.items():
        result[key] = (
            merged(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else value
        )
    return result


def changed(values: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """Return a copy of values with another value at a path."""
    if not path:
        return value
    copied = copy.deepcopy(values)
    copied[path[0]] = changed(copied[path[0]] if path[1:] else None, path[1:], value)
    return copied


def test_every_value_of_the_schema_changes_what_is_rendered(helm: Helm) -> None:
    """Each value in turn gets another one, and the manifests differ."""
    everything = merged(VALUES, ALL)
    without_monitor = changed(everything, ("monitoring", "serviceMonitor", "enabled"), False)  # it needs the Service
    bases = {"shards": merged(everything, SHARDS), "service": without_monitor, "": everything}
    before = {name: helm.template(values, namespace="default") for name, values in bases.items()}
    found = list(leaves(SCHEMA, bases["shards"]))
    assert len(found) > 50
    without_effect = []
    for leaf in found:
        base = str(leaf.path[0]) if leaf.path[0] in bases else ""
        values = changed(bases[base], leaf.path, leaf.other)
        if leaf.path == ("config",):
            values["rbac"]["clusterRules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
        if helm.template(values, namespace="default") == before[base]:
            without_effect.append(str(leaf))
    assert without_effect == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"replicaz": 3}, "additional properties 'replicaz' not allowed", id="misspelt"),
        pytest.param(
            {"podLabels": {"app.kubernetes.io/name": "x"}},
            "podLabels: the chart sets app.kubernetes.io/name itself; leave it out",
            id="label",
        ),
        pytest.param(
            {"podAnnotations": {"checksum/config": "x"}},
            "podAnnotations: the chart sets checksum/config itself; leave it out",
            id="annotation",
        ),
        pytest.param({"profile": "kai"}, "value must be one of 'batch-kai'", id="profile"),
        pytest.param({"config": OWN}, "config is set, but not rbac.clusterRules", id="no rules"),
        pytest.param(
            {**SHARDS, "profile": "batch-volcano"},
            "shards of the preset volcano: only KAI has node pools",
            id="volcano",
        ),
        pytest.param(
            {"profile": "batch-kai", "shards": [{"name": "a", "nodeSelector": {"x": "y", "z": ""}}]},
            "shard a: nodeSelector must have one label, which is the node pool",
            id="two labels",
        ),
        pytest.param(
            {"shards": [{"name": "a", "nodeSelector": {"x": "y"}}] * 2}, "two shards have the name a", id="twice"
        ),
        pytest.param(
            {"shards": SHARDS["shards"], "config": 'actions: "allocate"', "rbac": {"create": False}},
            "shards need a configuration with profiles",
            id="another form",
        ),
        pytest.param({"priorityClass": {"create": True}}, "names that begin with system- are Kubernetes'", id="class"),
        pytest.param({"serviceAccount": {"create": False}}, "give serviceAccount.name the name of an", id="account"),
    ],
)
def test_a_mistake_gets_a_line(helm: Helm, values: dict[str, Any], said: str) -> None:
    """Helm refuses values that cannot work, before it installs anything."""
    assert said in helm.refusal(values)


def test_a_configuration_of_your_own_comes_with_its_permissions(helm: Helm, tmp_path: Path) -> None:
    """The values that `pyscheduler config` prints are all that is needed; a file of another form will do."""
    volcano = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}]}]\n'
    for text in (OWN, volcano, f" # indented\n{OWN}"):
        file = tmp_path / "own.yaml"
        file.write_text(text, encoding="utf-8")
        arguments = ["config", "--rbac", "--config", str(file), "-o", "helm-values"]
        done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        rendered = helm.objects(yaml.safe_load(done.stdout), namespace="default")
        assert named(rendered, "ConfigMap")["data"]["config.yaml"].strip() == text.strip()
        printed = yaml.safe_load(done.stdout)["rbac"]
        assert named(rendered, "ClusterRole")["rules"] == printed["clusterRules"]
        (outside,) = [
            each for each in rendered if each["metadata"].get("namespace") == "kube-system" and "rules" in each
        ]
        assert outside["rules"] == printed["namespaceRules"]["kube-system"]


def test_an_image_has_a_digest_or_a_tag(helm: Helm) -> None:
    """The digest replaces the tag, which is the version of the chart by default."""
    for image, said in (
        ({}, f"pyscheduler:{chart_version()}"),
        ({"repository": "registry.example.com/p", "tag": "t"}, "registry.example.com/p:t"),
        ({"tag": "t", "digest": f"sha256:{'0' * 64}"}, f"pyscheduler@sha256:{'0' * 64}"),
    ):
        (container,) = named(helm.objects({"image": image}), "Deployment")["spec"]["template"]["spec"]["containers"]
        assert container["image"] == said


@pytest.mark.parametrize(
    ("profile", "missing"),
    [
        ("default", []),
        ("batch-kai", ["podgroups.scheduling.run.ai", "queues.scheduling.run.ai", "topologies.kai.scheduler"]),
    ],
)
def test_notes_name_the_kinds_that_are_missing(helm: Helm, profile: str, missing: list[str]) -> None:
    """Helm compares the kinds that the profile watches with the API groups of the server."""
    arguments = ("install", "pyscheduler", helm.chart, "--dry-run=client", "--hide-notes=false")
    notes = helm(*arguments, values={"profile": profile}).partition("NOTES:\n")[2]
    assert ("does not serve these kinds" in notes) == bool(missing)
    assert [line.strip() for line in notes.splitlines() if re.fullmatch(r"  \w+(\.[\w-]+)+", line)] == missing


RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
OWN_VALUES = {"config": "kind: KubeSchedulerConfiguration", "rbac": {"clusterRules": [RULE]}}


@pytest.mark.parametrize(
    ("namespace", "values", "lines"),
    [
        pytest.param("kube-system", {}, [], id="defaults"),
        pytest.param("team", {}, ["export PYSCHEDULER_LEASE=team/pyscheduler"], id="namespace"),
        pytest.param("kube-system", OWN_VALUES, [], id="configuration"),
        pytest.param(
            "kube-system",
            {**OWN_VALUES, "profile": "coscheduling"},
            ["WARNING: config is set, so profile=coscheduling has no effect."],
            id="configuration and profile",
        ),
    ],
)
def test_notes_name_the_lease_and_values_without_effect(
    helm: Helm, namespace: str, values: dict[str, Any], lines: list[str]
) -> None:
    """`explain` finds the default lease by itself; a configuration replaces the profile."""
    arguments = ("install", "pyscheduler", helm.chart, "--dry-run=client", "--hide-notes=false")
    notes = helm(*arguments, "--namespace", namespace, values=values).partition("NOTES:\n")[2]
    assert re.findall("export .*|WARNING: .*effect\\.", notes) == lines


def test_each_shard_is_a_scheduler_of_its_own(helm: Helm) -> None:
    """Names, leases and accounts differ; KAI's label selects the pool, and other profiles select nodes by affinity."""
    rendered = helm.objects(SHARDS)
    for name, pool in (("pyscheduler-a", "a"), ("pyscheduler-rest", "")):
        config = loads(named(rendered, "ConfigMap", name)["data"]["config.yaml"], source=name)
        (profile,) = config.profiles
        args = next(each.args for each in profile.plugin_config if each.name == "Batch")
        assert isinstance(args, Mapping)
        assert (args["nodePool"], args["nodePoolLabel"]) == (pool, "kai.scheduler/node-pool")
        pod = named(rendered, "Deployment", name)["spec"]["template"]["spec"]
        assert f"--leader-elect-resource-name={name}" in pod["containers"][0]["args"]
        assert pod["serviceAccountName"] == named(rendered, "ServiceAccount", name)["metadata"]["name"]
        rules = named(rendered, "Role", name)["rules"]
        assert [rule["resourceNames"] for rule in rules if "update" in rule["verbs"]] == [[name]]
    assert named(rendered, "Queue", "q")["metadata"]["labels"]["kai.scheduler/node-pool"] == "a"
    shard = {"name": "gpu", "nodeSelector": {"gpu": "yes", "spot": ""}}
    rendered = helm.objects({"profile": "two-profiles", "shards": [shard]})
    config = loads(named(rendered, "ConfigMap", "pyscheduler-gpu")["data"]["config.yaml"], source="shard")
    assert [each.scheduler_name for each in config.profiles] == ["pyscheduler-services-gpu", "pyscheduler-batch-gpu"]
    for profile in config.profiles:
        args = next(each.args for each in profile.plugin_config if each.name == "NodeAffinity")
        (term,) = args.added_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms  # type: ignore[union-attr]
        assert [(each.key, each.operator, list(each.values)) for each in term.match_expressions] == [
            ("gpu", "In", ["yes"]),
            ("spot", "DoesNotExist", []),
        ]


async def test_every_object_is_accepted(helm: Helm) -> None:
    """The API server creates all objects of all variants under strict validation, without a warning."""
    variants = [{"profile": profile} for profile in PROFILES] + [ALL, SHARDS]
    for values in variants:
        cluster = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(1), authorization="rbac")
        cluster.load((ROOT / "configs/crds/queues.scheduling.run.ai.yaml").read_bytes())
        for kind, plural in (("ServiceMonitor", "servicemonitors"), ("PrometheusRule", "prometheusrules")):
            cluster.add(open_definition("monitoring.coreos.com", kind, plural, ["v1"]))
        transport = InProcessTransport(cluster.router)
        for manifest in helm.objects(values):
            resource = cluster.resource_of(manifest)
            place = f"/namespaces/{manifest['metadata']['namespace']}" if resource.namespaced else ""
            root = f"/apis/{resource.group}" if resource.group else "/api"
            path = f"{root}/{resource.version}{place}/{resource.plural}"
            body = json.dumps(manifest).encode()
            answer = await transport.request("POST", path, query={"fieldValidation": "Strict"}, body=body)
            assert (answer.status, answer.headers.get("warning")) == (201, None), answer.body


#: The jobs that the files of rules and dashboards select.
EVERY_JOB = ".*pyscheduler.*"


def test_rules_and_dashboards_are_those_of_their_files(helm: Helm) -> None:
    """Helm leaves the templates of alerts and dashboards alone; only the selector of jobs changes."""
    rendered = helm.objects(ALL)
    rules = (CHART / "files/rules.yaml").read_text(encoding="utf-8")
    assert "{{ $labels." in rules
    assert named(rendered, "PrometheusRule")["spec"] == yaml.safe_load(rules.replace(EVERY_JOB, "pyscheduler"))
    paths = sorted((CHART / "files/dashboards").iterdir())
    assert paths
    for path in paths:
        dashboard = named(rendered, "ConfigMap", f"pyscheduler-dashboard-{path.stem}")
        assert dashboard["data"] == {path.name: path.read_text(encoding="utf-8").replace(EVERY_JOB, "pyscheduler")}
        assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_rules_select_the_jobs_of_the_release(helm: Helm) -> None:
    """These are the names of its Services; a job of another name and the address of the runbooks are values."""
    site = "https://example.com/"
    given = {"monitoring": {"job": "mine", "rules": {"enabled": True, "runbooks": site}}}
    for values, job, base in ((merged(ALL, SHARDS), "pyscheduler-a|pyscheduler-rest", ""), (given, "mine", site)):
        groups = named(helm.objects(values), "PrometheusRule")["spec"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert rules
        for rule in rules:
            assert f'job=~"{job}"' in rule["expr"]
            assert rule["annotations"]["runbook_url"].startswith(f"{base}docs/how-to/runbooks.md#")
            assert EVERY_JOB not in rule["expr"]


def test_plugins_of_another_image_are_found(helm: Helm, tmp_path: Path) -> None:
    """The init container's command copies a folder of distributions to where the scheduler finds their plugins."""
    pod = named(helm.objects(ALL), "Deployment")["spec"]["template"]["spec"]
    (copying,) = pod["initContainers"]
    (container,) = pod["containers"]
    (variable,) = container["env"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert variable == {"name": "PYTHONPATH", "value": mounted["plugins"]}
    assert copying["volumeMounts"] == [{"name": "plugins", "mountPath": mounted["plugins"]}]
    assert {"name": "plugins", "emptyDir": {}} in pod["volumes"]
    image, target = tmp_path / "image", tmp_path / "target"
    (image / "freeze-1.0.dist-info").mkdir(parents=True)
    target.mkdir()
    (image / "freeze.py").write_text(
        "from pyscheduler.framework import Plugin\n"
        "from pyscheduler.framework.hooks import hookimpl\n\n\n"
        "@hookimpl\ndef pyscheduler_register(registry):\n    registry.add('Freeze', 'freeze:Freeze')\n",
        encoding="utf-8",
    )
    (image / "freeze-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: freeze\nVersion: 1.0\n")
    (image / "freeze-1.0.dist-info/entry_points.txt").write_text("[pyscheduler]\nfreeze = freeze\n")
    places = {"/plugins/.": f"{image}/.", f"{mounted['plugins']}/": f"{target}/"}
    processes.run(*(places.get(word, word) for word in copying["command"]), check=True)
    env = {**os.environ, "PYTHONPATH": str(target)}
    done = processes.run(sys.executable, "-m", "pyscheduler", "plugins", env=env, cwd=ROOT)
    assert "freeze 1.0" in done.stdout, done.stdout + done.stderr


# --- installed ----------------------------------------------------------------------------------


#: Places the pods of the release, as kube-scheduler would.
STAND_IN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@attrs.frozen
class Installed:
    """Run a cluster with RBAC in which bound pods run; Helm has the rights of an administrator."""

    helm: Helm

    async def do(self, *arguments: str | Path, values: Mapping[str, Any] | None = None) -> str:
        """Run Helm in `kube-system` while the programs of the cluster go on."""
        return await asyncio.to_thread(self.helm, *arguments, "--namespace", "kube-system", values=values)

    async def kubectl(self, *arguments: str) -> str:
        """Return what kubectl prints."""
        env = {**os.environ, "KUBECONFIG": str(self.helm.kubeconfig)}
        cache = f"--cache-dir={self.helm.folder / 'discovery'}"
        done = await processes.run_async(tool("kubectl"), cache, "--namespace", "kube-system", *arguments, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def objects(self, what: str) -> list[dict[str, Any]]:
        """Return the objects of some kinds that belong to the release."""
        text = await self.kubectl("get", what, "-l", "app.kubernetes.io/instance=pyscheduler", "-o", "json")
        found: list[dict[str, Any]] = json.loads(text)["items"]
        return found

    async def checksums(self) -> set[str]:
        """Return the checksums that the pods of the release carry."""
        pods = [each for each in await self.objects("pods") if "deletionTimestamp" not in each["metadata"]]
        assert len(pods) == 2
        return {each["metadata"]["annotations"]["checksum/config"] for each in pods}

    async def granted(self) -> set[str]:
        """Return the API groups that the ClusterRole of the release covers."""
        (role,) = await self.objects("clusterroles")
        return {group for rule in role["rules"] for group in rule["apiGroups"]}


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installed]:
    """Give a cluster with a node, on which the pods of workloads are placed and run."""
    kubeconfig, config, nodes = tmp_path / "kubeconfig", tmp_path / "config.yaml", tmp_path / "nodes.json"
    config.write_text(STAND_IN, encoding="utf-8")
    nodes.write_text(json.dumps(node_manifest("n1", allocatable={"cpu": "8", "memory": "16Gi"})), encoding="utf-8")
    serve = ("--authorization", "rbac", "--tls", "--controllers", "--load", str(nodes))
    async with program("cluster", "--port", "0", *serve, "--write-kubeconfig", str(kubeconfig)) as server:
        await server.said("serving ")
        run = ("--config", str(config), "--kubeconfig", str(kubeconfig), "--leader-elect=false", "--secure-port=0")
        async with program("run", *run):
            yield Installed(Helm(tmp_path, kubeconfig))


async def test_a_release_is_installed_upgraded_rolled_back_and_removed(installed: Installed) -> None:
    """Another profile replaces the pods and the roles, a rollback brings both back, and nothing stays at the end."""
    wait = ("--wait", "--timeout", "120s")
    said = await installed.do("install", "pyscheduler", CHART, *wait)
    assert "Pods choose it with spec.schedulerName: pyscheduler\n" in said
    (first,) = await installed.checksums()
    assert "scheduling.x-k8s.io" not in await installed.granted()
    await installed.do(
        "upgrade", "pyscheduler", CHART, *wait, values={"podDisruptionBudget": {"maxUnavailable": "50%"}}
    )
    assert await installed.checksums() == {first}
    assert len(await installed.objects("replicasets")) == 1
    await installed.do("upgrade", "pyscheduler", CHART, *wait, values={"profile": "coscheduling"})
    (second,) = await installed.checksums()
    assert second != first
    assert len(await installed.objects("replicasets")) == 2
    assert "scheduling.x-k8s.io" in await installed.granted()
    await installed.do("rollback", "pyscheduler", "1", *wait)
    assert await installed.checksums() == {first}
    assert "scheduling.x-k8s.io" not in await installed.granted()
    (config,) = await installed.objects("configmaps")
    assert config["data"]["config.yaml"] == PROFILES["default"].read_text(encoding="utf-8")
    await installed.do("uninstall", "pyscheduler", *wait)
    kinds = "serviceaccounts,configmaps,clusterroles,clusterrolebindings,roles,rolebindings,deployments,pdb,secrets"
    assert await installed.objects(kinds) == []


async def test_a_release_takes_over_the_plain_manifests(installed: Installed) -> None:
    """`--take-ownership` adopts the objects of `configs/deploy` without another selector, so that nothing stops."""
    await installed.kubectl("apply", "-f", str(ROOT / "configs/deploy"))
    await installed.do(
        "install", "pyscheduler", CHART, "--take-ownership", "--force-conflicts", "--wait", "--timeout", "120s"
    )
    assert len(await installed.checksums()) == 1


async def test_the_commands_of_the_page_work(installed: Installed, tmp_path: Path) -> None:
    """Each step of the page has its effect, in the page's order."""
    values = tmp_path / "values.yaml"
    configurations = []
    for program_name, *words in filter(None, shell_lines(PAGE)):
        if program_name == "helm":
            await asyncio.to_thread(installed.helm, *(str(values) if word == values.name else word for word in words))
            configurations += [each["data"]["config.yaml"] for each in await installed.objects("configmaps")]
        elif program_name == "pyscheduler":
            done = CliRunner().invoke(cli, words[: words.index(f">{values.name}")], catch_exceptions=False)
            values.write_text(done.stdout, encoding="utf-8")
        elif program_name == "kubectl" and "rollout" not in words:  # there is no such image, so no pod gets ready
            await installed.kubectl(*words)
    used = ("default", "coscheduling", "bin-packing", *["coscheduling"] * 4, "default")
    assert configurations == [PROFILES[name].read_text(encoding="utf-8") for name in used]


def test_the_values_that_the_page_shows_are_accepted(helm: Helm) -> None:
    """Each block of values renders what the text around it says."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    plugins, shards, monitoring, policy = map(yaml.safe_load, blocks)
    assert named(helm.objects(plugins), "Deployment")["spec"]["template"]["spec"]["initContainers"]
    assert named(helm.objects(shards), "Queue", "research")["metadata"]["labels"]["kai.scheduler/node-pool"] == "a100"
    rendered = helm.objects({**shards, "profile": "default"})
    config = loads(named(rendered, "ConfigMap", "pyscheduler-a100")["data"]["config.yaml"], source="a100")
    assert [each.scheduler_name for each in config.profiles] == ["pyscheduler-a100"]
    assert "`schedulerName: pyscheduler-a100`" in text
    rendered = helm.objects(monitoring)
    assert named(rendered, "PrometheusRule")["metadata"]["labels"]["release"] == "prometheus"
    assert named(rendered, "ServiceMonitor")["metadata"]["labels"]["release"] == "prometheus"
    assert named(helm.objects(policy), "NetworkPolicy")["spec"]["ingress"][0]["from"] == policy["networkPolicy"]["from"]
