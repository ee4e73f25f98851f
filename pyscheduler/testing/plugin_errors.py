"""Make a test fail with the exception that a plugin raised, unless the test allows plugin errors."""

from __future__ import annotations

import contextlib
import gc
import inspect
import re
import sys
import warnings
from typing import TYPE_CHECKING, Final, TextIO

from pyscheduler.framework.callables import is_foreign
from pyscheduler.framework.errors import APIError, PluginError, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.plugin_failures import PluginFailure
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod
    from pyscheduler.testing.fake_framework import FakeFramework

__all__ = ["is_answer_of_the_server", "raise_failures", "raise_unawaited", "unawaited_coroutines", "unbound_pods"]

#: Extension points that send requests, and after whose errors the pod is retried.
_RETRIED: Final = frozenset({"PreBind", "Bind"})

_NEVER_AWAITED: Final = "was never awaited"
_ORIGIN: Final = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)')
_ALLOW: Final = "if the test is about this, pass allow_plugin_errors=True to cluster.framework()"


def is_answer_of_the_server(failure: PluginFailure, plugins: Mapping[str, Plugin]) -> bool:
    """Return True if a plugin passed on an error of the API server, and the pod is retried: nothing is wrong then.

    PreBind and Bind may do so; elsewhere only in-tree plugins, which are tested for it.
    """
    plugin = plugins.get(failure.plugin)
    in_tree = plugin is not None and not is_foreign(type(plugin))
    return isinstance(failure.error, (APIError, TransportError)) and (in_tree or failure.point in _RETRIED)


def unbound_pods(framework: FakeFramework) -> Iterator[tuple[Pod, PluginMethod]]:
    """Yield the pods that a Bind plugin said it bound, and that have no node on the API server; with its method."""
    stored = {pod.uid: pod for pod in framework.cluster.pods()}
    for pod, method in framework.scheduler.binding.unconfirmed:
        if pod.uid in stored and not stored[pod.uid].node_name:
            yield pod, method


def raise_failures(failures: Sequence[PluginFailure]) -> None:
    """Raise the exception of the first failure, with its own traceback; the others are named in a note."""
    if not failures:
        return
    lines = list(dict.fromkeys(str(failure) for failure in failures))
    shown = [*lines[:10], *([f"... and {len(lines) - 10} more"] if len(lines) > 10 else ())]
    error = failures[0].error
    error.add_note("\n".join([*shown, _ALLOW]))
    raise error.with_traceback(failures[0].frames)


@contextlib.contextmanager
def unawaited_coroutines() -> Iterator[list[str]]:
    """Collect Python's warnings about coroutines that nobody awaited, each with the line that made it."""
    found: list[str] = []
    depth = sys.get_coroutine_origin_tracking_depth()
    sys.set_coroutine_origin_tracking_depth(max(depth, 1))
    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=f"coroutine .* {_NEVER_AWAITED}", category=RuntimeWarning)
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, RuntimeWarning) and _NEVER_AWAITED in str(message):
                found.append(str(message))
            else:
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        # Young garbage in cycles: what an earlier test left is not reported in this test.
        gc.collect(1)
        found.clear()
        try:
            yield found
            gc.collect(1)
        finally:
            sys.set_coroutine_origin_tracking_depth(depth)


def raise_unawaited(found: Sequence[str], plugins: Iterable[Plugin]) -> None:
    """Raise `PluginError` for the first of the warnings, naming the plugin whose code made the coroutine."""
    if not found:
        return
    what = found[0].partition("\n")[0]
    origins = list(_ORIGIN.finditer(found[0]))
    if not origins:
        raise PluginError(f"{what}; write `await` before the call", plugin="")
    file, line, function = origins[-1]["file"], int(origins[-1]["line"]), origins[-1]["function"]
    plugin = next((each.name for each in plugins if _has_line(type(each), file, line)), "")
    whose = f'plugin "{plugin}": ' if plugin else ""
    place = f"{file.replace(chr(92), '/').rpartition('/')[2]}:{line} in {function}"
    raise PluginError(
        f"{whose}{what}, made at {place}; write `await` before the call in a method that may be `async def`, "
        f"or start it with handle.spawn(...); {_ALLOW}",
        plugin=plugin,
    )


def _has_line(plugin: type[Plugin], file: str, line: int) -> bool:
    """Return True if the line is in the class, or in one that it inherits from."""
    for each in plugin.__mro__:
        with contextlib.suppress(OSError, TypeError):
            lines, first = inspect.getsourcelines(each)
            if inspect.getsourcefile(each) == file and first <= line < first + len(lines):
                return True
    return False
