"""`check_plugin`: run a plugin on random clusters, and report the plugin's first mistake and how to repeat it."""

from __future__ import annotations

import asyncio
import logging
import random
import warnings
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.discovery import plugin_packages
from pyscheduler.testing.checks.coverage import Coverage
from pyscheduler.testing.checks.drawing import draw_history
from pyscheduler.testing.checks.findings import CHANGING_REMEDY, CHECKS, Finding, PluginCheckError
from pyscheduler.testing.checks.hash_seed import (
    OtherProcess,
    depends_on_earlier_runs,
    first_difference,
    obstacle,
)
from pyscheduler.testing.checks.history import decide, observe
from pyscheduler.testing.checks.steps import code_of
from pyscheduler.testing.checks.subject import Subject
from pyscheduler.testing.watched_calls import PluginWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.testing.checks.drawing import DrawHook
    from pyscheduler.testing.checks.steps import Step

__all__ = ["CheckResult", "check_plugin", "run_checks"]

#: How many histories run by default.
_HISTORIES: Final = 100
#: One in so many histories is run with another PYTHONHASHSEED, too.
_HASH_SEED_SHARE: Final = 4
#: From so many random histories on, what was not tried is worth a warning.
_ENOUGH: Final = 20
_CPU_LIMIT_SECONDS: Final = 0.1
#: How many attempts to shorten a history, by whether the finding is a time.
_ATTEMPTS: Final = 200
_MEASURED_ATTEMPTS: Final = 10
_LEFT_OVER: Final = (
    "; but two new processes decide alike, so the cause is not the hash seed: something is left over from earlier runs"
)
_LEFT_OVER_REMEDY: Final = (
    "Keep what changes in the plugin object, and make it in __init__: values in the class or the module outlive the "
    "plugin object, and all profiles share them."
)


@attrs.frozen(kw_only=True)
class CheckResult:
    """The result of a check: the number of histories, and by check the reason why it did not run.

    `calls` says how often the plugin was called at each extension point, `acted` how often its answer was another than
    the default (None, SKIP, scores of 0). `advice` names what the histories did not try.
    """

    histories: int
    skipped: Mapping[str, str]
    calls: Mapping[str, int] = attrs.Factory(dict)
    acted: Mapping[str, int] = attrs.Factory(dict)
    advice: Sequence[str] = ()

    def __str__(self) -> str:
        """Return the result as lines for readers."""
        points = [
            f"{point}: {number:,} calls, {self.acted.get(point, 0):,} with an answer other than the default"
            for point, number in self.calls.items()
        ]
        skipped = [f"{check} did not run: {reason}" for check, reason in self.skipped.items()]
        return "\n".join([f"{self.histories} histories", *points, *skipped, *self.advice])


def check_plugin(  # noqa: PLR0913 - each keyword describes the plugin's surroundings
    plugin: type[Plugin] | str,
    args: Mapping[str, object] | None = None,
    *,
    seed: int = 0,
    histories: int | Iterable[Sequence[Step]] = _HISTORIES,
    with_plugins: Sequence[type[Plugin] | str] = (),
    disable: Sequence[str] = (),
    config: str | None = None,
    feature_gates: str = "",
    draw: DrawHook | None = None,
    objects: str = "",
    checks: Collection[str] = tuple(CHECKS),
    cpu_limit_seconds: float = _CPU_LIMIT_SECONDS,
) -> CheckResult:
    """Run a plugin on random clusters; raise `PluginCheckError` if it breaks the contract of plugins.

    `plugin` is a class, or the name of an installed plugin; `args` are its args as in a file. It runs with the default
    plugins and `with_plugins`, without those of `disable`; or in the profiles of `config`, the text of a configuration.
    `histories` is the number of random histories, or the histories themselves. `seed` chooses the random ones, and
    `draw(rng, draft)` adds labels, pods, nodes and objects to each. `objects` is the text of a manifest of which each
    cluster has all objects from the beginning. `checks` are the names of the checks to run.
    One call of the plugin may take `cpu_limit_seconds` of CPU time.

    The error names the check, the method and the remedy. It has the shortest history that it found, as text and as a
    test. The result has the number of calls at each extension point; a `PluginWarning` names a point at which the
    plugin was never called, or never did anything. Raises `ConfigError` if the plugin cannot be loaded or made, and
    `RuntimeError` in a running event loop.

    Not checked: PostFilter, PreBind, Bind and PostBind beyond what they raise and return, whether they block, and what
    they cause in the other checks; what a plugin writes to the API server; queue order; the actions and policies of
    batch profiles, and in them shares of GPUs and BindRequests.
    """
    subject = Subject(
        plugin=plugin,
        args=args,
        with_plugins=tuple(with_plugins),
        disable=tuple(disable),
        config=config,
        feature_gates=feature_gates,
        draw=draw,
        objects=objects,
    )
    result = run_checks(subject, seed=seed, histories=histories, checks=checks, cpu_limit=cpu_limit_seconds)
    # A few histories, or chosen ones, need not try everything.
    if isinstance(histories, int) and histories >= _ENOUGH:
        for text in result.advice:
            warnings.warn(text, PluginWarning, stacklevel=2)
    return result


def run_checks(
    subject: Subject,
    *,
    seed: int = 0,
    histories: int | Iterable[Sequence[Step]] = _HISTORIES,
    checks: Collection[str] = tuple(CHECKS),
    cpu_limit: float = _CPU_LIMIT_SECONDS,
    progress: Callable[[int], object] = lambda _number: None,
) -> CheckResult:
    """Run the checks as `check_plugin` does; `progress` gets the number of the histories that passed."""
    _check_call(checks)
    runs = histories if not isinstance(histories, int) else _draw(subject, seed, histories)
    skipped = {}
    if "hash-seed" in checks and (reason := obstacle(subject)) is not None:
        skipped["hash-seed"] = reason
    count = 0
    coverage = Coverage()
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        run = _Run(subject, frozenset(checks), cpu_limit, coverage)
        other: OtherProcess | None = None
        for history in runs:
            run.raise_first(history, run.observe)
            if "hash-seed" in checks and not skipped and count % _HASH_SEED_SHARE == 0:
                if other is None:
                    other = stack.enter_context(OtherProcess(subject))
                run.compare_processes(history, other)
            count += 1
            progress(count)
    return CheckResult(
        histories=count,
        skipped=skipped,
        calls=dict(coverage.calls),
        acted=dict(coverage.acted),
        advice=coverage.advice(subject.plugin_class()),
    )


def _draw(subject: Subject, seed: int, number: int) -> Iterator[Sequence[Step]]:
    """Yield random histories for the profile of the plugin; raise `ConfigError` if the profile cannot be built."""
    scheduler_name = asyncio.run(_scheduler_name(subject))
    for each in range(number):
        yield draw_history(random.Random(f"{seed}/{each}"), subject.draw, scheduler_name=scheduler_name)


@attrs.frozen
class _Run:
    subject: Subject
    checks: frozenset[str]
    cpu_limit: float
    coverage: Coverage

    def observe(self, history: Sequence[Step]) -> Sequence[Finding]:
        """Run a history once and return the findings."""
        return observe(self.subject, history, self.checks, cpu_limit=self.cpu_limit, coverage=self.coverage)

    def raise_first(self, history: Sequence[Step], find: Callable[[Sequence[Step]], Sequence[Finding]]) -> None:
        """Raise the first finding about a history, with the shortest history that shows it."""
        findings = find(history)
        if not findings:
            return
        first = findings[0]

        def matching(steps: Sequence[Step]) -> Finding | None:
            return next((each for each in find(steps) if (each.check, each.place) == (first.check, first.place)), None)

        if first.is_measured and matching(history) is None:
            return
        # A method that is slow makes each attempt slow, too.
        most = _MEASURED_ATTEMPTS if first.is_measured else _ATTEMPTS
        shortest = shrink(history[: first.step + 1], lambda steps: matching(steps) is not None, most=most)
        found = matching(shortest)
        if found is None:
            # Only the first run of the history shows it: what a plugin keeps in its class, for example, outlives a run.
            shortest, found = list(history), first
        raise PluginCheckError(
            plugin=self.subject.name, finding=found, history=shortest, code=self._code(shortest, found.check)
        )

    def compare_processes(self, history: Sequence[Step], other: OtherProcess) -> None:
        """Raise an error if the other process decides otherwise, and say whether the hash seed is the cause."""
        findings = self._differences(other, history)
        if not findings:
            return
        if self.coverage.changing:
            what = f"{findings[0].what}; {self.coverage.calls_of_changing()}"
            found = attrs.evolve(findings[0], what=what, remedy=CHANGING_REMEDY)
        elif depends_on_earlier_runs(self.subject, history, other):
            found = attrs.evolve(findings[0], what=findings[0].what + _LEFT_OVER, remedy=_LEFT_OVER_REMEDY)
        else:
            self.raise_first(history, partial(self._differences, other))
            return
        raise PluginCheckError(
            plugin=self.subject.name, finding=found, history=[*history], code=self._code(history, found.check)
        )

    def _differences(self, other: OtherProcess, history: Sequence[Step]) -> Sequence[Finding]:
        found = first_difference(decide(self.subject, history), other.decide(history))
        if found is None:
            return ()
        step, what = found
        return [Finding(check="hash-seed", place=self.subject.name, what=what, step=step)]

    def _code(self, history: Sequence[Step], check: str) -> str:
        words = [self.subject.call(), "histories=[history]"]
        # The same checks as here: each check calls the plugin, and what the plugin answers may depend on that.
        if self.checks != set(CHECKS):
            words.append(f"checks={[each for each in CHECKS if each in self.checks]!r}")
        call = f"check_plugin({', '.join(words)})"
        return code_of(history, imports=self.subject.classes(), name=check, call=call)


def _check_call(checks: Collection[str]) -> None:
    """Raise an error for a call that cannot work."""
    if isinstance(checks, str) or (unknown := [each for each in checks if each not in CHECKS]):
        names = checks if isinstance(checks, str) else ", ".join(unknown)
        raise ConfigError(f"checks: {names} is no list of checks; the checks are {', '.join(CHECKS)}")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("check_plugin runs event loops of its own: call it from a plain function, not from a coroutine")


@contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing: a finding says what a plugin did wrong, and where."""
    ours = (package for package in plugin_packages() if package.startswith("pyscheduler"))
    loggers = [logging.getLogger(package) for package in ours]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


async def _scheduler_name(subject: Subject) -> str:
    """Return the scheduler name of the profile, "" for that of the builders; raise `ConfigError` for a mistake."""
    from pyscheduler.testing.fake_cluster import FakeCluster

    cluster = FakeCluster()
    try:
        name = subject.profile(subject.framework(cluster)).name
    finally:
        await cluster.close()
    return "" if name == "pyscheduler" else name


def shrink(history: Sequence[Step], fails: Callable[[Sequence[Step]], bool], *, most: int) -> list[Step]:
    """Return a shorter history for which `fails` is true; it is true for `history`.

    Drops halves of the history, then quarters, down to single steps, and then keywords of steps, in at most `most`
    attempts.
    """
    left = list(history)
    attempts = 0

    def still_fails(shorter: Sequence[Step]) -> bool:
        nonlocal attempts
        attempts += 1
        return attempts <= most and fails(shorter)

    size = max(len(left) // 2, 1)
    while True:
        start, before = 0, len(left)
        while start < len(left):
            shorter = left[:start] + left[start + size :]
            if still_fails(shorter):
                left = shorter
            else:
                start += size
        if size == 1 and len(left) == before:
            break
        size = max(size // 2, 1)
    for number, step in enumerate(left):
        for keyword in step.keywords:
            shorter = [*left[:number], left[number].without(keyword), *left[number + 1 :]]
            if still_fails(shorter):
                left = shorter
    return left
