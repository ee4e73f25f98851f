"""Modules that have moved are found by their old names, for one version."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest

from pyscheduler import moved
from tests import processes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *moved._MOVED.items(),
        ("pyscheduler.simulation.workloads.controllers", "kube_testserver.workloads.controllers"),
        ("pyscheduler.simulation.batch_cases.tables", "pyscheduler_lab.simulation.batch_cases.tables"),
        ("pyscheduler.audit.checker", "pyscheduler_lab.audit.checker"),
        ("pyscheduler.api.quantity", "kube_objects.quantity"),
        ("pyscheduler.cel.parser", "kube_cel.parser"),
        ("pyscheduler.cluster.embedded.schema.unknown_fields", "kube_testserver.schema.unknown_fields"),
    ],
)
def test_an_old_name_gives_the_module_of_the_new_one(old: str, new: str) -> None:
    """It is the same module, which nothing has changed, and a warning says where it is now."""
    wanted = import_module(new)
    spec = wanted.__spec__
    sys.modules.pop(old, None)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = import_module(old)
    # The first import of a package's module imports the package, too.
    assert f"{old} is {new} now; the old name goes with the next version" in {str(each.message) for each in seen}
    assert found is wanted
    assert found.__spec__ is spec
    assert found.__name__ == new


def test_a_module_can_be_imported_from_its_old_package() -> None:
    """So authors of policies have written it."""
    sys.modules.pop("pyscheduler.batch", None)
    with pytest.warns(DeprecationWarning, match="pyscheduler.batch is pyscheduler_batch now"):
        from pyscheduler.batch import contract
    assert contract is import_module("pyscheduler_batch.contract")


def test_other_names_are_as_unknown_as_before() -> None:
    """The finder answers for what has moved only."""
    assert find_spec("pyscheduler.nothing") is None
    assert find_spec("pyscheduler_unknown") is None


@pytest.mark.slow
def test_an_old_name_is_imported_first() -> None:
    """Where nothing else was imported before, the module comes once, with its package."""
    code = (
        "from pyscheduler.simulation.workloads.controllers import WorkloadControllers as old\n"
        "from kube_testserver.workloads.controllers import WorkloadControllers as new\n"
        "print(old is new)\n"
    )
    assert processes.run(sys.executable, "-c", code, check=True).stdout == "True\n"
