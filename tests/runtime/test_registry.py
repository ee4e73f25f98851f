"""Plugins by name."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import attrs
import pytest

from pyscheduler.framework import ConfigError, ExtensionPoint, Plugin, PluginError, PreEnqueuePlugin
from pyscheduler.runtime.assembly.registry import Distribution, Registry


@attrs.frozen
class QuotaArgs:
    limit: int = 1


class Quota(PreEnqueuePlugin):
    """Keep pods back.

    At length.
    """

    args_type = QuotaArgs


class Other(Plugin):
    name = "Quota"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Give the name of a module that is importable and not imported yet; its text is the test's parameter."""
    name = f"registry_example_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(getattr(request, "param", ""), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


NESTED = """
from pyscheduler.framework import Plugin

class Outer:
    class Quota(Plugin):
        pass
"""


@pytest.mark.parametrize("module", [NESTED], indirect=True)
def test_a_class_is_imported_when_it_is_loaded(module: str) -> None:
    """Knowing a plugin imports nothing; loading it does."""
    registry = Registry()
    registry.add("Quota", f"{module}:Outer.Quota")
    assert registry.names() == ["Quota"]
    assert module not in sys.modules
    assert registry.load("Quota").__name__ == "Quota"
    assert module in sys.modules


@pytest.mark.parametrize(
    ("module", "path", "cause"),
    [
        pytest.param("import nothing_of_that_name", "Quota", "ModuleNotFoundError: No module named", id="an import"),
        pytest.param("1 / 0", "Quota", "ZeroDivisionError: division by zero", id="an exception"),
        pytest.param("def broken(:", "Quota", "SyntaxError: ", id="a syntax error"),
        pytest.param("import sys\nsys.exit('over and\\nout')", "Quota", "SystemExit: over and out", id="an exit"),
        pytest.param("", "Quota", "AttributeError: module", id="a class that is not there"),
        pytest.param("Quota = 3", "Quota", "is not a class that inherits", id="no class"),
        pytest.param("class Quota: pass", "Quota", "is not a class that inherits", id="no plugin"),
        pytest.param(NESTED.replace("Quota", "Share"), "Outer.Share", 'calls itself "Share"', id="another name"),
    ],
    indirect=["module"],
)
def test_a_plugin_that_does_not_load_is_one_line(module: str, path: str, cause: str) -> None:
    """What fails at import is told in one line that names plugin, distribution and cause."""
    registry = Registry()
    registry.registrar(Distribution(name="acme-quota", version="1.2")).add("Quota", f"{module}:{path}")
    with pytest.raises(ConfigError) as caught:
        registry.load("Quota")
    text = str(caught.value)
    assert f'plugin "Quota" of acme-quota 1.2 ({module}:{path})' in text
    assert cause in text
    assert "\n" not in text


@pytest.mark.parametrize("module", ["raise ValueError('x' * 5000)"], indirect=True)
def test_an_endless_cause_is_cut(module: str) -> None:
    """A message stays readable however much an exception has to say."""
    registry = Registry()
    registry.add("Quota", f"{module}:Quota")
    with pytest.raises(ConfigError, match=r"x\.\.\.$") as caught:
        registry.load("Quota")
    assert len(str(caught.value)) < 1000


def test_two_plugins_of_one_name_are_fatal_only_when_loaded() -> None:
    """Both distributions are named, and nobody is bothered who does not enable the plugin."""
    registry = Registry()
    registry.registrar(Distribution(name="acme", version="1")).add("Quota", Quota)
    registry.registrar(Distribution(name="bolt", version="2")).add("Quota", Other)
    assert registry.names() == ["Quota"]
    with pytest.raises(ConfigError, match=r"acme 1 .* and bolt 2 .*uninstall or block one"):
        registry.load("Quota")
    assert registry.args_type("Quota") is None


def test_the_same_class_twice_is_no_conflict() -> None:
    """A package's own test may add the class that the installed package offers already."""
    registry = Registry()
    registry.registrar(Distribution(name="acme")).add("Quota", f"{Quota.__module__}:Quota")
    registry.add("Quota", Quota)
    assert len(registry.describe()) == 1


def test_an_unknown_plugin_is_answered_with_the_nearest_name() -> None:
    """A slip of the pen is put right in the message."""
    registry = Registry()
    registry.add("Quota", Quota)
    with pytest.raises(ConfigError, match=r'^plugin "Qouta" does not exist, did you mean "Quota"\?$'):
        registry.load("Qouta")
    with pytest.raises(ConfigError, match=r'^plugin "Zebra" does not exist$'):
        registry.load("Zebra")


def test_an_unknown_plugin_points_at_distributions_that_gave_none() -> None:
    """The plugin that is missing may belong to the distribution that is broken or blocked."""
    registry = Registry()
    registry.distributions.append(Distribution(name="acme", version="1", errors=["ImportError: no"]))
    registry.distributions.append(Distribution(name="bolt", version="2", blocked=True))
    with pytest.raises(ConfigError, match=r"does not exist \(acme 1 is broken: ImportError: no; bolt 2 is blocked\)"):
        registry.load("Quota")


@pytest.mark.parametrize(
    ("name", "plugin", "message"),
    [
        pytest.param("", Quota, "expected its name", id="no name"),
        pytest.param(7, Quota, "expected its name", id="a name that is no text"),
        pytest.param("Quota", "acme.plugin", 'expected "module:Class"', id="no class in the path"),
        pytest.param("Quota", ":Quota", 'expected "module:Class"', id="no module in the path"),
        pytest.param("Quota", object, "a class inheriting from Plugin", id="another class"),
        pytest.param("Quota", Quota(), "a class inheriting from Plugin", id="an object"),
    ],
)
def test_what_can_be_no_plugin_is_refused(name: str, plugin: type[Plugin], message: str) -> None:
    """A hook that registers nonsense hears of it at once."""
    with pytest.raises(PluginError, match=re.escape(message)):
        Registry().add(name, plugin)


def test_plugins_are_described() -> None:
    """A description says where a plugin is from, where it takes part, and with which args."""
    registry = Registry()
    distribution = Distribution(name="acme", version="1")
    registry.registrar(distribution).add("Quota", Quota)
    registry.registrar(distribution).add("Absent", "no.such:Absent")
    absent, quota = registry.describe()
    assert (quota.name, quota.distribution, quota.version) == ("Quota", "acme", "1")
    assert quota.extension_points == (ExtensionPoint.PRE_ENQUEUE,)
    assert quota.args_type is QuotaArgs is registry.args_type("Quota")
    assert quota.summary == "Keep pods back."
    assert not quota.error
    assert "ModuleNotFoundError" in absent.error
    assert distribution.plugins == ["Quota", "Absent"]
    assert "Quota" in registry
