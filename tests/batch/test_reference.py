"""The page docs/reference/batch.md has what the code has: tables, arguments, reasons, events and warnings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyscheduler.framework import ConfigError
from pyscheduler_batch.batch_args import BatchArgs, PolicyEntry
from pyscheduler_batch.configured import make_actions, make_tiers
from pyscheduler_batch.queue_problems import _TEXTS
from pyscheduler_batch.settings.configuration import _PARTS, _SETTINGS, batch_args
from pyscheduler_batch.systems import presets
from pyscheduler_batch.usage.settings import KEYS, PARAMETERS
from pyscheduler_lab.simulation.batch_cases.preset_import import system_of
from pyscheduler_volcano.preset import VOLCANO
from tests.batch.reference_tables import ARGUMENTS, PAGE, TABLES, known_arguments, missing_names, written

ROOT = Path(__file__).parents[2]
TEXT = PAGE.read_text(encoding="utf-8")
SYSTEMS = (
    "plugins/kai/pyscheduler_kai",
    "plugins/volcano/pyscheduler_volcano",
    "plugins/kube-batch/pyscheduler_kube_batch",
)
#: Where reasons why a job waits come from.
SOURCES = ("plugins/batch/pyscheduler_batch", *SYSTEMS)
#: Where flags of policies are followed.
ROOMS_OF_FLAGS = ("plugins/batch/pyscheduler_batch/model", "plugins/batch/pyscheduler_batch/sessions", *SYSTEMS)
#: Functions whose argument with this index is a reason of a job.
REASON_OF = {"Refusal": 0, "record": 1}
_REASON = re.compile(r"[A-Z][A-Za-z]+")


def section(heading: str) -> str:
    """Return the text under a heading of the page."""
    return TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def first_cells(heading: str) -> set[str]:
    """Return the names in the first column of the tables of a section."""
    rows = re.findall(r"^\| (`[^|]+) \|", section(heading), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def trees(*folders: str) -> Iterator[ast.Module]:
    """Yield the modules in folders; by default those that decide about jobs."""
    for folder in folders or SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name == "preset.py":  # it lists names
                continue
            yield ast.parse(path.read_text(encoding="utf-8"))


def reasons() -> set[str]:
    """Return the reasons of queues, and those that calls name."""
    found = set(_TEXTS)
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                index = REASON_OF.get(name)
                if index is not None and len(node.args) > index and isinstance(node.args[index], ast.Constant):
                    found.add(str(node.args[index].value))
    return found


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.stem)
def test_the_tables_follow_from_the_code(page: Path) -> None:
    """`python -m tests.batch.reference_tables` changes nothing."""
    assert written(page) == page.read_text(encoding="utf-8")


def test_every_argument_has_a_row() -> None:
    """The arguments of the page are those of the actions and policies that exist."""
    described = [(preset, owner, name) for (preset, owner), rows in ARGUMENTS.items() for name, _, _ in rows]
    assert sorted(described) == sorted(known_arguments())


def test_every_key_of_the_args_has_a_row() -> None:
    """The args of the plugin on the page are those that are read."""
    assert first_cells("Arguments of the plugin") == {*_SETTINGS, *_PARTS}


def test_every_key_of_past_use_has_a_row() -> None:
    """The keys of `usageDBConfig` on the page are those that are read."""
    keys = {key for key in KEYS if key != "usageParams"} | {f"usageParams.{key}" for key in PARAMETERS}
    assert first_cells("Time-based fair shares") == keys


@pytest.mark.parametrize("name", presets())
def test_the_default_actions_of_the_page_are_those_of_the_preset(name: str) -> None:
    """The row of each preset lists its actions in order."""
    row = next(line for line in section("Presets").splitlines() if line.startswith(f"| `{name}`"))
    assert row.endswith(f"| {', '.join(presets()[name].actions)} |")


@pytest.mark.parametrize("name", presets())
def test_missing_names_are_refused(name: str) -> None:
    """A profile cannot use the actions and policies that the page calls missing."""
    actions, policies = missing_names(presets()[name])
    for action in actions:
        with pytest.raises(ConfigError, match=f'action "{action}"'):
            make_actions(BatchArgs(preset=name, actions=(action,), tiers=()), system_of(name))
    for policy in policies:
        with pytest.raises(ConfigError, match=f'policy "{policy}"'):
            make_tiers(BatchArgs(preset=name, actions=(), tiers=((PolicyEntry(name=policy),),)), system_of(name))


def test_each_name_of_volcano_that_does_not_exist_here_is_refused_by_name() -> None:
    """All of them at once, and the page about moving lists each of them."""
    actions = [name for name in VOLCANO.known_actions if name in VOLCANO.missing]
    policies = [name for name in VOLCANO.known_policies if name in VOLCANO.missing]
    assert {*actions, *policies} == VOLCANO.missing
    args = batch_args({"preset": "volcano", "actions": actions, "tiers": [policies]})
    problems = []
    for make in (make_actions, make_tiers):
        with pytest.raises(ConfigError) as raised:
            make(args, system_of(args.preset))
        problems += raised.value.problems
    end = 'of the preset "volcano" is not available; remove it'
    assert problems == [
        *(f'action "{name}" {end}' for name in actions),
        *(f'policy "{name}" {end}' for name in policies),
    ]
    page = (ROOT / "docs/how-to/move-from-volcano.md").read_text(encoding="utf-8")
    assert [name for name in VOLCANO.missing if not re.search(rf"\b{name}\b", page)] == []


@pytest.mark.slow
def test_every_reason_has_a_row() -> None:
    """Each reason that a policy, an action or the engine gives is explained, and each row is a reason in the code."""
    named = first_cells("Reasons why a job waits")
    literals = {
        node.value
        for tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _REASON.fullmatch(node.value)
    }
    assert not reasons() - named
    assert not named - literals


@pytest.mark.slow
def test_every_flag_that_is_followed_is_on_the_page() -> None:
    """The page names the flags that the sessions ask for; each is one that a preset knows."""
    flags = set(re.findall(r"`(enabled?[A-Z]\w+)`", section("Flags of a policy")))
    assert flags <= {flag for preset in presets().values() for flag in preset.flags}
    switches = {
        node.value
        for tree in trees(*ROOMS_OF_FLAGS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and re.fullmatch(r"enabled?[A-Z]\w+", str(node.value))
    }
    arguments = {each for preset in presets().values() for known in preset.known_actions.values() for each in known}
    assert flags == switches - arguments
