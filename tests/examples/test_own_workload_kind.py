"""examples/14-own-workload-kind: installed with pip, found by its entry point, and tested by its own tests."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.examples.conftest import ROOT, install, run

if TYPE_CHECKING:
    pass

EXAMPLE = ROOT / "examples/14-own-workload-kind"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the environment variables of a program that has the example's distribution installed."""
    return install(EXAMPLE, tmp_path_factory.mktemp("example"))


def test_its_own_tests_pass(installed: dict[str, str]) -> None:
    """The tests of the package run outside of this repository's pytest settings."""
    done = run("-m", "pytest", "-q", "-c", os.devnull, "--rootdir=.", EXAMPLE / "tests", env=installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_its_kind_is_grouped_only_with_the_package(installed: dict[str, str]) -> None:
    """Without the package the generic rule counts."""
    plan = ("-m", "pyscheduler", "podgroup", "plan", "--cases", EXAMPLE / "cases.yaml")
    for env, minimum in ((installed, 4), ({}, 1)):
        (answer,) = json.loads(run(*plan, env=env).stdout)["actual"]
        assert answer["podGroup"]["minMember"] == minimum


def test_its_permission_is_printed(installed: dict[str, str]) -> None:
    """The kind is watched, so the account must be able to list it."""
    rbac = ("-m", "pyscheduler", "config", "--config", ROOT / "configs/podgrouper.yaml", "--rbac")
    assert "resources: [renderings]" in run(*rbac, env=installed).stdout
    assert "renderings" not in run(*rbac, env={}).stdout
