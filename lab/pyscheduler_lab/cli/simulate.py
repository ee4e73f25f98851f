"""`pyscheduler simulate`: run scenarios and traces in virtual time."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pyscheduler.cli.shared_options import block_option, feature_gates_option, logging_options
from pyscheduler.flags.declaration import DURATION, FlagValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_lab.cli.simulate_trace import SimulateOptions
    from pyscheduler_lab.simulation.scenario import Scenario
    from pyscheduler_lab.simulation.scenario_report import Result

__all__ = ["command"]

#: Default cluster for a trace; the jobs of vc1 use two thirds of it on average, and all of it for weeks.
_NODES = "24x8gpu"
#: The default of `Replay`; the default of `run` is five minutes.
_FLUSH = "6h0m0s"
#: Options for scenarios only, and options for traces only, by parameter.
_OF_SCENARIOS = {"patterns": "--select", "wanted": "--print-config"}
_OF_TRACES = {
    "vc": "--vc",
    "merge_vcs": "--merge-vcs",
    "trace_columns": "--trace-columns",
    "watts": "--watts",
    "failures": "--failures",
    "compare": "--compare",
    "seeds": "--seeds",
    "ties": "--ties",
    "out": "--out",
    "quota": "--quota",
    "limit": "--jobs",
    "nodes": "--nodes",
    "shape": "--shape",
    "fidelity": "--fidelity",
    "config_file": "--config",
    "max_unschedulable_seconds": "--pod-max-in-unschedulable-pods-duration",
    "feature_gates": "--feature-gates",
}
#: Parameters that have no effect with --compare, and parameters that have none without it.
_NOT_OF_COMPARISONS = ("config_file", "max_unschedulable_seconds", "feature_gates")
_OF_COMPARISONS = ("quota", "seeds")
#: Parameters that have an effect on cases.
_OF_CASES = {"batch_cases", "queue_cases", "output", "blocked"}


@click.command("simulate")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option(
    "--select",
    "patterns",
    multiple=True,
    metavar="ID",
    help="Run only these scenarios: comma-separated ids or patterns such as 'cs-*'; repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "jsonl"]),
    default="table",
    show_default=False,
    help="Output format. table: one line per scenario, or the totals of a trace. json: the state of every pod after "
    "every step, or the totals. jsonl: one answer per line, for cases only. [default: table; jsonl for cases]",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of uids, generated names and choices among equal nodes.",
)
@click.option("--print-config", "wanted", metavar="ID", help="Print the configuration of this scenario and exit.")
@click.option(
    "--trace",
    metavar="NAME|PATH",
    help="Replay the jobs of this trace: philly, kalos, alibaba-2017, openb or one of its variants, or a file: CSV, "
    "Parquet, SWF, a dump of a cluster, or a recording of kube-scheduler-simulator; see docs/reference/traces.md.",
)
@click.option("--vc", metavar="NAME", help="With --trace: replay only the jobs of this virtual cluster.")
@click.option(
    "--merge-vcs", is_flag=True, help="With --trace: let the jobs of all virtual clusters of the trace share the nodes."
)
@click.option(
    "--trace-columns",
    metavar="COLUMNS",
    help="With --trace: other names of columns in the file, as in arrival=submitted,vc=team; of SWF, the fields "
    "for vc, class and priority, as in vc=user,class=queue.",
)
@click.option(
    "--nodes",
    default=_NODES,
    show_default=True,
    metavar="NODES",
    help="With --trace: the nodes: 24x8gpu, 24x8gpu,96cpu,1Ti or 4x8gpu:A100,2x4gpu:T4; openb; or a file that "
    "kubectl get nodes -o yaml wrote.",
)
@click.option(
    "--watts",
    default="",
    metavar="WATTS",
    help="With --trace: power by GPU model, as in A100=400+350,*=200+0: of an idle node, and of each busy GPU.",
)
@click.option(
    "--failures",
    metavar="FILE",
    help="With --trace: drains, losses and additions of nodes, and node groups; see docs/reference/traces.md.",
)
@click.option(
    "--shape",
    type=click.Choice(["nodepack", "worker"]),
    help="With --trace: nodepack: one pod per node of the job; worker: one pod per GPU. [default: nodepack]",
)
@click.option(
    "--fidelity",
    type=click.Choice(["full", "decisions"]),
    default="full",
    show_default=True,
    help="With --trace: full: the scheduler's client talks to an API server in memory; decisions: no API server, the "
    "same decisions in less time.",
)
@click.option("--jobs", "limit", type=click.IntRange(min=1), metavar="N", help="With --trace: only the first N jobs.")
@click.option(
    "--compare",
    metavar="POLICIES",
    help="With --trace: replay under each of these policies: fifo, drf, proportion, capacity, kai (queues for the "
    "teams), default, binpack, coscheduling, gang, or configuration files, comma-separated.",
)
@click.option(
    "--quota",
    metavar="QUOTAS",
    help="With --compare: GPUs per team, such as vc1=64,vc2=128. [default: in proportion to the work of each team]",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=1000),
    metavar="N",
    help="With --compare: replay with N seeds, from --seed on, and show means with 95 % intervals.",
)
@click.option(
    "--ties",
    type=click.Choice(["random", "first", "last"]),
    default="random",
    show_default=True,
    help="With --trace: the choice among nodes of equal score: at random, or the first or last name.",
)
@click.option("--out", metavar="DIR", help="With --trace: write each run as a bundle into this new folder.")
@click.option("--config", "config_file", metavar="FILE", help="With --trace: the configuration file.")
@click.option(
    "--pod-max-in-unschedulable-pods-duration",
    "max_unschedulable_seconds",
    type=FlagValue(DURATION, "DURATION"),
    default=_FLUSH,
    show_default=True,
    metavar="DURATION",
    help="With --trace: maximum time before an unschedulable pod is retried; deprecated in kube-scheduler "
    "(for `run`: 5m0s).",
)
@click.option(
    "--batch-cases",
    metavar="FILE",
    help="Decide the batch cases of this file (.jsonl or .jsonl.gz): one pass of KAI or Volcano per line.",
)
@click.option(
    "--queue-cases",
    metavar="FILE",
    help="Decide the queue cases of this YAML file. A case has queues, jobs and nodes, and asks for the shares of the "
    "queues or for one pass; see docs/reference/scenarios.md.",
)
@feature_gates_option
@block_option
@logging_options(default=0)
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Run scenarios in virtual time and report unmet expectations, or replay a trace of jobs.

    The simulation runs the real scheduler with the installed plugins on an embedded API server. The
    same seed gives the same output, byte for byte.

    The exit code is 0 if every scenario passed, 1 if a scenario failed, 2 if a file cannot be read, and 3 if a job of a
    trace did not finish or a plugin failed in its replay.

    \b
      pyscheduler simulate scenarios.yaml
      pyscheduler simulate scenarios.yaml --select 'cs-*' -o json
      pyscheduler simulate scenarios.yaml --print-config cs-01
      pyscheduler simulate --batch-cases cases.jsonl.gz
      pyscheduler simulate --trace philly --vc vc1 --nodes 24x8gpu --config configs/coscheduling.yaml
      pyscheduler simulate --trace philly --merge-vcs --jobs 300 --compare fifo,drf,kai --out results
    """
    from pyscheduler.cli.error_output import exits_after_mistakes
    from pyscheduler_lab.cli.simulate_compare import compare_policies
    from pyscheduler_lab.cli.simulate_trace import SimulateOptions, replay

    given = SimulateOptions(**options)
    with exits_after_mistakes(2):
        if given.batch_cases is not None or given.queue_cases is not None:
            _check_case_usage(context)
            sys.exit(_answer_cases(given))
        _check_usage(context, has_trace=given.trace is not None, has_files=bool(given.files))
        if given.trace is None:
            _simulate(given)
        elif given.compare is not None:
            compare_policies(given, given.trace)
        else:
            replay(given, given.trace)


def _check_usage(context: click.Context, *, has_trace: bool, has_files: bool) -> None:
    """Reject options that have no effect in this combination."""
    from pyscheduler.framework.errors import ConfigError

    if has_trace and has_files:
        raise ConfigError("give either scenario files or --trace")
    if not has_trace and not has_files:
        raise ConfigError("give scenario files, --trace, --batch-cases or --queue-cases")
    if context.params["output"] == "jsonl":
        raise ConfigError("-o jsonl has no effect without --batch-cases or --queue-cases")
    for name, option in (_OF_SCENARIOS if has_trace else _OF_TRACES).items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise ConfigError(f"{option} has no effect {'on a trace' if has_trace else 'without --trace'}")
    has_comparison = context.params["compare"] is not None
    for name in _NOT_OF_COMPARISONS if has_comparison else _OF_COMPARISONS:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise ConfigError(f"{_OF_TRACES[name]} has no effect {'with' if has_comparison else 'without'} --compare")


def _check_case_usage(context: click.Context) -> None:
    """Reject options that have no effect on cases."""
    from pyscheduler.framework.errors import ConfigError

    given = [
        name
        for name in context.params
        if name not in _OF_CASES and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if all(context.params[name] is not None for name in ("batch_cases", "queue_cases")):
        raise ConfigError("give either --batch-cases or --queue-cases")
    if given:
        other = "FILE" if given[0] == "files" else "--" + given[0].replace("_", "-")
        other = {**_OF_SCENARIOS, **_OF_TRACES}.get(given[0], other)
        raise ConfigError(f"{other} has no effect on cases")
    if context.get_parameter_source("output") is ParameterSource.COMMANDLINE and context.params["output"] != "jsonl":
        raise ConfigError("cases support only -o jsonl")


def _answer_cases(options: SimulateOptions) -> int:
    """Print one answer per line; return the exit code, 1 if a case could not be decided."""
    import msgspec

    from pyscheduler.cli.error_output import print_line
    from pyscheduler_lab.simulation.batch_cases.case_files import answer_batch_cases, answer_queue_cases

    answers = (
        answer_batch_cases(options.batch_cases)
        if options.batch_cases is not None
        else answer_queue_cases(options.queue_cases or "")
    )
    failed = False
    for answer in answers:
        failed = failed or "error" in answer
        print_line(msgspec.json.encode(answer))
    return int(failed)


def _simulate(options: SimulateOptions) -> None:
    import time

    from pyscheduler.cli.error_output import print_line
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler.runtime.assembly.discovery import discover
    from pyscheduler_lab.simulation.scenario import load_scenarios
    from pyscheduler_lab.simulation.scenario_config import configure
    from pyscheduler_lab.simulation.scenario_report import as_json
    from pyscheduler_lab.simulation.scenario_runner import run_scenario

    profiles = {}
    scenarios: list[Scenario] = []
    table = discover(blocked=options.blocked).dialect_table()
    for file in options.files:
        of_file, found = load_scenarios(file, table)
        for each in found:
            if each.id in profiles:
                raise ConfigError(f"scenario {each.id}: the id is already used in another file", source=file)
            profiles[each.id] = of_file[each.profile]
        scenarios += found
    if options.wanted is not None:
        chosen = next((each for each in scenarios if each.id == options.wanted), None)
        if chosen is None:
            raise ConfigError(f'--print-config: no scenario "{options.wanted}" in {", ".join(options.files)}')
        click.echo(configure(chosen, profiles[chosen.id]).document, nl=False)
        return
    scenarios = _selected(scenarios, options.patterns)
    results: list[Result] = []
    began = time.perf_counter()
    for scenario in scenarios:
        # Each run has its own registry; plugin classes are still loaded only once.
        result = run_scenario(
            scenario, profiles[scenario.id], seed=options.seed, registry=discover(blocked=options.blocked)
        )
        results.append(result)
        if options.output == "table":
            _show(scenario, result)
    if options.output == "json":
        print_line(as_json(results))
    else:
        passed = sum(result.passed for result in results)
        click.echo(f"{passed} of {len(results)} scenarios passed in {time.perf_counter() - began:.1f} s")
    if not all(result.passed for result in results):
        sys.exit(1)


def _selected(scenarios: Sequence[Scenario], patterns: Sequence[str]) -> list[Scenario]:
    """Return the scenarios that match a pattern, in the order of the files; all scenarios without patterns."""
    from pyscheduler.framework.errors import ConfigError

    wanted = [part for pattern in patterns for part in pattern.split(",") if part]
    for pattern in wanted:
        if not any(fnmatchcase(each.id, pattern) for each in scenarios):
            raise ConfigError(f'--select: no scenario matches "{pattern}"')
    return [each for each in scenarios if not wanted or any(fnmatchcase(each.id, part) for part in wanted)]


def _show(scenario: Scenario, result: Result) -> None:
    """Print one line for a scenario, and one line for each failure."""
    time = f"{result.steps[-1].time:g} s" if result.steps else "-"
    title = f"{scenario.title} (optional)" if scenario.optional else scenario.title
    click.echo(f"{'passed' if result.passed else 'FAILED'}  {scenario.id:<32} {time:>8}  {title}".rstrip())
    for failure in result.failures:
        click.echo(f"        {failure}")
