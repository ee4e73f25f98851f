"""Finding installed plugins."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pyscheduler.framework import ConfigError
from pyscheduler.runtime.assembly import registry as registry_module
from pyscheduler.runtime.assembly.discovery import discover

GOOD = """
from pyscheduler.framework import hookimpl

@hookimpl
def pyscheduler_register(registry):
    registry.add("{plugin}", "acme.plugin:{plugin}")
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Give a function that installs a distribution with one hook module, as pip would leave it."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, code: str, *, version: str = "1.0") -> None:
        module = f"{name.replace('-', '_')}_{abs(hash(tmp_path))}"
        (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[pyscheduler]\n{name}-entry = {module}\n", encoding="utf-8")

    return make


def test_in_tree_plugins_come_through_the_door_of_everybody() -> None:
    """kube-scheduler's plugins are those of a distribution called kube-pyscheduler, and load."""
    registry = discover()
    ours = next(each for each in registry.distributions if each.name == "kube-pyscheduler")
    assert not ours.errors
    assert ours.version
    assert {"PrioritySort", "DefaultBinder", "NodeResourcesFit"} <= set(ours.plugins)
    assert registry.load("PrioritySort").name == "PrioritySort"


def test_an_installed_distribution_is_found(install: Install) -> None:
    """A package that pip installed is known by name and version, unasked."""
    install("acme-quota", GOOD.format(plugin="Quota"), version="2.1")
    registry = discover()
    found = next(each for each in registry.distributions if each.name == "acme-quota")
    assert (found.version, found.plugins, found.errors) == ("2.1", ["Quota"], [])
    assert found.entry_point.startswith("acme-quota-entry = ")
    assert "Quota" in registry


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param("import nothing_of_that_name", "ModuleNotFoundError: No module", id="does not import"),
        pytest.param("raise SystemExit(3)", "SystemExit: 3", id="exits"),
        pytest.param("x = 1", "implements no hook", id="has no hook"),
        pytest.param(
            GOOD.format(plugin="Q").replace("_register(", "_regster("),
            "rename it to pyscheduler_register",
            id="misspelt hook",
        ),
        pytest.param(
            GOOD.format(plugin="Q").replace("(registry)", "(reg)"),
            "write def pyscheduler_register(registry)",
            id="parameter",
        ),
        pytest.param(
            GOOD.format(plugin="Q").replace("def ", "async def "),
            "with async; write def pyscheduler_register",
            id="async",
        ),
        pytest.param(GOOD.format(plugin="Q") + "    1 / 0\n", "ZeroDivisionError", id="hook raises"),
        pytest.param(GOOD.format(plugin=""), "expected its name", id="registers nonsense"),
    ],
)
def test_a_broken_distribution_takes_no_other_down(
    install: Install, code: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What is wrong with one distribution is recorded with it; those after it in the alphabet are found."""
    install("acme-broken", code)
    install("acme-good", GOOD.format(plugin="Quota"))
    with caplog.at_level(logging.WARNING):
        registry = discover()
        discover()
    broken = next(each for each in registry.distributions if each.name == "acme-broken")
    assert len(broken.errors) == 1
    assert error in broken.errors[0]
    assert "\n" not in broken.errors[0]
    assert "Quota" in registry
    assert "PrioritySort" in registry
    assert caplog.text.count('distribution="acme-broken 1.0"') == 1, "it is mentioned once"


def asking_for(version: str) -> str:
    """Return the code of a hook that requires a version of the plugin API first."""
    return GOOD.format(plugin="Quota").replace(
        "    registry.add", f"    registry.require_api({version})\n    registry.add"
    )


@pytest.mark.parametrize(
    ("version", "error"),
    [
        pytest.param(
            '"1.1"', "needs plugin API 1.1, and pyscheduler has 1.0; install a newer kube-pyscheduler", id="newer"
        ),
        pytest.param(
            '"2.0"', "needs plugin API 2.0, and pyscheduler has 1.0; install a newer kube-pyscheduler", id="next"
        ),
        pytest.param('"0.9"', "has 1.0; install a newer version of the distribution", id="former"),
        pytest.param('"1"', "takes a version such as \"1.0\", not '1'", id="no minor"),
        pytest.param("1.0", 'takes a version such as "1.0", not 1.0', id="a number"),
    ],
)
def test_a_distribution_for_another_plugin_api_is_broken(
    install: Install, monkeypatch: pytest.MonkeyPatch, version: str, error: str
) -> None:
    """Nothing of it can be enabled, and whoever tries it reads which package to replace."""
    monkeypatch.setattr(registry_module, "PLUGIN_API", "1.0")
    install("acme-quota", asking_for(version))
    registry = discover()
    with pytest.raises(ConfigError, match=re.escape(error)) as failure:
        registry.load("Quota")
    assert "acme-quota 1.0 is broken" in str(failure.value)


@pytest.mark.parametrize("offered", ["1.3", "1.4"])
def test_a_distribution_for_an_older_minor_version_is_loaded(
    install: Install, monkeypatch: pytest.MonkeyPatch, offered: str
) -> None:
    """Additions to the plugin API break nobody."""
    monkeypatch.setattr(registry_module, "PLUGIN_API", offered)
    install("acme-quota", asking_for('"1.3"'))
    assert "Quota" in discover()


@pytest.mark.parametrize(
    "blocked",
    [pytest.param("acme-quota", id="the distribution"), pytest.param("acme-quota-entry", id="the entry point")],
)
def test_a_blocked_distribution_is_not_even_imported(install: Install, blocked: str) -> None:
    """Blocking by either name leaves a distribution out and says so."""
    install("acme-quota", "raise AssertionError('imported')")
    registry = discover(blocked=[blocked])
    found = next(each for each in registry.distributions if each.name == "acme-quota")
    assert found.blocked
    assert not found.errors


def test_two_plugins_with_one_name_are_recorded(install: Install) -> None:
    """Both offers are kept; only who enables the plugin is told to choose."""
    install("acme-one", GOOD.format(plugin="Quota"))
    install("acme-two", GOOD.format(plugin="Quota").replace("acme.plugin", "acme.other"))
    registry = discover()
    with pytest.raises(ConfigError, match=r"acme-one 1\.0 .* and acme-two 1\.0"):
        registry.load("Quota")
    assert [each.distribution for each in registry.describe() if each.name == "Quota"] == ["acme-one", "acme-two"]


def test_one_module_under_two_entry_points_registers_once(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A distribution that lists its hook module twice offers its plugins once."""
    install("acme-quota", GOOD.format(plugin="Quota"))
    points = next(tmp_path.glob("*.dist-info")) / "entry_points.txt"
    text = points.read_text(encoding="utf-8")
    points.write_text(f"{text}again = {text.partition(' = ')[2]}", encoding="utf-8")
    registry = discover()
    assert [each.distribution for each in registry.describe() if each.name == "Quota"] == ["acme-quota"]
    assert not caplog.text
