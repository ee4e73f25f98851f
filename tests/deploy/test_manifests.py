"""configs/deploy: the objects go with each other, with the program, and with what a careful cluster asks of pods."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest

from pyscheduler.cli.main import cli, main
from pyscheduler.config.load import load, loads
from tests.deploy.conftest import FOLDER, ROOT, manifest, manifests

NAME = {"app.kubernetes.io/name": "pyscheduler"}


@pytest.fixture(scope="module")
def deployment() -> dict[str, Any]:
    """Return the Deployment's spec."""
    spec: dict[str, Any] = manifest("Deployment")["spec"]
    return spec


@pytest.fixture(scope="module")
def pod(deployment: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of its pods."""
    spec: dict[str, Any] = deployment["template"]["spec"]
    return spec


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> dict[str, Any]:
    """Return their one container."""
    (found,) = pod["containers"]
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def flags(container: dict[str, Any]) -> dict[str, str]:
    """Return its flags and their values."""
    return dict(each.partition("=")[::2] for each in container["args"][1:])


def test_the_role_is_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """To make the file again, run the command in its first line at the root of the repository."""
    text = (FOLDER / "rbac.yaml").read_text(encoding="utf-8")
    command = text.partition("\n")[0].removeprefix("# Made by: ")
    assert command == (
        "pyscheduler config --config configs/default.yaml --rbac --service-account kube-system:pyscheduler"
    )
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit):
        main(command.split()[1:])
    assert capsys.readouterr().out == text, f"stale: {command} >configs/deploy/rbac.yaml"


def test_everything_is_in_one_namespace_under_one_name() -> None:
    """So that one can see and remove it; only what is cluster-wide has no namespace."""
    found = manifests()
    assert {each["metadata"]["name"] for each in found} == {"pyscheduler"}
    assert {each["metadata"].get("namespace") for each in found if not each["kind"].startswith("Cluster")} == {
        "kube-system"
    }
    assert len(found) == len({each["kind"] for each in found}) == 8


def test_kustomize_takes_every_file() -> None:
    """The list in the Kustomization is complete, and its name keeps it from being applied as an object."""
    text = (FOLDER / "Kustomization").read_text(encoding="utf-8")
    assert set(re.findall(r"^  - (\S+)$", text, re.MULTILINE)) == {path.name for path in FOLDER.glob("*.yaml")}


def test_the_configuration_is_the_one_to_begin_with() -> None:
    """What the ConfigMap holds loads, and comes to what configs/default.yaml comes to, for which the role was made."""
    data = manifest("ConfigMap")["data"]
    assert list(data) == ["config.yaml"]
    assert loads(data["config.yaml"], source="configmap") == load(ROOT / "configs" / "default.yaml")


def test_the_arguments_are_flags_and_lead_to_the_configuration(
    container: dict[str, Any], pod: dict[str, Any], flags: dict[str, str]
) -> None:
    """The command takes them, and --config is the ConfigMap's file where it is mounted."""
    assert container["args"][0] == "run"
    command = cli.get_command(click.Context(cli), "run")
    assert command is not None
    command.make_context("run", container["args"][1:])
    (mount,) = container["volumeMounts"]
    (volume,) = pod["volumes"]
    assert flags["--config"] == f"{mount['mountPath']}/config.yaml"
    assert mount["readOnly"]
    assert volume == {"name": mount["name"], "configMap": {"name": manifest("ConfigMap")["metadata"]["name"]}}


def test_probes_ask_the_port_that_is_served_for_what_is_open_to_all(
    container: dict[str, Any], flags: dict[str, str]
) -> None:
    """Probes come without credentials: HTTPS, the port of --secure-port, paths that are always allowed."""
    (port,) = container["ports"]
    assert flags["--secure-port"] == str(port["containerPort"])
    assert "--health-port" not in flags
    paths = {}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[name]["httpGet"]
        assert (get["scheme"], get["port"]) == ("HTTPS", port["name"])
        paths[name] = get["path"]
    # A replica that has not synced yet must not be killed for it; one that waits for the lease is ready.
    assert paths == {"startupProbe": "/readyz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


def test_the_pods_may_do_nothing_on_their_nodes(container: dict[str, Any], pod: dict[str, Any]) -> None:
    """What the `restricted` Pod Security Standard asks for, and a file system that cannot be written."""
    context = pod["securityContext"]
    assert context["runAsNonRoot"]
    assert min(context["runAsUser"], context["runAsGroup"]) > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert {"requests", "limits"} == container["resources"].keys()


def test_the_token_goes_where_it_is_asked_for(pod: dict[str, Any]) -> None:
    """The account gives it to no pod by itself; these pods, which run under it, ask."""
    account = manifest("ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert pod["automountServiceAccountToken"] is True
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    subject = {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": "kube-system"}
    bindings = [each for each in manifests() if each["kind"].endswith("Binding")]
    assert [each["subjects"] for each in bindings] == [[subject]] * 2


def test_replicas_are_found_spread_and_kept(deployment: dict[str, Any], pod: dict[str, Any]) -> None:
    """Selectors find the pods; one replica more than one stands by, elsewhere, and evictions leave one."""
    assert deployment["template"]["metadata"]["labels"] == deployment["selector"]["matchLabels"] == NAME
    assert deployment["replicas"] == 2
    (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    (spread,) = pod["topologySpreadConstraints"]
    budget = manifest("PodDisruptionBudget")["spec"]
    for selecting in (term["podAffinityTerm"]["labelSelector"], spread["labelSelector"], budget["selector"]):
        assert selecting == {"matchLabels": NAME}
    assert budget["maxUnavailable"] == 1


def test_it_does_not_wait_for_itself(pod: dict[str, Any]) -> None:
    """Its pods are placed by kube-scheduler, before others, and have the time to stop that a stop may take."""
    names = {profile.scheduler_name for profile in load(ROOT / "configs" / "default.yaml").profiles}
    assert pod["schedulerName"] not in names
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["terminationGracePeriodSeconds"] >= 20
