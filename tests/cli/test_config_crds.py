"""`pyscheduler config --crds`, and `--objects` of `bench` and `plugins --check`, as typed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli import rate_plugins
from tests.cli.conftest import Run

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: RateLimits}]}}
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ratelimits.example.com}
"""
HOOKS = """
from pyscheduler.framework.hooks import hookimpl

@hookimpl
def pyscheduler_register(registry):
    registry.add("RateLimits", "tests.cli.rate_plugins:RateLimits")
"""
OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: default}
data: {pods: "3"}
"""


@pytest.fixture(name="config")
def _config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a plugin whose package has a definition, and write a profile with it."""
    package = tmp_path / "rate_limits"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "crd.yaml").write_text(DEFINITION)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "rate_limits", raising=False)
    monkeypatch.delitem(sys.modules, "rate_limits.hooks", raising=False)
    (package / "hooks.py").write_text(HOOKS)
    metadata = tmp_path / "rate_limits-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rate-limits\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[pyscheduler]\nrate = rate_limits.hooks\n")
    file = tmp_path / "profile.yaml"
    file.write_text(CONFIG)
    (tmp_path / "objects.yaml").write_text(OBJECTS)
    return file


def test_definitions_of_enabled_plugins_are_printed(config: Path, run: Run) -> None:
    """The text can be applied; a comment names the file."""
    assert run("config", "--crds", "--config", config) == (0, f"# rate_limits:crd.yaml{DEFINITION}", "")


def test_a_definition_that_is_not_there_names_the_plugin(
    config: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is one line that says what to write."""
    monkeypatch.setattr(rate_plugins.RateLimits, "crds", ("rate_limits:absent.yaml",))
    code, out, err = run("config", "--crds", "--config", config)
    assert (code, out) == (1, "")
    assert 'plugin "RateLimits" names "rate_limits:absent.yaml" in `crds`' in err
    assert 'write "package:file.yaml"' in err


def test_a_profile_without_definitions_says_so(run: Run) -> None:
    """Nothing is printed that could be applied."""
    code, out, err = run("config", "--crds", "--config", "configs/default.yaml")
    assert (code, out) == (0, "")
    assert err == "no plugin of this configuration brings a CustomResourceDefinition\n"


def test_bench_has_the_objects_of_a_file(config: Path, run: Run) -> None:
    """The plugin finds its limit, and binds as many pods."""
    arguments = ["bench", "--config", config, "--nodes", 2, "--pods", 5]
    assert "5 pods, 0 bound" in run(*arguments)[1]
    assert "5 pods, 3 bound" in run(*arguments, "--objects", config.with_name("objects.yaml"))[1]


def test_objects_need_a_check(config: Path, run: Run) -> None:
    """The option is for `--check`, and a missing file is one line."""
    code, _, err = run("plugins", "--objects", config.with_name("objects.yaml"))
    assert (code, "add --check NAME" in err) == (2, True)
    code, _, err = run("bench", "--config", config, "--objects", "absent.yaml")
    assert (code, err) == (1, "error: absent.yaml: no such file or directory\n")


@pytest.mark.slow
def test_check_has_the_objects_of_a_file(config: Path, run: Run) -> None:
    """Without the object the plugin never passes a pod."""
    objects = config.with_name("objects.yaml")
    code, out, err = run("plugins", "--check", "RateLimits", "--histories", 2, "--objects", objects)
    assert (code, err) == (0, "")
    assert "passes" in out
