"""Run a history (random steps on a small cluster) in a second process with another PYTHONHASHSEED.

If a plugin depends on the order of a set, the decisions in the second process may differ.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pickle
import struct
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Any, Self

import attrs

from pyscheduler.testing.checks.history import Decisions, decide

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from pyscheduler.testing.checks.steps import Step
    from pyscheduler.testing.checks.subject import Subject

__all__ = ["OtherProcess", "depends_on_earlier_runs", "first_difference", "obstacle"]

_LENGTH = struct.Struct("!Q")


def obstacle(subject: Subject) -> str | None:
    """Return why another process cannot import the plugin; None if it can."""
    for each in subject.classes():
        if "<locals>" in each.__qualname__:
            return f"the class {each.__qualname__} is defined in a function; define it in a module"
        if each.__module__ == "__main__":
            return f"the class {each.__qualname__} is defined in the main script; define it in a module"
    return None


class OtherProcess:
    """A process with another hash seed, by default another than that of this process; use it as a context manager."""

    def __init__(self, subject: Subject, hash_seed: str = "") -> None:
        own = os.environ.get("PYTHONHASHSEED", "random")
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed or ("1" if own != "1" else "2")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyscheduler.testing.checks.hash_seed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        #: The first history, and the decisions: then nothing was left over in the process from earlier runs.
        self._first: tuple[Sequence[Step], Decisions] | None = None
        modules = {each.__module__: inspect.getsourcefile(each) for each in subject.classes()}
        # Modules first: the rest of the subject can be read only when its classes can be imported.
        _send(self._to, (sys.path, modules))
        fields = {field.name: getattr(subject, field.name) for field in attrs.fields(type(subject))}
        _send(self._to, {**fields, "draw": None})

    def decide(self, history: Sequence[Step]) -> Decisions:
        """Return the decisions of the other process; raise `ChildProcessError` if it has ended."""
        types = {type_.__module__: inspect.getsourcefile(type_) for step in history for type_ in step.types()}
        _send(self._to, types)
        _send(self._to, [(step.verb, step.arguments, step.keywords) for step in history])
        found = _receive(self._from)
        if found is None:
            raise ChildProcessError("the process with another PYTHONHASHSEED has ended")
        decisions: Decisions = found
        if self._first is None:
            self._first = history, decisions
        return decisions

    def first_decisions(self, history: Sequence[Step]) -> Decisions | None:
        """Return the decisions that the process made when it was new; None if its first history was another one."""
        return self._first[1] if self._first is not None and self._first[0] is history else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._to.close()
        self._process.wait()
        self._from.close()


def depends_on_earlier_runs(subject: Subject, history: Sequence[Step], other: OtherProcess) -> bool:
    """Return True if two new processes with different hash seeds decide alike.

    If the decisions of this process are others, then something is left over from its earlier runs. `other` counts as
    new if `history` was the first that it decided.
    """

    def decide_anew(hash_seed: str) -> Decisions:
        with OtherProcess(subject, hash_seed) as process:
            return process.decide(history)

    first = other.first_decisions(history)
    if first is None:
        first = decide_anew("3")
    return first_difference(first, decide_anew("4")) is None


def first_difference(first: Decisions, second: Decisions) -> tuple[int, str] | None:
    """Return the first step after which two runs differ, and how; None if they are equal."""
    for step, (one, other) in enumerate(zip(first, second, strict=True)):
        for mine, theirs in zip(one, other, strict=False):
            if mine != theirs:
                name, state, node, message = mine
                what = f"pod {name} is {state} on {node} ({message}) with one PYTHONHASHSEED"
                return step, f"{what}, and {theirs[1]} on {theirs[2]} ({theirs[3]}) with another"
        if len(one) != len(other):
            return step, f"there are {len(one)} pods with one PYTHONHASHSEED, and {len(other)} with another"
    return None


def _send(stream: IO[bytes], value: object) -> None:
    data = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return pickle.loads(stream.read(_LENGTH.unpack(head)[0]))  # noqa: S301 - from the parent process only


def _provide(modules: dict[str, str | None]) -> None:
    """Make modules importable under the names that they have in the parent, where a test runner gave them others."""
    for name, file in modules.items():
        if name in sys.modules:
            continue
        try:
            importlib.import_module(name)
        except ImportError:
            spec = importlib.util.spec_from_file_location(name, file) if file is not None else None
            if spec is None or spec.loader is None:
                raise
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)


def _serve() -> None:
    """Answer the parent until it closes the pipe."""
    from pyscheduler.testing.checks.steps import Step
    from pyscheduler.testing.checks.subject import Subject

    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what plugins print must not mix with the answers
    path, modules = _receive(source)
    sys.path[:] = path
    _provide(modules)
    subject = Subject(**_receive(source))
    while (types := _receive(source)) is not None:
        _provide(types)
        history = [Step(verb, *arguments, **keywords) for verb, arguments, keywords in _receive(source)]
        _send(target, decide(subject, history))


if __name__ == "__main__":
    _serve()
