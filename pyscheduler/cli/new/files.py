"""Make the files of a new plugin's Python package from an example plugin.

The files contain code only for the extension points that the user chose.
"""

from __future__ import annotations

import ast
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["POINTS", "NewPlugin"]

#: The longest line in which a list of names is written.
_WIDTH: Final = 100
#: Points whose answers about nodes the equivalence cache may keep.
_JUDGES: Final = frozenset({"filter", "score"})


@attrs.frozen(kw_only=True)
class _Point:
    """The names of methods and tests of one extension point in the example.

    `on_pods` and `on_nodes` are the values of the label for which the plugin does something. `event` is the kind of
    object whose changes retry a rejected pod.
    """

    methods: tuple[str, ...]
    tests: tuple[str, ...]
    on_pods: str = ""
    on_nodes: str = ""
    event: str = ""


#: In the order of a scheduling cycle.
POINTS: Final = {
    "preEnqueue": _Point(
        methods=("pre_enqueue",), tests=("pod_is_held_until_its_label_changes",), on_pods="hold", event="POD"
    ),
    "queueSort": _Point(methods=("sort_key",), tests=("pods_of_a_higher_priority_come_first",)),
    "preFilter": _Point(
        methods=("pre_filter",), tests=("pod_is_rejected_until_its_label_changes",), on_pods="reject", event="POD"
    ),
    "filter": _Point(methods=("filter_nodes",), tests=("pod_avoids_closed_nodes",), on_nodes="closed", event="NODE"),
    "postFilter": _Point(methods=("post_filter",), tests=("message_says_that_no_room_was_made",)),
    "preScore": _Point(methods=("pre_score",), tests=("pod_that_does_not_care_is_not_scored",), on_pods="any"),
    "score": _Point(
        methods=("score_nodes", "normalize_scores"),
        tests=("node_with_the_highest_number_is_preferred",),
        on_nodes="7",
    ),
    "reserve": _Point(
        methods=("reserve", "unreserve", "pod_deleted"),
        tests=("records_follow_the_pod", "unreserve_may_be_called_twice"),
    ),
    "permit": _Point(
        methods=("permit", "pod_updated"),
        tests=("pod_waits_until_its_label_changes", "wait_ends_after_its_time"),
        on_pods="wait",
        event="POD",
    ),
    "preBind": _Point(
        methods=("pre_bind_pre_flight", "pre_bind"),
        tests=(
            "annotation_is_written_before_the_binding",
            "pod_is_retried_if_the_annotation_cannot_be_written",
        ),
        on_pods="stamp",
    ),
    "bind": _Point(
        methods=("bind",),
        tests=(
            "pods_are_bound_here_or_left_to_the_next_plugin",
            "other_pods_are_bound_by_the_default_plugin",
        ),
        on_pods="bind",
    ),
    "postBind": _Point(methods=("post_bind",), tests=("bound_pods_are_counted",)),
}


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
        package = {
            "every_point/__init__.py": _keep,
            "every_point/py.typed": _keep,
            "every_point/hooks.py": _keep,
            "every_point/plugin.py": self._plugin,
            "tests/test_every_point.py": self._tests,
        }
        rest = {
            "pyproject.toml": _with_range,
            ".gitignore": _keep,
            "profile.yaml": self._profile,
            ".github/workflows/ci.yaml": _keep,
        }
        example = _example()
        made = {path: change((example / path).read_text(encoding="utf-8")) for path, change in (rest | package).items()}
        made["README.md"] = _README.replace("POINTS", ", ".join(self.points))
        return {self._rename(path): self._rename(text) for path, text in made.items()}

    def _rename(self, text: str) -> str:
        names = {"EveryPoint": self.name, "every_point": self.package, "every-point": self.distribution}
        return re.sub("EveryPoint|every[_-]point", lambda found: names[found[0]], text)

    @property
    def _judges(self) -> bool:
        return not _JUDGES.isdisjoint(self.points)

    @property
    def _can_reuse(self) -> bool:
        return self._judges and {"preFilter", "preScore"}.isdisjoint(self.points)

    def _profile(self, text: str) -> str:
        """Return the profile without the lines of points that the plugin does not have."""
        for point in {"queueSort", "bind"}.difference(self.points):
            text = re.sub(rf"^ {{6}}{point}:\n(?: {{8}}.*\n)+", "", text, flags=re.MULTILINE)
        return text

    def _plugin(self, text: str) -> str:
        """Return the module of the plugin with the methods of its points, and what these use."""
        others = [POINTS[point] for point in POINTS if point not in self.points]
        events = {POINTS[point].event for point in self.points} - {""}
        without = {method for point in others for method in point.methods}
        without |= set() if events else {"events_to_register"}
        without |= set() if self._judges else {"sign_pod"}
        without |= set() if "preBind" in self.points else {"rbac"}
        for kind in {"POD", "NODE"} - events:
            text = re.sub(rf"^.*\(EventResource\.{kind}, .*\n", "", text, flags=re.MULTILINE)
        text = _drop(text, lambda node: not without.isdisjoint(_defined(node)))
        text = _drop(text, lambda node: _is_unused(node, text))
        text = _drop(text, lambda node: isinstance(node, ast.FunctionDef) and _only_calls_super(node))
        if self._can_reuse:
            text = re.sub(r"\n\n    (?=(async )?def )", _REUSE, text, count=1)
            text = text.replace("    ScorePlugin,\n", "    Reuse,\n    ScorePlugin,\n")
            text = re.sub(r": its label\.\"\"\"\n.*SignFragment\(.*\n", ': nothing."""\n        return ()\n', text)
        extra = ["EnqueueExtensions"] * bool(events) + ["SignPlugin"] * self._judges
        shown = ", ".join(bases := [*(f"{point[0].upper()}{point[1:]}Plugin" for point in self.points), *extra])
        if len(shown) > _WIDTH - len(self.name):
            shown = "\n" + "".join(f"    {base},\n" for base in bases)
        return _with_used_imports(re.sub(r"(?<=^class EveryPoint\()[^)]*", shown, text, flags=re.MULTILINE))

    def _tests(self, text: str) -> str:
        """Return the tests of the plugin's points, on clusters that have the labels of these points."""
        without = {f"test_{test}" for point in POINTS if point not in self.points for test in POINTS[point].tests}
        disabled = ["PrioritySort"] * ("queueSort" in self.points) + ["DefaultBinder"] * ("bind" in self.points)
        shown = f", disable=[{_quoted(disabled)}]" if disabled else ""
        text = text.replace(', disable=["PrioritySort", "DefaultBinder"]', shown)
        if "bind" not in self.points:
            text = text.replace('[EveryPoint, "DefaultBinder"]', "[EveryPoint]")
            text = text.replace(', with_plugins=["DefaultBinder"]', "")
        labels = {
            "node_labels": [value for point in self.points if (value := POINTS[point].on_nodes)],
            "pod_labels": [value for point in self.points if (value := POINTS[point].on_pods)],
        }
        for field, values in labels.items():
            line = f"    draft.{field}[LABEL] = [{_quoted(values)}]\n" if values else ""
            text = re.sub(rf"^.*draft\.{field}\[.*\n", line, text, flags=re.MULTILINE)
        if not any(labels.values()):
            without.add("draw")
            text = text.replace("draw=draw, ", "")
        text = _drop(text, lambda node: not without.isdisjoint(_defined(node)))
        return _with_used_imports(_drop(text, lambda node: _is_unused(node, text)))


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def _keep(text: str) -> str:
    return text


def _with_range(text: str) -> str:
    """Return `pyproject.toml` with the versions of pyscheduler that have the plugin API of the installed version."""
    return re.sub(r'(?<="kube-pyscheduler)[^"]*', _range(version("kube-pyscheduler")), text)


def _example() -> Path:
    """Return the folder of the example: a part of an installed wheel, beside the package in a source tree."""
    installed = Path(__file__).parent / "every_point"
    return installed if installed.exists() else Path(__file__).parents[3] / "examples/16-every-point"


def _defined(node: ast.AST) -> set[str]:
    """Return the names that a statement of a module, class or constructor defines; attributes of `self` included."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {ast.unparse(target) for target in targets}


def _is_unused(node: ast.stmt, text: str) -> bool:
    """Return True if nothing else in the text has the name that a statement defines or registers."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        handlers = [keyword.value for keyword in node.value.keywords]
        return any(isinstance(value, ast.Attribute) and f"def {value.attr}(" not in text for value in handlers)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _defined(node) <= {"args_type", "args", "rbac"}:
        return False
    return all(len(re.findall(rf"\b{name}\b", text)) == 1 for name in _defined(node))


def _only_calls_super(node: ast.FunctionDef) -> bool:
    return node.name == "__init__" and len(node.body) == 1


def _drop(text: str, unwanted: Callable[[ast.stmt], bool]) -> str:
    """Return a module without the unwanted statements of the module, its classes and their constructors."""
    lines = text.splitlines(keepends=True)
    pending: list[ast.stmt] = [*ast.parse(text).body]
    while pending:
        node = pending.pop()
        if not unwanted(node):
            if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and node.name == "__init__"):
                pending += node.body
            continue
        first, end = node.lineno - 1, node.end_lineno or node.lineno
        while lines[first - 1].lstrip().startswith("#:"):
            first -= 1
        while isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not lines[first - 1].strip():
            first -= 1
        lines[first:end] = [""] * (end - first)
    return re.sub(r"\n{4,}", "\n\n\n", "".join(lines))


def _with_used_imports(text: str) -> str:
    """Return a module without the names that it imports and does not use."""
    tree = ast.parse(text)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    last = max(node.end_lineno or 0 for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    lines = text.splitlines(keepends=True)
    blocks = ["\n".join(_imports(block, used)) for block in "".join(lines[:last]).rstrip().split("\n\n")]
    return "\n\n".join(block for block in blocks if block) + "\n" + "".join(lines[last:])


def _imports(block: str, used: set[str]) -> Iterable[str]:
    """Return the statements of a block of imports, with the used names only."""
    for node in ast.parse(block).body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            yield ast.get_source_segment(block, node) or ""
            continue
        kept = [alias for alias in node.names if (alias.asname or alias.name) in used]
        if kept and isinstance(node, ast.Import):
            yield ast.unparse(node)
        elif kept and isinstance(node, ast.ImportFrom):
            line = f"from {node.module} import {', '.join(alias.name for alias in kept)}"
            long = f"from {node.module} import (\n" + "".join(f"    {alias.name},\n" for alias in kept) + ")"
            yield line if len(line) <= _WIDTH else long


def _words(name: str) -> list[str]:
    """Return the words of a name in CamelCase, in lower case; an abbreviation is one word."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+", name)]


def _range(installed: str) -> str:
    """Return the versions with the plugin API of the installed version: `>=0.2,<0.3`, from 1.0 on `>=1.2,<2`."""
    major, minor = (int(number) for number in re.findall(r"\d+", installed)[:2])
    # `>=0.3` does not allow a pre-release of 0.3.
    least = f"{major}.{minor}" if re.fullmatch(r"[\d.]+", installed) else installed
    return f">={least},<{major + 1}" if major else f">={least},<0.{minor + 1}"


_REUSE: Final = """
    # Answers depend on the node object only, so they hold until the node changes.
    reuse = Reuse.WHILE_NODE_STAYS

    """

#: The example has a README of its own, as a page of the documentation.
_README: Final = """\
# every-point

A plugin for pyscheduler (`pip install kube-pyscheduler`): `EveryPoint`, at the extension points POINTS.

```sh
pip install -e . pytest mypy     # in a virtual environment
pytest && mypy
pyscheduler plugins              # lists EveryPoint
pyscheduler run --kubeconfig ~/.kube/config --config profile.yaml --reload
```

| file | content |
|---|---|
| `every_point/plugin.py` | the plugin and its args |
| `every_point/hooks.py` | the hook that the entry point in `pyproject.toml` names |
| `profile.yaml` | a configuration that enables the plugin |
| `tests/test_every_point.py` | tests on a fake cluster in virtual time, and the check of the contract of plugins |
"""
