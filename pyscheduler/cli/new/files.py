"""Render the files of a new plugin distribution: package, entry point, profile, tests, README, CI workflow."""

from __future__ import annotations

import re
from importlib.metadata import version
from string import Template
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.cli.new.points import POINTS, Part
from pyscheduler.framework.hooks import PLUGIN_API

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["NewPlugin"]

#: Points whose answers about nodes the equivalence cache may keep.
_JUDGES: Final = frozenset({"filter", "score"})
#: The longest line in which a list of names is written.
_WIDTH: Final = 100


@attrs.frozen(kw_only=True)
class NewPlugin:
    """A plugin to be written: its name (in CamelCase) and its extension points."""

    name: str
    points: Sequence[str]

    @property
    def package(self) -> str:
        """Return the name of the Python package."""
        return "_".join(_words(self.name))

    @property
    def distribution(self) -> str:
        """Return the name of the distribution."""
        return "-".join(_words(self.name))

    def files(self) -> Mapping[str, str]:
        """Return the text of each file by its path."""
        return {
            path: Template(text).substitute(self._names())
            for path, text in {
                "pyproject.toml": _PYPROJECT,
                ".gitignore": _GITIGNORE,
                "README.md": _README,
                "profile.yaml": _PROFILE + self._profile_points(),
                ".github/workflows/ci.yaml": _WORKFLOW,
                f"{self.package}/__init__.py": _INIT,
                f"{self.package}/py.typed": "",
                f"{self.package}/hooks.py": _HOOKS,
                f"{self.package}/plugin.py": self._plugin(),
                f"tests/test_{self.package}.py": self._tests(),
            }.items()
        }

    def _names(self) -> dict[str, str]:
        disabled = [*(["PrioritySort"] * ("queueSort" in self.points)), *(["DefaultBinder"] * ("bind" in self.points))]
        enabled = [self.name, *(['"DefaultBinder"'] * ("bind" in self.points))]
        shown = ", ".join(f'"{each}"' for each in disabled)
        disable = f", disable=[{shown}]" if disabled else ""
        draw = "draw=draw, " if self._draw else ""
        return {
            "Name": self.name,
            "package": self.package,
            "distribution": self.distribution,
            "metric": self.package,
            "api": PLUGIN_API,
            "range": _range(version("kube-pyscheduler")),
            "points": ", ".join(self.points),
            "framework": f"cluster.framework(enable=[{', '.join(enabled)}]{disable}",
            "without_binder": shown,
            "check": f"check_plugin({self.name}, {draw}histories=20{self._surroundings(disable)})",
        }

    @property
    def _draw(self) -> str:
        """Return the function that adds labels to random clusters; "" if the plugin reads none."""
        parts = self._parts
        labels = {
            "node_labels": [part.on_nodes for part in parts if part.on_nodes],
            "pod_labels": [part.on_pods for part in parts if part.on_pods],
        }
        lines = []
        for field, values in labels.items():
            shown = ", ".join(f'"{value}"' for value in values)
            lines += [f"    draft.{field}[LABEL] = [{shown}]\n"] if values else []
        return _DRAW + "".join(lines) if lines else ""

    def _surroundings(self, disable: str) -> str:
        return (', with_plugins=["DefaultBinder"]' if "bind" in self.points else "") + disable

    @property
    def _parts(self) -> list[Part]:
        return [POINTS[point] for point in self.points]

    @property
    def _can_reuse(self) -> bool:
        return not _JUDGES.isdisjoint(self.points) and {"preFilter", "preScore"}.isdisjoint(self.points)

    def _profile_points(self) -> str:
        """Return the lines of the profile for points of which there is one plugin, or whose order matters."""
        text = ""
        if "queueSort" in self.points:
            text += "      queueSort:\n        disabled: [{name: PrioritySort}]\n"
        if "bind" in self.points:
            text += "      bind:\n        # Bind plugins are called in this order.\n"
            text += "        disabled: [{name: '*'}]\n        enabled: [{name: $Name}, {name: DefaultBinder}]\n"
        return text

    def _plugin(self) -> str:
        parts, judges = self._parts, not _JUDGES.isdisjoint(self.points)
        events = list(dict.fromkeys(event for part in parts for event in part.events))
        bases = [part.base for part in parts] + ["EnqueueExtensions"] * bool(events) + ["SignPlugin"] * judges
        names = {*bases, *(name for part in parts for name in part.names)}
        names |= {"Pod", "SignFragment"} if judges else set()
        names |= {"Reuse"} if self._can_reuse else set()
        names |= {"ActionType", "ClusterEvent", "ClusterEventWithHint", "EventResource"} if events else set()
        init = "".join(part.init for part in parts)
        names |= {"Handle", "Pod"} if "Pod" in init else {"Handle"} if init else set()
        constants = [part.constant for part in parts if part.constant]
        lines = {"import attrs", *(line for part in parts for line in part.imports)}
        lines |= {"from collections.abc import Sequence"} if events or judges else set()
        lines |= {"from typing import Final"} if constants else set()
        lines |= {"from pyscheduler.framework.plugin_args import Duration"} if "permit" in self.points else set()
        lines |= {_from("pyscheduler", names - {"PolicyRule"})}
        lines |= {"from pyscheduler.framework import PolicyRule"} if "PolicyRule" in names else set()
        shown = ", ".join(bases)
        if len(shown) > _WIDTH - len(self.name):
            shown = "\n" + "".join(f"    {base},\n" for base in bases)
        body = [_CLASS.replace("$bases", shown)]
        if "preBind" in self.points:
            body.append(_RBAC)
        if self._can_reuse:
            body.append(_REUSE)
        text = "".join(body)
        methods = [_CONSTRUCTOR + init] if init else []
        methods += [part.methods for part in parts]
        if events:
            registered = "".join(f"            ClusterEventWithHint({event}),\n" for event in events)
            methods.append(_EVENTS.replace("$events", registered))
        if judges:
            methods.append(_SIGN_NOTHING if self._can_reuse else _SIGN)
        args = _ARGS + (_PATIENCE if "permit" in self.points else "")
        head = f'"""$Name: one example for each of its extension points; write yours instead."""\n\n{_imports(lines)}\n'
        head += "\n" + "\n".join(constants) + "\n" if constants else ""
        return f"{head}\n\n{args}\n\n{text}\n" + "\n".join(methods)

    def _tests(self) -> str:
        parts = self._parts
        lines = {"import pytest", "from $package.plugin import $Name"}
        names = {"FakeCluster", "check_plugin", *(name for part in parts for name in part.test_names)}
        found = {line.removeprefix("from pyscheduler import ") for part in parts for line in part.test_imports}
        lines |= {_from("pyscheduler", found)} if found else set()
        used = self._draw or any("LABEL" in part.test for part in parts)
        lines |= {"import random"} if self._draw else set()
        names |= {"Draft"} if self._draw else set()
        lines |= {_from("pyscheduler.testing", names)}
        label = '\nLABEL = "example.com/$distribution"\n' if used else ""
        head = _TEST_HEAD.replace("$imports", _imports(lines)).replace("$label", label).replace("$draw", self._draw)
        return head + "".join("\n\n" + part.test for part in parts)


def _words(name: str) -> list[str]:
    """Return the words of a name in CamelCase, in lower case; an abbreviation is one word."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+", name)]


def _from(module: str, names: Iterable[str]) -> str:
    """Return an import, on several lines if it is long; constants, classes and functions in this order."""
    ordered = sorted(names, key=lambda name: (name.islower(), name))
    line = f"from {module} import {', '.join(ordered)}"
    return line if len(line) <= _WIDTH else f"from {module} import (\n" + "".join(f"    {n},\n" for n in ordered) + ")"


def _imports(lines: Iterable[str]) -> str:
    """Return import lines in blocks: the standard library, other distributions, this package."""
    blocks: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for line in lines:
        module = line.split()[1].split(".")[0]
        blocks[0 if module in {"collections", "random", "typing"} else 2 if module == "$package" else 1].append(line)
    ordered = (sorted(block, key=lambda line: (line.startswith("from"), line.split()[1])) for block in blocks.values())
    return "\n\n".join("\n".join(block) for block in ordered if block)


def _range(installed: str) -> str:
    """Return the versions with the plugin API of the installed version: `>=0.2,<0.3`, from 1.0 on `>=1.2,<2`."""
    major, minor = (int(number) for number in re.findall(r"\d+", installed)[:2])
    # `>=0.3` does not allow a pre-release of 0.3.
    least = f"{major}.{minor}" if re.fullmatch(r"[\d.]+", installed) else installed
    return f">={least},<{major + 1}" if major else f">={least},<0.{minor + 1}"


_PYPROJECT: Final = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1.0"
description = "A pyscheduler plugin"
readme = "README.md"
requires-python = ">=3.11"
# The plugin API may change with the next minor version.
dependencies = ["kube-pyscheduler$range", "attrs", "numpy"]

# pyscheduler finds the plugin by this entry point.
[project.entry-points."pyscheduler"]
$distribution = "$package.hooks"

[dependency-groups]
test = ["pytest", "mypy"]

[tool.hatch.build.targets.wheel]
packages = ["$package"]

[tool.hatch.build.targets.sdist]
include = ["$package", "tests", "profile.yaml"]

[tool.pytest.ini_options]
testpaths = ["tests"]

[tool.mypy]
strict = true
files = ["$package", "tests"]
"""

_GITIGNORE: Final = """\
__pycache__/
*.egg-info/
.mypy_cache/
.pytest_cache/
.venv/
build/
dist/
"""

_INIT: Final = '''\
"""A pyscheduler plugin. `$Name` is its name in a profile."""
'''

_HOOKS: Final = '''\
"""What pyscheduler finds through the entry point: the class by name, imported only when a profile enables it."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugin."""
    registry.require_api("$api")
    registry.add("$Name", "$package.plugin:$Name")
'''

_PROFILE: Final = """\
# The default plugins and $Name, for pods with `schedulerName: $distribution`.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: $distribution
    pluginConfig:
      - name: $Name
        args:
          label: example.com/$distribution
    plugins:
      multiPoint:
        enabled: [{name: $Name}]
"""

_WORKFLOW: Final = """\
name: CI
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: pip install . pytest mypy
      - run: pytest
      - run: mypy
      - run: pyscheduler config --config profile.yaml
"""

_README: Final = """\
# $distribution

A plugin for pyscheduler (`pip install kube-pyscheduler`): `$Name`, at the extension points $points.

```sh
pip install -e . pytest mypy     # in a virtual environment
pytest && mypy
pyscheduler plugins              # lists $Name
pyscheduler run --kubeconfig ~/.kube/config --config profile.yaml --reload
```

| file | content |
|---|---|
| `$package/plugin.py` | the plugin and its args |
| `$package/hooks.py` | the hook that the entry point in `pyproject.toml` names |
| `profile.yaml` | a configuration that enables the plugin |
| `tests/test_$package.py` | tests on a fake cluster in virtual time, and the check of the contract of plugins |
"""

_ARGS: Final = '''\
@attrs.frozen(kw_only=True)
class ${Name}Args:
    """The args in `pluginConfig`; in the file, the keys are in camelCase."""

    label: str = "example.com/$distribution"
'''

_PATIENCE: Final = """\
    patience_seconds: Duration = 60.0
"""

_CLASS: Final = '''\
class $Name($bases):
    """What the plugin does, in one sentence."""

    args_type = ${Name}Args
    args: ${Name}Args
'''

_RBAC: Final = """\
    rbac = (PolicyRule(api_groups=("",), resources=("pods",), verbs=("patch",)),)
"""

_REUSE: Final = """\
    # Answers depend on the node object only, so they hold until the node changes.
    reuse = Reuse.WHILE_NODE_STAYS
"""

_CONSTRUCTOR: Final = """\
    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
"""

_EVENTS: Final = '''\
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events that can make a rejected pod schedulable."""
        return [
$events        ]
'''

_SIGN_NOTHING: Final = '''\
    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        """Return what the answers depend on in the pod: nothing."""
        return ()
'''

_SIGN: Final = '''\
    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        """Return what the answers depend on in the pod: its label."""
        return [SignFragment("$Name/label", pod.labels.get(self.args.label, ""))]
'''

_DRAW: Final = '''\


def draw(rng: random.Random, draft: Draft) -> None:
    """Give nodes and pods of the random clusters the labels that concern the plugin."""
'''

_TEST_HEAD: Final = '''\
"""$Name on a fake cluster: no API server to reach, no time that passes by itself."""

$imports
$label

@pytest.fixture(name="cluster")
def _cluster(pyscheduler_cluster: FakeCluster) -> FakeCluster:
    """Give a cluster of two nodes."""
    for name in ("n1", "n2"):
        pyscheduler_cluster.add_node(name, allocatable={"cpu": "4"})
    return pyscheduler_cluster
$draw

def test_plugin_keeps_the_contract() -> None:
    """`check_plugin` runs the plugin on random clusters, and reports what breaks the contract of plugins."""
    $check
'''
