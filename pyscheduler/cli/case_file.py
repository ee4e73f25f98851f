"""`pyscheduler explain --cases`: evaluate the cases in a file; a case is a small cluster with a pod."""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.clock import LoopClock
from kube_objects.codec import decode, decode_list
from pyscheduler.api import BUILT_IN_KINDS, KubeObject, Node, Pod
from pyscheduler.cli.explain_json import answer_json, status_json
from pyscheduler.cli.recorded_plugins import use_recorded_plugins
from pyscheduler.cli.worker_pool import WorkerPool
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster, objects_of
from pyscheduler.config.load import loads
from pyscheduler.framework.changes import node_changes, pod_changes
from pyscheduler.framework.errors import ConfigError, PySchedulerError
from pyscheduler.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import build
from pyscheduler.scheduler.evaluation import evaluate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.runtime.profile import Profile

__all__ = ["Answer", "answer_file", "answer_lines", "case_bytes"]

Json = dict[str, Any]

_KINDS: Final[Mapping[str, ResourceKind]] = {kind.plural: kind for kind in BUILT_IN_KINDS}
_KINDS_BY_NAME: Final[Mapping[str, ResourceKind]] = {kind.kind: kind for kind in BUILT_IN_KINDS}
#: Number of cases that a process evaluates at a time.
_SHARE: Final = 100
_NOMINATED: Final = "nominatedPods"
_HINTS: Final = "queueing-hints"
_GATES: Final = "scheduling-gates"
_PREEMPTION: Final = "preemption"
_HINT_LABELS: Final = {QueueingHint.QUEUE: "Queue", QueueingHint.SKIP: "Skip"}
#: Of several answers of one plugin, the strongest wins.
_STRENGTH: Final = ("Queue", "Error", "Skip")
_ACTION_LABELS: Final = {"Add": ActionType.ADD, "Update": ActionType.UPDATE, "Delete": ActionType.DELETE}


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """A change of the cluster, in a case about queueing hints."""

    resource: str
    action: str
    old_obj: msgspec.Raw = msgspec.Raw(b"null")
    new_obj: msgspec.Raw = msgspec.Raw(b"null")


class Case(msgspec.Struct, frozen=True):
    """One line of the file."""

    id: str
    pod: msgspec.Raw
    family: str = ""
    objects: dict[str, msgspec.Raw] = {}
    config: msgspec.Raw = msgspec.Raw(b"null")
    event: Change | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a line: `actual`, or the `error` because of which it could not be evaluated."""

    id: str
    actual: Json | None = None
    error: str = ""


def answer_file(path: str, *, workers: int | None = None) -> Iterator[Answer]:
    """Answer the cases of a file, in its order, in `workers` processes (None: one per CPU).

    A file whose name ends in `.gz` is decompressed. Raises `ConfigError` if the file cannot be read.
    """
    lines = case_bytes(path).splitlines()
    workers = min(workers or os.cpu_count() or 1, -(-len(lines) // _SHARE) or 1)
    shares = [(lines[first : first + _SHARE], first + 1) for first in range(0, len(lines), _SHARE)]
    if workers == 1:
        for share, first in shares:
            yield from answer_lines(share, first=first)
        return
    with WorkerPool(workers) as pool:
        for answers in pool.map(_answer_share, shares):
            yield from answers


def _answer_share(share: tuple[list[bytes], int]) -> list[Answer]:
    return answer_lines(share[0], first=share[1])


def case_bytes(path: str) -> bytes:
    """Return the content of a file with cases, decompressed if its name ends in `.gz`; raise `ConfigError`."""
    try:
        content = Path(path).read_bytes()
        return gzip.decompress(content) if path.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"the file with cases cannot be read: {why}", source=path) from error


def answer_lines(lines: Iterable[bytes], *, first: int = 1) -> list[Answer]:
    """Answer cases in their order; `first` is the number of the first line, which names a line without an id.

    Blank lines are skipped. Nothing is raised: an error in a case is its answer.
    """
    return asyncio.run(_answer_all(lines, first))


async def _answer_all(lines: Iterable[bytes], first: int) -> list[Answer]:
    registry = discover()
    use_recorded_plugins(registry)
    return [await _answer(line, f"line {number}", registry) for number, line in enumerate(lines, first) if line.strip()]


async def _answer(line: bytes, name: str, registry: Registry) -> Answer:
    try:
        case = msgspec.json.decode(line, type=Case)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Answer(_id_of(line) or name, error=f"not a case: {error}")
    try:
        return Answer(case.id, await _evaluate(case, registry))
    except ConfigError as error:
        return Answer(case.id, error="; ".join(error.problems))
    except PySchedulerError as error:
        return Answer(case.id, error=str(error))
    except Exception as error:  # noqa: BLE001 - an error in one case must not stop the others
        return Answer(case.id, error=f"{type(error).__name__}: {error}")


class _Named(msgspec.Struct):
    id: str = ""


def _id_of(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_Named).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


async def _evaluate(case: Case, registry: Registry) -> Json:
    pod = decode(Pod, bytes(case.pod))
    scheduler = build(
        _configuration(bytes(case.config), pod.scheduler_name),
        ReadOnlyCluster(objects_of(_objects(case.objects))),
        LoopClock(),
        random.Random(0),
        registry=registry,
    )
    await scheduler.start()
    profile = scheduler.profiles[pod.scheduler_name]
    if case.family == _HINTS:
        if case.event is None:
            raise ConfigError("a case about queueing hints needs an event")
        return {"events": list(_woken(profile, pod, case.event))}
    found = await evaluate(scheduler, profile, pod, post_filter=case.family == _PREEMPTION)
    if case.family == _GATES:
        gates = status_json(found.pre_enqueue)
        return {"preEnqueue": gates} if found.pre_enqueue is not None else {"preEnqueue": gates, **answer_json(found)}
    return answer_json(found)


# --- a case's world ------------------------------------------------------------------------------


@cache
def _configuration(fragment: bytes, scheduler_name: str) -> Configuration:
    """Return a configuration whose one profile is the fragment, merged over the defaults."""
    profile = msgspec.json.decode(fragment)
    if not isinstance(profile, dict | None):
        raise ConfigError("expected part of a profile, such as plugins or pluginConfig @ $.config")
    body = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": scheduler_name, **(profile or {})}],
    }
    return loads(msgspec.json.encode(body).decode(), source="config")


def _objects(objects: Mapping[str, msgspec.Raw]) -> dict[type[KubeObject], list[KubeObject]]:
    """Decode the lists of a case; nominated pods are among the pods."""
    found: dict[type[KubeObject], list[KubeObject]] = {}
    for plural, raw in objects.items():
        kind = _KINDS["pods" if plural == _NOMINATED else plural] if plural in (*_KINDS, _NOMINATED) else None
        if kind is None:
            raise ConfigError(f"objects.{plural}: unknown list; known lists are {', '.join(sorted(_KINDS))}")
        page = decode_list(kind.type, b'{"items":' + bytes(raw) + b"}")
        if page.malformed:
            one = page.malformed[0]
            raise ConfigError(f"objects.{plural}: {one.key or 'an object'} cannot be read: {one.error}")
        found.setdefault(kind.type, []).extend(page.items)
    return found


# --- queueing hints ------------------------------------------------------------------------------


def _woken(profile: Profile, pod: Pod, change: Change) -> Iterator[Json]:
    """Return, for each cluster event of the change, the answer of every plugin that registered for it."""
    old, new = (_object(change.resource, raw) for raw in (change.old_obj, change.new_obj))
    hints = profile.hints()
    for event in _events(change, old, new):
        said: dict[str, list[str]] = {}
        for registered, plugins in hints.items():
            if registered.matches(event):
                for plugin, hint in plugins:
                    said.setdefault(plugin, []).append(_hint(hint, pod, old, new))
        yield {
            "resource": str(event.resource),
            "actionType": event.action.label,
            "label": event.label,
            "hints": {plugin: min(answers, key=_STRENGTH.index) for plugin, answers in said.items()},
        }


def _hint(hint: Any, pod: Pod, old: object, new: object) -> str:
    if hint is None:
        return "Queue"
    try:
        return _HINT_LABELS[hint(pod, old, new)]
    except Exception:  # noqa: BLE001 - the boundary to plugins; the queue treats an error as Queue, a case reports it
        return "Error"


def _object(resource: str, raw: msgspec.Raw) -> Any:
    if bytes(raw) == b"null":
        return None
    kind = _KINDS_BY_NAME.get(_kind_name(resource))
    if kind is None:
        raise ConfigError(f"event.resource: unknown kind {resource!r}")
    return decode(kind.type, bytes(raw))


def _kind_name(resource: str) -> str:
    """Return the kind of an event's resource: assigned and pending pods are both pods."""
    return "Pod" if resource in {EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD} else resource


def _events(change: Change, old: Any, new: Any) -> Sequence[ClusterEvent]:
    """Return the cluster events of a change, as the event handlers report them."""
    action = _ACTION_LABELS.get(change.action)
    if action is None:
        raise ConfigError(f"event.action: {change.action!r} is unknown; known actions are {', '.join(_ACTION_LABELS)}")
    if action is ActionType.UPDATE and isinstance(new, Node):
        return node_changes(old, new)
    if isinstance(new or old, Pod):
        if action is ActionType.UPDATE:
            return pod_changes(old, new)
        assigned = (new or old).node_name
        return [ClusterEvent(EventResource.ASSIGNED_POD if assigned else EventResource.UNSCHEDULABLE_POD, action)]
    return [ClusterEvent(change.resource, action)]
