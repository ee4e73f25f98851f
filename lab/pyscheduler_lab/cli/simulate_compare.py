"""`pyscheduler simulate --trace ... --compare`: replay a trace under several batch policies and print a table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_lab.cli.simulate_trace import SimulateOptions
    from pyscheduler_lab.simulation.policy_comparison import PolicyResult
    from pyscheduler_lab.simulation.queue_plan import Team
    from pyscheduler_lab.simulation.replay import Progress

__all__ = ["compare_policies"]

#: The most digits of a quota, and the most characters of a wrong one in its message.
_MOST_DIGITS: Final = 9
_MOST_SHOWN: Final = 60
_BARS: Final = " ▁▂▃▄▅▆▇█"


def compare_policies(options: SimulateOptions, trace: str) -> None:
    """Replay a trace under the policies of `--compare` and print the results; raise `ConfigError` for a mistake.

    Exit with 3 if a job never started under one of them.
    """
    from pyscheduler.cli.error_output import print_line
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler.runtime.assembly.discovery import discover
    from pyscheduler_lab.cli.simulate_trace import read_trace
    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.simulation.policy_comparison import (
        compare,
        jobs_of_teams,
        policy_named,
        results_as_json,
        teams_of,
    )

    names = [name.strip() for name in (options.compare or "").split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ConfigError("--compare: name each policy once, as in fifo,drf,kai")
    policies = [policy_named(name) for name in names]
    cluster = Cluster.read(options.nodes)
    read = read_trace(options, trace)
    jobs = jobs_of_teams(read.jobs, source=read.source)
    teams = teams_of(jobs, cluster, _quotas(options.quota))
    results = compare(
        jobs,
        cluster,
        teams,
        policies,
        registry=lambda: discover(blocked=options.blocked),
        seed=options.seed,
        fidelity=options.fidelity,
        progress=_show_progress if sys.stderr.isatty() else _show_nothing,
    )
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    if options.output == "json":
        print_line(results_as_json(results, teams))
    else:
        _show(results, teams)
    if any(each.never_started for each in results):
        sys.exit(3)


def _quotas(text: str | None) -> dict[str, int] | None:
    """Read ``vc1=64,vc2=128``; None stays None."""
    from pyscheduler.framework.errors import ConfigError

    if text is None:
        return None
    quotas: dict[str, int] = {}
    for part in text.split(","):
        name, _, gpus = part.strip().partition("=")
        if not gpus.isdecimal() or len(gpus) > _MOST_DIGITS or not name or name in quotas:
            raise ConfigError(
                f'--quota: "{part[:_MOST_SHOWN]}" must be like TEAM=GPUS, and each team must be named once'
            )
        quotas[name] = int(gpus)
    return quotas


def _show_nothing(_name: str, _state: Progress) -> None:
    """Show no progress."""


def _show_progress(name: str, state: Progress) -> None:
    """Rewrite one line of the terminal."""
    text = f"{name}: day {state.time / 86400:6.1f}   jobs {state.finished}/{state.jobs}   waiting {state.waiting}"
    click.echo(f"\r{text}\x1b[K", nl=False, err=True)


def _show(results: Sequence[PolicyResult], teams: Sequence[Team]) -> None:
    """Print the quotas, one line per policy, the mean waits of the teams, and why jobs never started."""
    from pyscheduler_lab.cli.simulate_trace import readable_time

    click.echo("quotas in GPUs: " + ", ".join(f"{team.name} {team.quota}" for team in teams))
    click.echo()
    header = ["policy", "finished", "wait mean", "p50", "p95", "slowdown mean", "p95", "GPUs used", "share error mean"]
    header += ["p95", "evicted jobs", "lost GPU-hours"]
    rows = [
        [
            each.policy,
            f"{each.finished}/{each.jobs}",
            *(readable_time(seconds) for seconds in (each.wait_mean_s, each.wait_p50_s, each.wait_p95_s)),
            *("-" if value is None else f"{value:.1f}" for value in (each.slowdown_mean, each.slowdown_p95)),
            f"{each.gpu_utilisation:.1%}",
            f"{each.share_error_mean:.1%}",
            f"{each.share_error_p95:.1%}",
            str(each.evicted_jobs),
            f"{each.lost_gpu_hours:.1f}",
        ]
        for each in results
    ]
    _print_table([header, *rows])
    click.echo()
    click.echo("share error from the first arrival to the last end")
    _print_table([[each.policy, f"[{_curve(each.share_error_series)}]"] for each in results])
    click.echo()
    waits = [[each.policy, *map(readable_time, each.team_wait_mean_s.values())] for each in results]
    _print_table([["mean wait", *(team.name for team in teams)], *waits])
    lines = [
        f"{each.policy}: {why.jobs} of {each.jobs} jobs never started: {why.reason}: {why.message}".removesuffix(": ")
        for each in results
        for why in each.never_started
    ]
    for line in ["", *lines] if lines else ():
        click.echo(line)


def _curve(values: Iterable[float]) -> str:
    """Return a bar for each value; the highest bar is 1."""
    return "".join(_BARS[min(round(value * (len(_BARS) - 1) + 0.49), len(_BARS) - 1)] for value in values)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print columns; all but the first one are aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = row
        cells = [f"{text:>{width}}" for text, width in zip(others, widths[1:], strict=True)]
        click.echo("  ".join([f"{first:<{widths[0]}}", *cells]).rstrip())
