"""Check the actions and plugins that packages add to a batch system such as KAI, and the values that plugins return."""

from __future__ import annotations

import difflib
import inspect
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from pyscheduler.framework.callables import takes
from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler_batch import contract
from pyscheduler_batch.contract import Action, Claim, Job, JobOrder, Policy, QueueOrder, Refusal, Task, TaskOrder
from pyscheduler_batch.model.answers import ContractError, is_number, wrong_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyscheduler_batch.model.session import Session

__all__ = ["action_problems", "incomparable_keys", "role_problems", "with_checks"]

_P = TypeVar("_P", bound=Policy)

#: The classes of the contract that a policy may inherit, with their methods.
_ROLES: Final[Mapping[type, tuple[str, ...]]] = {
    role: tuple(name for name in vars(role) if not name.startswith("_"))
    for role in vars(contract).values()
    if isinstance(role, type) and getattr(role, "_is_protocol", False) and role.__module__ == contract.__name__
}
_METHODS: Final = frozenset(name for names in _ROLES.values() for name in names)


# When a class is loaded


def role_problems(whose: str, policy: type[Policy]) -> list[str]:
    """Return a sentence about each method that a class lacks, or that does not take what it will be given."""
    problems: list[str] = []
    asynchronous = (name for name in ("open_session", "close_session", *_METHODS) if _is_async(policy, name))
    problems += [f'{whose}: {name} is async; write "def {name}"' for name in sorted(asynchronous)]
    own = [name for name in vars(policy) if not name.startswith("_") and name not in _METHODS]
    for role, names in _ROLES.items():
        for name in names:
            wanted, found = getattr(role, name), getattr(policy, name, None)
            # A class that inherits a role and does not define its method would return None.
            if found is wanted:
                close = difflib.get_close_matches(name, own, n=1, cutoff=0.8)
                hint = f"; rename {close[0]}" if close else ""
                problems.append(f"{whose} inherits {role.__name__}, but does not define {name}{hint}")
                continue
            parameters = inspect.signature(wanted).parameters
            if not takes(inspect.getattr_static(policy, name, None), len(parameters) - 1):
                problems.append(f"{whose}: {name} must take ({', '.join(parameters)}), as {role.__name__} says")
    if not problems and not any(hasattr(policy, name) for name in _METHODS):
        close_to = {name: difflib.get_close_matches(name, _METHODS, n=1, cutoff=0.8) for name in own}
        problems += [
            f"{whose} defines {name}, which is never called; did you mean {close[0]}"
            for name, close in close_to.items()
            if close
        ]
    return problems


def action_problems(whose: str, action: type[Action]) -> list[str]:
    """Return a sentence if an action does not define its method, or defines one that cannot be awaited."""
    run = inspect.getattr_static(action, "run", None)
    if run is vars(Action)["run"]:
        return [f"{whose} does not define run"]
    if not inspect.iscoroutinefunction(getattr(action, "run", None)):
        return [f'{whose}: run is not async; write "async def run(self, session)"']
    return [] if takes(run, 1) else [f"{whose}: run must take (self, session)"]


def _is_async(policy: type[Policy], name: str) -> bool:
    return inspect.iscoroutinefunction(getattr(policy, name, None))


# When a method is called


def _is_key(answer: object) -> bool:
    if not isinstance(answer, tuple):
        return False
    for part in answer:  # noqa: SIM110 - a generator takes twice as long
        if type(part) is not str and not is_number(part):
            return False
    return True


def _is_refusal(answer: object) -> bool:
    return answer is None or isinstance(answer, Refusal)


def _is_bool(answer: object) -> bool:
    return isinstance(answer, (bool, np.bool_))


_KEY: Final = (_is_key, "a tuple of numbers (not NaN) and strings")
_REFUSAL: Final = (_is_refusal, "a Refusal or None")
_BOOL: Final = (_is_bool, "True or False")
_VOTE: Final = (is_number, "-1, 0 or 1")
#: By method: whether an answer is right, and what is expected. Arrays are checked where their length is known.
_ANSWERS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "job_key": _KEY,
    "queue_key": _KEY,
    "task_key": _KEY,
    "victim_queue_key": _KEY,
    "compare_queues": (is_number, "a number"),
    "job_valid": _REFUSAL,
    "allocatable": _REFUSAL,
    "may_keep": _REFUSAL,
    "validate": _REFUSAL,
    "job_ready": _BOOL,
    "may_reclaim": _BOOL,
    "job_starving": _BOOL,
    "overused": _BOOL,
    "job_pipelined": _VOTE,
    "job_enqueueable": _VOTE,
}


def with_checks(policy: _P) -> _P:
    """Let the methods of a policy raise `ContractError` for wrong answers, and return the policy."""
    for name in _ANSWERS:
        if isinstance(inspect.getattr_static(type(policy), name, None), FunctionType):
            object.__setattr__(policy, name, MethodType(_checking(name), policy))
    return policy


def _checking(name: str) -> Callable[..., Any]:
    is_right, expected = _ANSWERS[name]

    def call(policy: Policy, *arguments: Any) -> Any:
        # Looked up at each call: a test may replace the method of the class meanwhile.
        method = getattr(type(policy), name)
        answer = method(policy, *arguments)
        if is_right(answer):
            return answer
        raise wrong_answer(answer, expected, MethodType(method, policy), _about(arguments[0]), name)

    call.__name__ = name
    return call


def _about(subject: object) -> str:
    """Return the name of what a method was asked about, "" for a row."""
    if isinstance(subject, Claim):
        subject = subject.job
    return f"{type(subject).__name__.lower()} {subject.key}" if isinstance(subject, (Job, Task)) else ""


# When a pass has failed


def incomparable_keys(session: Session) -> ContractError | None:
    """Return the error about a policy with a number and a string at the same place of two keys; None if there is none.

    Call it when a pass has failed: it asks for all keys again.
    """
    for policy in (entry.policy for tier in session.tiers for entry in tier):
        try:
            found = _incomparable(policy, session)
        except PLUGIN_FAILURES:  # the pass failed with an error of its own
            continue
        if found is not None:
            return found
    return None


def _incomparable(policy: Policy, session: Session) -> ContractError | None:
    jobs = session.jobs.values()
    if isinstance(policy, JobOrder):
        found = _mixed(policy, "job_key", ((_about(job), policy.job_key(job)) for job in jobs))
        if found is not None:
            return found
    if isinstance(policy, TaskOrder):
        tasks = (task for job in jobs for task in job.tasks.values())
        found = _mixed(policy, "task_key", ((_about(task), policy.task_key(task)) for task in tasks))
        if found is not None:
            return found
    if isinstance(policy, QueueOrder):
        rows = enumerate(session.queues.names)
        return _mixed(policy, "queue_key", ((f"queue {name}", policy.queue_key(row, None)) for row, name in rows))
    return None


def _mixed(policy: Policy, name: str, keys: Iterable[tuple[str, contract.Key]]) -> ContractError | None:
    """Return the error about the first key of the method `name` that cannot be compared with an earlier one."""
    first: dict[int, tuple[bool, str, contract.Key]] = {}
    for about, key in keys:
        for at, part in enumerate(key):
            is_text, other, before = first.setdefault(at, (isinstance(part, str), about, key))
            if is_text != isinstance(part, str):
                # The method of the class, not the check around it.
                method = MethodType(getattr(type(policy), name), policy)
                expected = f"a key that compares with {before!r} for {other}"
                return wrong_answer(key, expected, method, about, name)
    return None
