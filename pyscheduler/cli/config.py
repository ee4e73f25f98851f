"""`pyscheduler config`: check a configuration; print it, or the RBAC roles or CRDs that it needs."""

from __future__ import annotations

import shlex
from importlib import import_module, resources
from typing import TYPE_CHECKING, Final

import click

from pyscheduler.cli.shared_options import block_option, feature_gates_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyscheduler.config.load import Draft
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.runtime.assembly.registry import Registry

__all__ = ["command"]

_HELM_VALUES: Final = "helm-values"


@click.command("config")
@click.option("--config", "config_file", metavar="FILE", help="The file to check. [default: as for `run`]")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", _HELM_VALUES]),
    default="yaml",
    show_default=True,
    help="Output format; with --rbac also values of the Helm chart, which hold the file and its rules.",
)
@click.option(
    "--rbac", is_flag=True, help="Print the RBAC roles that `run` needs with this file, instead of the configuration."
)
@click.option(
    "--crds", is_flag=True, help="Print the CustomResourceDefinitions that the plugins of this file bring with them."
)
@click.option("--name", metavar="NAME", help="With --rbac: name of the roles. [default: pyscheduler]")
@click.option(
    "--service-account",
    metavar="NAMESPACE:NAME",
    help="With --rbac: also print the bindings of the roles to this account.",
)
@click.option(
    "--delegated-auth/--no-delegated-auth",
    default=True,
    show_default=True,
    help="With --rbac: include the permissions for TokenReview and SubjectAccessReview, which `run` needs in a pod.",
)
@block_option
@feature_gates_option
def command(  # noqa: PLR0913, PLR0917 - a parameter for each option
    config_file: str | None,
    output: str,
    rbac: bool,
    crds: bool,
    name: str | None,
    service_account: str | None,
    delegated_auth: bool,
    blocked: tuple[str, ...],
    feature_gates: str,
) -> None:
    """Check a KubeSchedulerConfiguration and print the effective configuration, with all defaults.

    The command reports all mistakes at once, each with its path. It also checks that the enabled plugins are installed.
    pyscheduler accepts the output as --config; kube-scheduler does, too, if it has all the plugins.

    With --rbac, the command prints the roles that `pyscheduler run` needs with this file: the scheduler's own requests
    to the API server, the kinds that enabled plugins watch, and the rules that plugins declare in their `rbac`.
    Settings that flags of `run` can override, like the lease, are taken from the file.

    With --crds, it prints the CustomResourceDefinitions that plugins declare in their `crds`, for `kubectl apply -f -`.

    \b
    Examples:
      # Check a file.
      pyscheduler config --config configs/default.yaml
      # Print the defaults.
      pyscheduler config
      # Print the permissions.
      pyscheduler config --rbac --service-account kube-system:pyscheduler
      # Install a profile of your own with the Helm chart.
      pyscheduler config --rbac --config profile.yaml -o helm-values >values.yaml
      helm install pyscheduler deploy/helm/pyscheduler --namespace kube-system --values values.yaml
    """
    import json

    from pyscheduler.cli.offline_scheduler import offline_scheduler
    from pyscheduler.cli.rbac import as_helm_values, as_list, as_yaml, grants_of, parse_account
    from pyscheduler.config.completed import with_args
    from pyscheduler.config.dump import dump, to_data
    from pyscheduler.config.feature_gates import parse, warnings_of
    from pyscheduler.config.forms import in_file
    from pyscheduler.config.load import draft
    from pyscheduler.config.problems import found_in
    from pyscheduler.framework.log_capture import configuration_warnings
    from pyscheduler.runtime.assembly.discovery import discover

    _check_options(output, rbac=rbac, crds=crds, has_file=config_file is not None, named=name, bound=service_account)
    for_helm = output == _HELM_VALUES
    account = parse_account(service_account) if service_account is not None else None
    gates = parse(feature_gates)
    for warning in warnings_of(feature_gates):
        click.echo(f"warning: {warning}", err=True)
    read = draft(config_file, gates=gates)
    if read.problems:
        raise _with_those_of_plugins(read, discover(blocked=blocked), gates)
    config = read.configuration
    with found_in(config.source), configuration_warnings() as warnings:
        scheduler = offline_scheduler(config, discover(blocked=blocked), gates=gates)
        elects = False if for_helm else None  # the chart names the lease, and grants it
        grants = grants_of(scheduler, config, delegated_auth=delegated_auth, elects=elects) if rbac else {}
    if config_file is not None and warnings:
        for warning in in_file(warnings, config):
            click.echo(f"warning: {config.source}: {warning}", err=True)
    if crds:
        _print_definitions([plugin for profile in scheduler.profiles.values() for plugin in profile.plugins.values()])
        return
    if for_helm:
        values = as_helm_values(grants, config=read.text, feature_gates=feature_gates, made_by=_typed())
        click.echo(values, nl=False)
        return
    if rbac:
        called = name or "pyscheduler"
        data: object = as_list(grants, name=called, account=account)
        text = as_yaml(grants, name=called, account=account, made_by=_typed())
    else:
        shown = with_args(config, {name: profile.args for name, profile in scheduler.profiles.items()})
        data, text = to_data(shown), dump(shown)
    click.echo(json.dumps(data, indent=2, ensure_ascii=False) + "\n" if output == "json" else text, nl=False)


def _check_options(
    output: str, *, rbac: bool, crds: bool, has_file: bool, named: str | None, bound: str | None
) -> None:
    """Raise `ConfigError` for options that do not belong together."""
    from pyscheduler.framework.errors import ConfigError

    if crds and (rbac or output != "yaml"):
        raise ConfigError("--crds prints YAML, and nothing else; leave out --rbac and --output")
    if not rbac and (named or bound):
        raise ConfigError(f"--{'name' if named else 'service-account'} is for roles; add --rbac")
    if output == _HELM_VALUES and (not rbac or not has_file or named or bound):
        raise ConfigError(f"-o {output} needs --rbac and --config FILE, and no --name or --service-account")


def _with_those_of_plugins(read: Draft, registry: Registry, gates: Mapping[str, bool]) -> ConfigError:
    """Return the error about a file with its mistakes, and with those of plugins that do not follow from them."""
    import attrs

    from pyscheduler.cli.offline_scheduler import offline_scheduler
    from pyscheduler.config.load import default_configuration
    from pyscheduler.framework.errors import ConfigError

    config, problems = read.configuration, read.problems
    places = [problem.rpartition(" @ ")[2] for problem in problems]
    more: list[str] = []
    try:
        # The rest of the file may have values with which no scheduler can be built.
        offline_scheduler(attrs.evolve(default_configuration(), profiles=config.profiles), registry, gates=gates)
    except ConfigError as error:
        for problem in error.problems:
            place = problem.rpartition(" @ ")[2]
            if not any(_is_within(place, known) or _is_within(known, place) for known in places):
                more.append(problem)
    return ConfigError(*problems, *more, source=config.source)


def _is_within(place: str, outer: str) -> bool:
    """Return whether a path into the file is another one, or leads through it."""
    return place.startswith(outer) and place[len(outer) : len(outer) + 1] in {"", ".", "["}


def _print_definitions(plugins: Sequence[Plugin]) -> None:
    found = [f"# {place}\n{text}" for place, text in _definitions_of(plugins)]
    if not found:
        click.echo("no plugin of this configuration brings a CustomResourceDefinition", err=True)
    click.echo("---\n".join(found), nl=False)


def _definitions_of(plugins: Iterable[Plugin]) -> Iterator[tuple[str, str]]:
    """Yield the place and the YAML text of each file that plugins name in `crds`, each file once.

    Raises `ConfigError` for a file that cannot be read.
    """
    from pyscheduler.framework.errors import ConfigError

    seen: set[str] = set()
    for plugin in plugins:
        for place in plugin.crds:
            if place in seen:
                continue
            seen.add(place)
            package, _, path = place.partition(":")
            try:
                import_module(package)
                text = resources.files(package).joinpath(path).read_text(encoding="utf-8")
            except (ImportError, OSError, TypeError, ValueError) as error:
                raise ConfigError(
                    f'plugin "{plugin.name}" names "{place}" in `crds`, which cannot be read ({error}); write '
                    '"package:file.yaml", and let the distribution contain the file'
                ) from error
            yield place, text.strip() + "\n"


def _typed() -> str:
    """Return the command line, without options that have their default."""
    context = click.get_current_context()
    words = ["pyscheduler", "config"]
    for option in context.command.params:
        value = context.params.get(option.name or "")
        flag = option.opts[-1]
        if value == option.default or value in {None, "", ()}:
            continue
        if isinstance(value, bool):
            words += [flag] if value else option.secondary_opts[-1:]
        else:
            for each in value if isinstance(value, tuple) else (value,):
                words += [flag, str(each)]
    return shlex.join(words)
