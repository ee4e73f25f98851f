"""`pyscheduler lab whatif`: show where the pods of a cluster would run with other nodes or another profile."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from pyscheduler.cli.shared_options import block_option, feature_gates_option, logging_options, objects_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_lab.whatif.answer import Answer, Pending
    from pyscheduler_lab.whatif.scale import Scale

__all__ = ["command"]

#: The exit code if a pod has lost its node and gets no other.
_HARM: Final = 3
#: For pods that wait as before: the most reasons, and the most names for each; and the most characters of a message.
_MOST_REASONS: Final = 10
_MOST_NAMES: Final = 3
_MOST_SHOWN: Final = 110


@attrs.frozen(kw_only=True)
class _Options:
    """The options of the command."""

    objects: Sequence[str]
    profile: str | None
    config_file: str | None
    removed: Sequence[str]
    added: Sequence[str]
    to_fit: bool
    shape: str | None
    seed: int
    output: str
    blocked: Sequence[str]
    feature_gates: str


@click.command("whatif")
@objects_option(
    "The dump: manifests, as `kubectl get nodes,pods,... -A -o yaml` prints them, or the zip file of "
    "/debug/snapshot or of KAI's /get-snapshot; - reads standard input; repeatable."
)
@click.option(
    "--profile",
    metavar="P",
    help="Schedule all pods with this profile: a preset such as kai, a policy such as binpack, a file, or a profile of "
    "--config.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Configuration file; each pod uses the profile of its schedulerName. [default: that of a snapshot, or a "
    "profile for each schedulerName]",
)
@click.option("--remove-node", "removed", multiple=True, metavar="NODE", help="Remove a node; repeatable.")
@click.option(
    "--add",
    "added",
    multiple=True,
    metavar="NODES",
    help="Add nodes: 3x8gpu, 3x8gpu:A100,96cpu,1Ti, or copies of a node of the dump: 3xlike:NODE; repeatable.",
)
@click.option(
    "--scale-to-fit",
    "to_fit",
    is_flag=True,
    help="Print the smallest number of nodes of --shape with which nothing that could run stays pending.",
)
@click.option("--shape", metavar="SHAPE", help="With --scale-to-fit: 8gpu, 8gpu:A100,96cpu,1Ti, or like:NODE.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice among equal nodes.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
@feature_gates_option
@block_option
@logging_options(default=0)
def command(**options: Any) -> None:
    """Show what a change does to the pods of a cluster: which move, which get a node, which wait, and why.

    The cluster is read from a dump, and lives in memory only: nothing is written to any cluster. The scheduler places
    the pending pods in virtual time until nothing changes any more. The pods of a removed node are evicted; their
    controllers create them again.

    The exit code is 2 for a mistake, and 3 if a pod loses its node and gets no other.

    \b
      kubectl get nodes,pods,pvc,pv,pdb,priorityclasses -A -o yaml > dump.yaml
      pyscheduler lab whatif --objects dump.yaml --remove-node gpu-7
      pyscheduler lab whatif --objects dump.yaml --profile kai
      pyscheduler lab whatif --objects dump.yaml --scale-to-fit --shape like:gpu-7
    """
    _check(given := _Options(**options))
    from pyscheduler.cli.error_output import exits_after_mistakes, print_line
    from pyscheduler_lab.whatif.answer import answer_as_json

    with exits_after_mistakes(2):
        answer, scale, source, notes = _find(given)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if given.output == "json":
        more: dict[str, object] = {"configuration": source, "notes": notes}
        if scale is not None:
            more["scale"] = {
                "shape": given.shape,
                "nodes": scale.nodes,
                "neverFit": list(scale.never_fit),
                "tried": {str(nodes): count for nodes, count in sorted(scale.tried.items())},
            }
        print_line(answer_as_json(answer, **more))
    else:
        _show(given, answer, scale, source)
    if answer.does_harm:
        sys.exit(_HARM)


def _check(given: _Options) -> None:
    """Raise `UsageError` for options that cannot be combined."""
    if not given.objects:
        raise click.UsageError("--objects is missing; give the dump of a cluster")
    if given.to_fit and given.shape is None:
        raise click.UsageError("--scale-to-fit needs --shape, such as 8gpu or like:NODE")
    if given.shape is not None and not given.to_fit:
        raise click.UsageError("--shape has no effect without --scale-to-fit; to add nodes, use --add")


def _find(given: _Options) -> tuple[Answer, Scale | None, str, Sequence[str]]:
    """Return the answer, with --scale-to-fit also the number of nodes, the configuration in words, and notes."""
    import asyncio

    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.problems import found_in
    from pyscheduler.runtime.assembly.discovery import discover
    from pyscheduler_lab.cli.result_text import status_line
    from pyscheduler_lab.whatif.answer import what_if
    from pyscheduler_lab.whatif.change import Change, read_addition
    from pyscheduler_lab.whatif.dump import read_dump
    from pyscheduler_lab.whatif.profiles import choose, unshared_note
    from pyscheduler_lab.whatif.run import Runner
    from pyscheduler_lab.whatif.scale import scale_to_fit

    gates = parse(given.feature_gates)
    change = Change(removed=given.removed, added=[read_addition(text, option="--add") for text in given.added])
    shape = read_addition(given.shape, option="--shape", counted=False) if given.shape is not None else None
    dump = read_dump(given.objects)
    chosen = asyncio.run(choose(dump, profile=given.profile, config_file=given.config_file, gates=gates))
    runner = Runner(chosen=chosen, registry=discover(blocked=given.blocked), gates=gates, seed=given.seed)
    with found_in(given.config_file), status_line() as show:
        scale = None
        if shape is not None:
            scale = scale_to_fit(dump, change, shape, runner, progress=lambda nodes: show(f"trying {nodes} nodes"))
        answer = scale.answer if scale is not None else what_if(dump, change, runner)
    notes = [*chosen.notes, *unshared_note(chosen, dump, runner.registry)]
    if chosen.config.extenders:
        notes.append("the extenders of the configuration are not called for a dump")
    if answer.leaving:
        notes.append(f"{answer.leaving} pods of the dump are being deleted; they are left out")
    if not answer.is_at_rest:
        notes.append("pods evict each other without end; the answer is the state after a day of virtual time")
    return answer, scale, chosen.source, notes


# --- the table -----------------------------------------------------------------------------------


def _show(given: _Options, answer: Answer, scale: Scale | None, source: str) -> None:
    from pyscheduler.cli.terminal import echo

    echo(f"configuration: {source}")
    echo(f"nodes: {answer.nodes_before} before, {answer.nodes_after} after")
    echo(f"pods with a node: {answer.placed_before} before, {answer.placed_after} after {answer.seconds:g} s")
    if scale is not None:
        could = "nothing stays pending" if not scale.never_fit else "nothing that could run stays pending"
        nodes = "1 node" if scale.nodes == 1 else f"{scale.nodes} nodes"
        echo(f"scale to fit: {nodes} of {given.shape}; with so many, {could}")
        _section("pods that never fit", _waits(scale.never_fit.values()))
    _section(
        "moved", [("POD", "FROM", "TO", "WHY"), *((one.pod, one.from_node, one.to, one.why) for one in answer.moved)]
    )
    _section("newly placed", [("POD", "NODE"), *((one.pod, one.to) for one in answer.placed)])
    _section("newly pending", _waits(answer.pending))
    _section("lost", [("POD", "FROM", "WHY"), *((one.pod, one.from_node, one.why) for one in answer.lost)])
    if answer.ended:
        echo("")
        echo(f"ended with their node (DaemonSets, static pods): {len(answer.ended)}")
    if answer.still_pending:
        pods: dict[str, list[str]] = {}
        for one in answer.still_pending:
            pods.setdefault(f"{one.reason}: {_short(one.message)}", []).append(one.pod)
        reasons = sorted(pods.items(), key=lambda item: -len(item[1]))
        rows = [(f"{len(names)} x", _first(names), reason) for reason, names in reasons[:_MOST_REASONS]]
        if len(reasons) > _MOST_REASONS:
            rows.append(("", "", f"{len(reasons) - _MOST_REASONS} more reasons; -o json has all"))
        _section("still pending", [("PODS", "NAMES", "REASON"), *rows], count=len(answer.still_pending))


def _first(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return ", ".join([*names[:_MOST_NAMES], *more])


def _waits(pods: Iterable[Pending]) -> list[tuple[str, ...]]:
    rows = [(one.pod, one.from_node or "-", one.why or "-", f"{one.reason}: {_short(one.message)}") for one in pods]
    return [("POD", "FROM", "WHY", "WAITS FOR"), *rows]


def _short(message: str) -> str:
    return message if len(message) <= _MOST_SHOWN else f"{message[: _MOST_SHOWN - 3]}..."


def _section(title: str, rows: Sequence[tuple[str, ...]], *, count: int | None = None) -> None:
    """Print a table below its title; nothing if it has only a heading."""
    from pyscheduler.cli.terminal import echo, printable_cells

    if len(rows) == 1:
        return
    cells = printable_cells(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    echo("")
    echo(f"{title}: {len(rows) - 1 if count is None else count}")
    for row in cells:
        echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
