"""examples/15-cookbook: all recipes in one environment, each found, accepted by its profile, described and tested."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import test_docs
from tests.examples.conftest import ROOT, install, run

COOKBOOK = ROOT / "examples/15-cookbook"
RECIPES = sorted(path.parent for path in COOKBOOK.glob("*/pyproject.toml"))
#: A README fits on one screen.
MOST_LINES = 40
#: Runs a few histories per recipe and no second process, to be quick; by itself, a recipe's suite runs a hundred.
CONFTEST = """
from pyscheduler import testing

check_all = testing.check_plugin


def check_plugin(*args, checks=testing.CHECKS, **keywords):
    return check_all(*args, **keywords, histories=4, checks=[check for check in checks if check != "hash-seed"])


testing.check_plugin = check_plugin
"""

every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the environment variables of a program that has all recipes installed."""
    return install(RECIPES, tmp_path_factory.mktemp("cookbook"))


@pytest.fixture(scope="module")
def plugins(installed: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Give what `pyscheduler plugins` shows of the recipes, by distribution."""
    shown = run("-m", "pyscheduler", "plugins", "-o", "json", env=installed)
    assert shown.returncode == 0, shown.stderr
    return {row["distribution"]: row for row in json.loads(shown.stdout)["plugins"]}


def enabled_plugin(recipe: Path) -> str:
    """Return the plugin that a recipe's profile enables."""
    profile = yaml.safe_load((recipe / "profile.yaml").read_text(encoding="utf-8"))["profiles"][0]
    name: str = profile["plugins"]["multiPoint"]["enabled"][0]["name"]
    return name


@pytest.mark.slow
def test_each_recipe_is_found_with_the_args_that_its_readme_lists(plugins: dict[str, dict[str, Any]]) -> None:
    """`pyscheduler plugins` shows the plugin of each profile, at the points and with the args that pages name."""
    points = re.findall(r"\| `(\w+)` \| ([\w, ]+) \|", (COOKBOOK / "README.md").read_text(encoding="utf-8"))
    assert len(points) == len(RECIPES) == 10
    for recipe in RECIPES:
        row = plugins[f"{recipe.name}-plugin"]
        assert (row["name"], row["error"]) == (enabled_plugin(recipe), "")
        table = (recipe / "README.md").read_text(encoding="utf-8").split("|---|---|---|")[1]
        cells = re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", "".join(cells))) == set(row["args"]), recipe.name
        shown = {point.lower() for point in dict(points)[row["name"]].split(", ")}
        assert shown == {point.lower() for point in row["extensionPoints"]}, recipe.name


@pytest.mark.slow
def test_profiles_load_and_keep_the_cache(installed: dict[str, str], tmp_path: Path) -> None:
    """All profiles in one configuration are accepted, and no recipe turns the equivalence cache off."""
    loaded = [yaml.safe_load((recipe / "profile.yaml").read_text(encoding="utf-8")) for recipe in RECIPES]
    together = {**loaded[0], "profiles": [each["profiles"][0] for each in loaded]}
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump(together), encoding="utf-8")
    shown = run("-m", "pyscheduler", "plugins", "--config", path, "-o", "json", env=installed)
    assert shown.returncode == 0, shown.stderr
    caches = {name: profile["equivalenceCache"]["enabled"] for name, profile in json.loads(shown.stdout).items()}
    assert caches == dict.fromkeys([recipe.name for recipe in RECIPES], True)


@pytest.mark.slow
def test_their_own_tests_pass(installed: dict[str, str], tmp_path: Path) -> None:
    """The suites run on the installed packages, without settings of this repository, with warnings as errors."""
    for recipe in RECIPES:
        shutil.copytree(recipe / "tests", tmp_path / recipe.name / "tests")
        for extra in recipe.glob("*.yaml"):
            shutil.copy(extra, tmp_path / recipe.name)
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    options = ["-q", "-c", os.devnull, "--rootdir=.", "--import-mode=importlib", "-W", "error"]
    plugins = ["-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:randomly"]
    result = run("-m", "pytest", *options, *plugins, ".", env=installed, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped" not in result.stdout


@every_recipe
def test_pages_name_each_recipe(recipe: Path) -> None:
    """The README is short and its links work; the cookbook page and the table of the folder link to it."""
    page = recipe / "README.md"
    assert len(page.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    test_docs.check_links(page)
    for index in (COOKBOOK / "README.md", ROOT / "docs/how-to/cookbook.md"):
        assert f"{recipe.name}/README.md" in index.read_text(encoding="utf-8")
