"""docs/how-to/operate.md: what it quotes is what the program says, and its figures are those of the manifests."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.deploy.conftest import FOLDER, ROOT, manifest
from tests.scheduler.test_debugger import DUMP

PAGE = (ROOT / "docs/how-to/operate.md").read_text(encoding="utf-8")
SOURCES = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "pyscheduler").rglob("*.py")))


def section(title: str) -> str:
    """Return the text of a section."""
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("message", re.findall(r"^\| `([^`]+)` \|", section("Logs"), re.MULTILINE))
def test_every_line_of_the_log_that_is_explained_is_one_that_is_written(message: str) -> None:
    """The program has that message, word for word."""
    assert re.search(rf"[\"']{re.escape(message)}", SOURCES), message


def test_the_look_inside_is_one_that_was_taken() -> None:
    """The lines are among those that a test of the debugger sees; values with blanks are quoted in the log."""
    (quoted,) = re.findall(r"```text\n(.*?)```", section("Look inside"), re.DOTALL)
    assert [line for line in quoted.splitlines() if line.replace('"', "") not in DUMP.splitlines()] == []
    for name in ("missedNodes", "redundantNodes", "missedPods", "redundantPods"):
        assert f"`{name}`" in section("Look inside")
        assert f'"{name}": ' in SOURCES


def test_metrics_worth_a_look_are_there() -> None:
    """Each has a row in the reference."""
    reference = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \|", section("Metrics"), re.MULTILINE)
    assert named
    assert [name for name in named if f"| `{name}` |" not in reference] == []


def test_figures_are_those_of_the_manifests() -> None:
    """Memory as measured stands in both places, and so do requests and limits, ports and paths of the probes."""
    deployment = (FOLDER / "deployment.yaml").read_text(encoding="utf-8")
    measured = re.findall(r"\d+ MiB", section("What it costs").partition("`deployment.yaml` requests")[0])
    assert measured == re.findall(r"\d+ MiB", deployment)
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    resources = container["resources"]
    assert (resources["requests"]["memory"], resources["limits"]["memory"]) == ("256Mi", "512Mi")
    assert "requests 256 MiB of memory and limits it to 512 MiB" in section("What it costs")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert f"`{container[probe]['httpGet']['path']}`" in section("Probes")
    assert str(container["ports"][0]["containerPort"]) in section("Probes")


def test_the_scrape_job_finds_the_pods() -> None:
    """It keeps the pods with the Deployment's label, at the port with its name, over its scheme."""
    settings = yaml.safe_load((ROOT / "examples/03-on-a-cluster/prometheus.yaml").read_text(encoding="utf-8"))
    (job,) = settings["scrape_configs"]
    template = manifest("Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    (keep,) = job["relabel_configs"]
    labels = {
        **{f"__meta_kubernetes_pod_label_{re.sub(r'[^a-zA-Z0-9]', '_', name)}": value
           for name, value in template["metadata"]["labels"].items()},
        "__meta_kubernetes_pod_container_port_name": container["ports"][0]["name"],
    }  # fmt: skip
    assert re.fullmatch(keep["regex"], ";".join(labels[name] for name in keep["source_labels"]))
    assert job["scheme"] == container["readinessProbe"]["httpGet"]["scheme"].lower()
    assert job["kubernetes_sd_configs"][0]["namespaces"]["names"] == [manifest("Deployment")["metadata"]["namespace"]]
