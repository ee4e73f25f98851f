"""Find faults in each call to the plugin under test: exceptions, bad answers, blocking, changes of shared objects."""

from __future__ import annotations

import inspect
import sys
import time
import traceback
from contextlib import contextmanager
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from pyscheduler.framework.status import Status
from pyscheduler.framework.step_watch import stepwise
from pyscheduler.runtime.extension_points.codes import ALLOWED_CODES, unexpected_code
from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls
from pyscheduler.testing.checks.findings import UNEQUAL
from pyscheduler.testing.garbage import without_collections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod
    from pyscheduler.testing.checks.observation import Observation

__all__ = ["observe_calls", "place_of", "snapshot_digest"]

#: Built-in functions that block the thread, by module and name; methods of sockets and locks by type and name.
_BLOCKING: Final = frozenset(
    {
        ("time", "sleep"),
        ("select", "select"),
        ("_socket", "getaddrinfo"),
        ("_socket", "gethostbyname"),
        ("_posixsubprocess", "fork_exec"),
        ("posix", "system"),
        ("posix", "waitpid"),
        ("socket", "connect"),
        ("socket", "recv"),
        ("socket", "recv_into"),
        ("socket", "sendall"),
        ("socket", "accept"),
    }
)
#: Functions whose answers are others in each run.
_CHANGING: Final = frozenset(
    {
        ("time", "time"),
        ("time", "time_ns"),
        ("datetime", "now"),
        ("datetime", "utcnow"),
        ("datetime", "today"),
        ("date", "today"),
        ("Random", "random"),
        ("Random", "getrandbits"),
        ("posix", "urandom"),
    }
)
#: Their names alone, which tell most calls apart.
_NAMES: Final = frozenset(name for _, name in _BLOCKING | _CHANGING)
#: Log records have times, and the scheduler's own code draws from its own seed.
_NOT_THE_PLUGIN: Final = frozenset({"logging", "pyscheduler"})
#: The points at which a plugin only reads the snapshot.
_READING: Final = frozenset(
    {
        "PreEnqueue",
        "PreFilter",
        "Filter",
        "PreScore",
        "Score",
        "ScoreExtensionNormalize",
        "Reserve",
        "Unreserve",
        "Permit",
        "Sign",
    }
)


def observe_calls(calls: PluginCalls, snapshot: Snapshot, seen: Observation) -> None:
    """Observe the calls of the plugin from now on, beside what the runtime does with them."""
    failures: list[BaseException] = []

    class ObservedCalls(PluginCalls):
        """Calls plugins as its base class does, and adds findings about one of them."""

        __slots__ = ()

        def run(self, method: PluginMethod, pod: Pod, *args: object, sampled: bool = False) -> object:
            if method.plugin != seen.plugin:
                return super().run(method, pod, *args, sampled=sampled)
            check_snapshot = seen.wants("snapshot") and method.point in _READING
            before = snapshot_digest(snapshot, pod) if check_snapshot else ()
            failures.clear()
            with _observed_thread(method, seen):
                answer = super().run(method, pod, *args, sampled=sampled)
            if check_snapshot and (after := snapshot_digest(snapshot, pod)) != before:
                changed = ", ".join(name for name, old, new in zip(_PARTS, before, after, strict=True) if old != new)
                seen.add("snapshot", place_of(method), f"the call for pod {pod.key} changed {changed}")
            seen.coverage.add(method.point, answer)
            if not failures:
                _check_answer(method, pod, answer, seen)
            return answer

        async def run_async(self, method: PluginMethod, pod: Pod, *args: object, sampled: bool = False) -> object:
            if method.plugin != seen.plugin:
                return await super().run_async(method, pod, *args, sampled=sampled)
            call = method.call

            def observed_step(step: Callable[..., object], *given: object) -> object:
                with _observed_thread(method, seen):
                    return step(*given)

            def observed(*given: object) -> object:
                answer = observed_step(call, *given)
                return stepwise(answer, observed_step) if inspect.isawaitable(answer) else answer

            named = type(method)(plugin=method.plugin, point=method.point, call=observed, running=method.running)
            answer = await super().run_async(named, pod, *args, sampled=sampled)
            seen.coverage.add(method.point, answer)
            return answer

        def failed(self, method: PluginMethod, pod: Pod, error: BaseException) -> Status:
            if method.plugin == seen.plugin:
                failures.append(error)
                _note_error(method, pod, error, seen)
            return super().failed(method, pod, error)

    calls.__class__ = ObservedCalls


def place_of(method: PluginMethod) -> str:
    """Return where the method is: `Headroom.filter_nodes (headroom/plugin.py:17)`."""
    return describe(method.call, method.plugin)


def describe(function: Any, owner: str) -> str:
    """Return the name of a function or method and its file and line, as far as they are known."""
    found = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(found, "__code__", None)
    name = getattr(found, "__name__", type(function).__name__)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"{owner}.{name}{where}"


#: The parts of a digest.
_PARTS: Final = ("the pod", "nodes", "arrays of the snapshot")


def snapshot_digest(snapshot: Snapshot, pod: Pod) -> tuple[object, ...]:
    """Return what a plugin could change: the pod, the nodes with their sums, and the arrays."""
    encode = msgspec.json.Encoder(enc_hook=repr).encode  # amounts that a plugin wrote may be of any type
    nodes = snapshot.nodes
    infos = [
        (
            encode((info.node, info.requested, info.non_zero_requested, info.allocatable, info.pvc_ref_counts)),
            info.generation,
            tuple(info.used_ports),
            [id(each.pod) for each in info.pods],
        )
        for info in nodes
    ]
    arrays = (
        *(nodes.allocatable(name).tobytes() for name in ("cpu", "memory", "pods")),
        *(nodes.requested(name).tobytes() for name in ("cpu", "memory")),
        nodes.unschedulable().tobytes(),
        np.asarray(nodes.taints().ids).tobytes(),
        tuple(nodes.taints().sets),
    )
    return encode(pod), infos, arrays


@contextmanager
def _observed_thread(method: PluginMethod, seen: Observation) -> Iterator[None]:
    """Add a finding if the code blocks the thread, or takes more CPU time than the limit."""
    if not seen.wants("blocking", *UNEQUAL):
        yield
        return
    former = sys.getprofile()

    def on_call(frame: FrameType, event: str, function: object) -> None:
        if event != "c_call" or getattr(function, "__name__", "") not in _NAMES or (name := _name_of(function)) is None:
            return
        if name in _BLOCKING:
            what = f"it calls {'.'.join(name)}, which stops the event loop of the scheduler"
            seen.add("blocking", place_of(method), what)
        elif name in _CHANGING and method.point in _READING and _is_of_plugin(frame):
            seen.coverage.changing.setdefault(place_of(method), ".".join(name))

    # Until the time is read: a collection that is due begins at once when they are allowed again.
    with without_collections():
        began = time.thread_time()
        sys.setprofile(on_call)
        try:
            yield
        finally:
            sys.setprofile(former)
            took = time.thread_time() - began
            if took > seen.cpu_limit:
                limit = f"{took * 1000:.0f} ms of CPU time, more than {seen.cpu_limit * 1000:.0f} ms"
                text = f"one call took {limit}; all pods wait meanwhile"
                seen.add("blocking", place_of(method), text, is_measured=True)


def _is_of_plugin(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] not in _NOT_THE_PLUGIN


def _name_of(function: object) -> tuple[str, str] | None:
    """Return the module or type of a built-in function, and its name."""
    if not isinstance(function, BuiltinFunctionType):
        return None
    owner = function.__self__
    # Functions of a module belong to the module, methods to an object, and class methods to a class.
    home = owner if isinstance(owner, ModuleType | type) else type(owner)
    return home.__name__, function.__name__


def _note_error(method: PluginMethod, pod: Pod, error: BaseException, seen: Observation) -> None:
    if isinstance(error, ValueError) and "read-only" in str(error):
        seen.add("snapshot", place_of(method), f"the call for pod {pod.key} writes into an array of the snapshot")
        return
    frames = traceback.extract_tb(error.__traceback__)
    # The innermost frame that is not of this package: the line of the plugin.
    mine = [frame for frame in frames if "pyscheduler/runtime/" not in frame.filename.replace("\\", "/")]
    where = f", at {mine[-1].filename}:{mine[-1].lineno}: {mine[-1].line}" if mine else ""
    is_answer = isinstance(error, TypeError) and not mine
    text = f"{type(error).__name__}: {error}"
    if is_answer:
        seen.add("statuses", place_of(method), f"for pod {pod.key}, {error}")
    else:
        seen.add("raises", place_of(method), f"the call for pod {pod.key} raised {text}{where}")


def _check_answer(method: PluginMethod, pod: Pod, answer: object, seen: Observation) -> None:
    """Check the codes and the reasons of an answer."""
    allowed = ALLOWED_CODES.get(method.point)
    if allowed is None:
        return
    if isinstance(answer, Status):
        statuses = [answer]
    else:
        table = getattr(answer, "table", ())
        used = set(np.unique(answer.reason_ids).tolist()) if table else ()  # type: ignore[attr-defined]  # NodeStatuses
        statuses = [table[each] for each in sorted(used) if each]
    for status in statuses:
        label = status.code.label
        if status.is_error:
            seen.add("raises", place_of(method), f"for pod {pod.key}, it returned an error: {status.message}")
        elif status.code not in allowed:
            seen.add("statuses", place_of(method), f"for pod {pod.key}, {unexpected_code(method.point, status)}")
        elif status.is_rejected and not any(each.strip() for each in status.reasons):
            seen.add("statuses", place_of(method), f"for pod {pod.key}, it returned {label} without a reason")
        elif status.plugin not in {"", method.plugin}:
            what = f"for pod {pod.key}, its status names another plugin, {status.plugin}"
            seen.add("statuses", place_of(method), what)
