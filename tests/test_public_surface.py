"""What others build on: public names exist and are documented, signatures keep the contract, imports stay light."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyscheduler
from pyscheduler import framework, moved
from tests import distributions, processes, public_api, signature_page

HEAVY = {"aiohttp", "click", "kubernetes", "numpy", "opentelemetry", "prometheus_client", "rich", "yaml"}


def modules_with_public_names(folder: Path) -> Iterator[str]:
    """Name every module of a package that assigns `__all__`, without importing or parsing it."""
    for path in sorted(folder.rglob("*.py")):
        if re.search(r"^__all__\b[^=\n]*=(?!=)", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.slow
@pytest.mark.parametrize("folder", distributions.FOLDERS, ids=lambda folder: folder.name)
def test_public_names_exist_and_are_documented(folder: Path) -> None:
    """Each name in `__all__` exists and is listed once; each of our classes and functions has a docstring."""
    names = list(modules_with_public_names(folder))
    assert names
    for name in names:
        module = importlib.import_module(name)
        values = {public: getattr(module, public) for public in module.__all__}
        assert len(values) == len(module.__all__), name
        ours = {
            public: value
            for public, value in values.items()
            if inspect.isclass(value) or inspect.isfunction(value)
            if value.__module__.startswith(("kube_", "pyscheduler"))
        }
        assert not [public for public, value in ours.items() if not value.__doc__], name


@pytest.mark.parametrize(
    ("label", "value"),
    [
        pytest.param(label, value, id=label)
        for value, label in enumerate(
            ["Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending"]
        )
    ],
)
def test_codes_have_the_numbers_and_labels_of_kube_scheduler(label: str, value: int) -> None:
    """A code's number and label are those that metrics and logs of kube-scheduler show."""
    assert framework.Code(value).label == label


def modules_after(statement: str) -> set[str]:
    """Name the top-level packages that a fresh interpreter has loaded after `statement`."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    result = processes.run(sys.executable, "-c", code, check=True)
    return set(result.stdout.splitlines()[-1].split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        pytest.param("import pyscheduler", set(), id="the package itself"),
        pytest.param("import pyscheduler.testing.pytest_plugin", set(), id="the pytest plugin"),
        pytest.param("import pyscheduler.plugins.hooks", {"numpy"}, id="the in-tree hook"),
        pytest.param(
            "from pyscheduler.__main__ import main\ntry: main(['--help'])\nexcept SystemExit: pass",
            {"click"},
            id="--help",
        ),
    ],
)
def test_importing_is_light(statement: str, allowed: set[str]) -> None:
    """What every user pays for at start, or in an unrelated pytest run, loads none of the large libraries."""
    assert not modules_after(statement) & (HEAVY - allowed)


def test_the_package_offers_what_it_lists() -> None:
    """`dir(pyscheduler)` shows the lazy names, so that editors and readers find them."""
    assert set(pyscheduler.__all__) <= set(dir(pyscheduler))


@pytest.mark.parametrize("folder", public_api.MODULES, ids=distributions.package_of)
def test_public_names_and_signatures_are_those_recorded(folder: Path) -> None:
    """No public name changes unnoticed; `python -m tests.public_api --write` records a change that is meant."""
    found = list(public_api.lines(folder))
    recorded = public_api.record_of(folder).read_text(encoding="utf-8").splitlines()
    assert not set(recorded) - set(found), "removed or changed: this raises the major version of PLUGIN_API"
    assert not set(found) - set(recorded), "added: this raises the minor version of PLUGIN_API after a release"


def test_a_name_from_another_distribution_is_recorded_there() -> None:
    """A changed signature in `kube_objects` or `kube_testserver` is noticed, because plugins import from them."""
    offered = {
        distributions.package_of(folder): [value for name in modules for value in public_api.names_of(name).values()]
        for folder, modules in public_api.MODULES.items()
    }
    assert not [
        value
        for values in offered.values()
        for value in values
        if (owner := public_api.owner_of(value)).startswith(("kube_", "pyscheduler"))
        and value not in offered.get(owner, [])
    ]


@pytest.mark.parametrize(
    ("package", "name", "module"),
    [
        *(("pyscheduler.framework", name, module) for name, module in moved.FRAMEWORK_NAMES.items()),
        ("pyscheduler.framework.plugin_args", "NodeResourcesFitArgs", "pyscheduler.framework.in_tree_args"),
    ],
)
def test_a_name_that_left_the_plugin_api_warns(package: str, name: str, module: str) -> None:
    """It is still there for one version, and the warning names the module that has it."""
    with pytest.warns(DeprecationWarning, match=f"{package}.{name} is removed in 0.4; use {module}"):
        old = getattr(importlib.import_module(package), name)
    assert old is getattr(importlib.import_module(module), name)


def test_page_of_signatures_is_that_of_the_code() -> None:
    """Authors read the parameters of each method there; `python -m tests.signature_page --write` makes it anew."""
    assert signature_page.PAGE.read_text(encoding="utf-8") == signature_page.text()
