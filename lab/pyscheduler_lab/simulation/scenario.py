"""Read scenario files: what happens in small clusters, step by step, and the expected results.

`docs/reference/scenarios.md` documents the format.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import yaml

from kube_testserver.manifests import UNREADABLE
from pyscheduler.framework.errors import ConfigError, os_error_text
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.podgroup import DialectTable

__all__ = [
    "CompletePods",
    "CreatePodGroup",
    "CreatePods",
    "DeletePodGroup",
    "DeletePods",
    "Expect",
    "FailBind",
    "NodeSpec",
    "Options",
    "ProfileSpec",
    "Restart",
    "Scenario",
    "ScenarioFile",
    "Step",
    "UpdateNode",
    "UpdatePodGroup",
    "UpdatePods",
    "load_scenarios",
    "read_scenarios",
]

PluginWord: TypeAlias = Literal["coscheduling", "gang", "intree"]

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
#: Number of pods by set.
_Counts: TypeAlias = dict[str, _Count]
_Texts: TypeAlias = dict[str, list[str]]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parts of a file: an unknown key is a mistake."""


class ProfileSpec(_Strict, frozen=True, kw_only=True, rename="camel"):
    """A scheduler profile in short form."""

    queue_sort: Literal["coscheduling", "gang", "priority"] = "priority"
    plugins: list[PluginWord] = []
    disable: dict[PluginWord, list[ExtensionPoint]] = {}
    args: dict[PluginWord, dict[str, Any]] = {}


class Options(_Strict, frozen=True, kw_only=True, rename="camel"):
    """Settings of the scheduler process; times in seconds."""

    preemption: bool = False
    pop_from_backoff_q: bool = msgspec.field(default=False, name="popFromBackoffQ")
    pod_initial_backoff_seconds: Annotated[int, msgspec.Meta(ge=1)] = 1
    pod_max_backoff_seconds: Annotated[int, msgspec.Meta(ge=1)] = 10
    unschedulable_flush_seconds: _Seconds = 300
    #: None: a plugin decides how long pods may wait.
    permit_max_seconds: _Seconds | None = None


class NodeSpec(_Strict, frozen=True, kw_only=True):
    """One node, or `count` nodes `name-0` and so on. CPU in cores, memory in Mi."""

    name: _Name
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    cpu: _Amount = 0
    gpu: _Count = 0
    mem: _Count = 1_048_576
    pods: _Count = 110
    labels: dict[str, str] = {}
    unschedulable: bool = False


class CreatePodGroup(_Strict, frozen=True, kw_only=True):
    """Create a PodGroup. `min` and `timeout` are written into the object without a check."""

    name: _Name
    ns: _Name = "default"
    dialect: str | None = None
    min: Any = msgspec.UNSET
    min_resources: dict[Literal["cpu", "gpu", "mem"], _Amount] = {}
    timeout: Any = msgspec.UNSET
    annotations: dict[str, Any] = {}
    #: Whether the API server must reject the object, or a part of the expected error.
    expect_error: bool | str = False


class UpdatePodGroup(_Strict, frozen=True, kw_only=True):
    """Change a PodGroup; a null annotation is removed."""

    name: _Name
    ns: _Name = "default"
    min: Any = msgspec.UNSET
    timeout: Any = msgspec.UNSET
    annotations: dict[str, Any] = {}


class DeletePodGroup(_Strict, frozen=True, kw_only=True):
    """Delete a PodGroup."""

    name: _Name
    ns: _Name = "default"


class CreatePods(_Strict, frozen=True, kw_only=True):
    """Create the pods `prefix-start` and so on."""

    prefix: _Name
    start: _Count = 0
    count: _Count = 1
    ns: _Name = "default"
    group: str = ""
    dialect: str | None = None
    cpu: _Amount = 1
    gpu: _Count = 0
    mem: _Count = 0
    priority: int = 0
    annotations: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    node_selector: dict[str, str] = {}
    gated: bool = False
    #: The node to which the pods are bound at creation.
    node: str = ""
    #: The phase of the pods at creation.
    phase: Literal["", "Pending", "Running", "Succeeded", "Failed"] = ""


class DeletePods(_Strict, frozen=True, kw_only=True):
    """Delete pods by name, or the first pods by name of a set that are in a state."""

    pods: list[_Name] = []
    of: str = ""
    state: Literal["", "bound", "waiting", "pending"] = ""
    count: _Count | None = None


class UpdatePods(_Strict, frozen=True, kw_only=True):
    """Change pods; a null annotation or an empty group is removed."""

    pods: list[_Name]
    group: str | None = None
    annotations: dict[str, Any] = {}
    ungate: bool = False


class CompletePods(_Strict, frozen=True, kw_only=True):
    """Set the phase of pods to Succeeded."""

    pods: list[_Name]


class UpdateNode(_Strict, frozen=True, kw_only=True):
    """Change a node; attributes that are not given stay."""

    name: _Name
    unschedulable: bool | None = None
    cpu: _Amount | None = None


class DeleteNode(_Strict, frozen=True, kw_only=True):
    """Delete the node."""

    name: _Name


class FailBind(_Strict, frozen=True, kw_only=True):
    """Let the next bind calls of each of these pods fail, `times` each."""

    pods: list[_Name]
    times: Annotated[int, msgspec.Meta(ge=1)] = 1


class Restart(_Strict, frozen=True, kw_only=True):
    """Replace the scheduler process."""


class Expect(_Strict, frozen=True, kw_only=True):
    """Conditions that must be true now, or within some seconds; all given keys are checked."""

    bound: _Counts = {}
    waiting: _Counts = {}
    pending: _Counts = {}
    bound_total: _Count | None = None
    reason_any: _Texts = {}
    reason_all: _Texts = {}
    events: _Texts = {}
    no_events: _Texts = {}
    annotation_all: dict[str, dict[str, str]] = {}
    annotation_none: _Texts = {}
    phase: dict[str, str] = {}
    within: _Seconds = 0


class Step(NamedTuple):
    """One step. `what` is of the kind's type; for a batch, a tuple of steps."""

    kind: str
    what: Any


#: The type of each kind of step.
KINDS: Final[dict[str, Any]] = {
    "create_podgroup": CreatePodGroup,
    "update_podgroup": UpdatePodGroup,
    "delete_podgroup": DeletePodGroup,
    "create_pods": CreatePods,
    "delete_pods": DeletePods,
    "update_pods": UpdatePods,
    "complete_pods": CompletePods,
    "add_nodes": list[NodeSpec],
    "update_node": UpdateNode,
    "delete_node": DeleteNode,
    "fail_bind": FailBind,
    "restart": Restart,
    "advance": _Seconds,
    "expect": Expect,
}
#: Steps that take time, or need the cluster at rest.
_NOT_IN_A_BATCH: Final = frozenset({"batch", "advance", "expect", "restart"})


class Scenario(_Strict, frozen=True, kw_only=True):
    """One history. `read_scenarios` reads `steps` into `Step`."""

    id: _Name
    title: str = ""
    source: str = ""
    tags: list[str] = []
    optional: bool = False
    profile: str
    args: dict[PluginWord, dict[str, Any]] = {}
    disable: dict[PluginWord, list[ExtensionPoint]] = {}
    options: Options = Options()
    nodes: list[NodeSpec] = []
    never_partial: dict[str, Annotated[int, msgspec.Meta(ge=1)]] = {}
    steps: list[Any] = []


class ScenarioFile(_Strict, frozen=True, kw_only=True):
    """A whole file; `scenarios` are read one by one."""

    schema: Literal[1]
    profiles: dict[str, ProfileSpec]
    scenarios: list[Any]


def load_scenarios(
    path: str | os.PathLike[str], table: DialectTable | None = None
) -> tuple[dict[str, ProfileSpec], list[Scenario]]:
    """Read a file; raise `ConfigError` with the file name and every mistake.

    `table` has the dialects that steps may name (default: the built-in ones).
    """
    source = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(os_error_text(error), source=source) from error
    except UnicodeDecodeError as error:
        raise ConfigError("the file is not UTF-8 text", source=source) from error
    return read_scenarios(text, table, source=source)


def read_scenarios(
    text: str, table: DialectTable | None = None, *, source: str | None = None
) -> tuple[dict[str, ProfileSpec], list[Scenario]]:
    """Read the text of a file: its profiles by name, and its scenarios in order."""
    try:
        raw = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a SafeLoader that is written in C
    except UNREADABLE as error:
        raise ConfigError(f"the file is not YAML: {' '.join(str(error).split())}", source=source) from error
    try:
        file = msgspec.convert(raw, ScenarioFile)
    except msgspec.ValidationError as error:
        raise ConfigError(_told(error), source=source) from error
    table = DialectTable() if table is None else table
    problems: list[str] = []
    scenarios: list[Scenario] = []
    for number, each in enumerate(file.scenarios):
        scenario = _scenario(number, each, table, problems)
        if scenario is None:
            continue
        if scenario.profile not in file.profiles:
            known = ", ".join(file.profiles)
            problems.append(f'scenario {scenario.id}: there is no profile "{scenario.profile}"; known are {known}')
        if any(other.id == scenario.id for other in scenarios):
            problems.append(f"scenario {scenario.id}: this id is used twice")
        scenarios.append(scenario)
    if problems:
        raise ConfigError(*problems, source=source)
    return file.profiles, scenarios


_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _scenario(number: int, raw: object, table: DialectTable, problems: list[str]) -> Scenario | None:
    name = raw.get("id", f"number {number}") if isinstance(raw, dict) else f"number {number}"
    try:
        scenario = msgspec.convert(raw, Scenario)
    except msgspec.ValidationError as error:
        problems.append(f"scenario {name}: {_told(error)}")
        return None
    where = f"scenario {scenario.id}, step "
    steps = [_step(f"{where}{index}", each, table, problems) for index, each in enumerate(scenario.steps)]
    return msgspec.structs.replace(scenario, steps=[step for step in steps if step is not None])


def _step(where: str, raw: object, table: DialectTable, problems: list[str], *, in_batch: bool = False) -> Step | None:
    if not isinstance(raw, dict) or len(raw) != 1:
        problems.append(f"{where}: a step is a map with one key, the kind of the step")
        return None
    ((kind, what),) = raw.items()
    if in_batch and kind in _NOT_IN_A_BATCH:
        problems.append(f"{where}: {kind} cannot be part of a batch")
        return None
    if kind == "batch":
        if not isinstance(what, list):
            problems.append(f"{where}: a batch is a list of steps")
            return None
        inner = [
            _step(f"{where}, {index} of the batch", each, table, problems, in_batch=True)
            for index, each in enumerate(what)
        ]
        return Step("batch", tuple(each for each in inner if each is not None))
    if kind not in KINDS:
        problems.append(f'{where}: there is no kind of step "{kind}"; known are batch, {", ".join(KINDS)}')
        return None
    try:
        read = msgspec.convert({} if what is None and kind == "restart" else what, KINDS[kind])
    except msgspec.ValidationError as error:
        problems.append(f"{where} ({kind}): {_told(error)}")
        return None
    wrong = _contradiction(read, table)
    if wrong:
        problems.append(f"{where} ({kind}): {wrong}")
        return None
    return Step(kind, read)


def _contradiction(what: object, table: DialectTable) -> str:
    """Return what is wrong with a combination of values in a step, else an empty text."""
    if isinstance(what, DeletePods):
        if bool(what.pods) == bool(what.of):
            return "give either the pods by name or a set with 'of'"
        if what.pods and (what.state or what.count is not None):
            return "'state' and 'count' need 'of'"
    if isinstance(what, CreatePodGroup | CreatePods) and what.dialect is not None:
        if all(what.dialect != row.name for row in table):
            return f'dialect "{what.dialect}" is none of {", ".join(row.name for row in table)}'
        if isinstance(what, CreatePodGroup) and not table.named(what.dialect).kinds:
            return f"groups of dialect {what.dialect} have no object; describe the group on its pods"
    if isinstance(what, CreatePods) and what.dialect is not None and not what.group:
        return "'dialect' needs 'group'"
    return ""


def _told(error: msgspec.ValidationError) -> str:
    return str(error).replace("`", "'")
