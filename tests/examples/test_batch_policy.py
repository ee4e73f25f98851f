"""examples/12-batch-policy: installed with pip, found, named by its profile, and tested by its own tests."""

from __future__ import annotations

import json
import os

import pytest

from tests.examples.conftest import ROOT, install, run

EXAMPLE = ROOT / "examples/12-batch-policy"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the environment variables of a program that has the example's distribution installed."""
    return install(EXAMPLE, tmp_path_factory.mktemp("example"))


def test_its_own_tests_pass(installed: dict[str, str]) -> None:
    """The tests of the package run outside of this repository's pytest settings."""
    done = run("-m", "pytest", "-q", "-c", os.devnull, "--rootdir=.", EXAMPLE / "tests", env=installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_plugins_lists_what_the_package_offers(installed: dict[str, str]) -> None:
    """The command names all below its distribution, as text and in JSON."""
    listed = run("-m", "pyscheduler", "plugins", env=installed)
    assert "deadline-policy 1.0.0" in listed.stdout
    assert '  policy "deadline" of batch profiles\n' in listed.stdout
    assert '  action "overdue" of batch profiles\n' in listed.stdout
    assert '  system "deadlines" of batch profiles\n' in listed.stdout
    as_json = json.loads(run("-m", "pyscheduler", "plugins", "-o", "json", env=installed).stdout)
    extensions = {each["name"]: each["extensions"] for each in as_json["distributions"]}
    assert extensions["deadline-policy"] == {"policy": ["deadline"], "action": ["overdue"], "system": ["deadlines"]}


def test_its_profile_is_accepted_only_with_the_package(installed: dict[str, str]) -> None:
    """Installed, the policy is found by its entry point; without the package the name is an error in one line."""
    rbac = ("-m", "pyscheduler", "config", "--config", EXAMPLE / "profile.yaml", "--rbac")
    assert run(*rbac, env=installed).returncode == 0
    refused = run(*rbac, env={})
    assert refused.returncode != 0
    assert "deadline" in refused.stderr
    assert "Traceback" not in refused.stderr
