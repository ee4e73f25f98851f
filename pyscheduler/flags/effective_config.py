"""Check the flags of `pyscheduler run` and apply them to the configuration.

Differs from kube-scheduler: the log names deprecated flags that have no effect because of `--config`.
Source: kube-scheduler 1.36, `cmd/kube-scheduler/app/options`, and `Validate` in apiserver and component-base.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.errors import QuantityError
from kube_objects.quantity import parse_quantity
from pyscheduler.flags.declaration import flag_name
from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyscheduler.config.problems import Path
    from pyscheduler.config.types import Configuration
    from pyscheduler.flags.run_flags import Flags

__all__ = ["Effective", "effective", "with_election"]

_VERSION: Final = (1, 36)
#: The oldest minor version with which kube-scheduler 1.36 accepts compatibility is three minor versions back.
_OLDEST: Final = (1, 33)
_CONTENT_TYPES: Final = frozenset({"application/json", "application/vnd.kubernetes.protobuf", ""})
_METRIC: Final = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = "[a-zA-Z_][a-zA-Z0-9_]*"
_LOGGING_GATE: Final = "LoggingAlphaOptions"
#: The deprecated flag that has an effect with a configuration file, too.
_STILL_USED: Final = "max_unschedulable_seconds"


@attrs.frozen(kw_only=True)
class Effective:
    """The effective configuration of a command line."""

    config: Configuration
    gates: Mapping[str, bool]
    #: Warnings about flags without effect, for the log.
    warnings: Sequence[str] = ()


def effective(flags: Flags, built_in: str = "") -> Effective:
    """Return the configuration with the flags applied; raise `ConfigError` with every mistake in the flags.

    `built_in` is the text of the configuration of a command without `--config`, instead of the default one.
    """
    from pyscheduler.config.feature_gates import parse, warnings_of
    from pyscheduler.config.load import load, loads

    named = ",".join(flags.feature_gate.feature_gates)
    gates = parse(named)
    problems = [
        *_refusals(flags, gates),
        *_version_problems(flags),
        *_serving_problems(flags),
        *_metric_problems(flags),
    ]
    if problems:
        raise ConfigError(*problems)
    path = flags.main.config
    config = loads(built_in, gates=gates) if built_in and not path else load(path or None, gates=gates)
    warnings = [*warnings_of(named)]
    if path or built_in:
        why = "because --config is given" if path else "because the command has a configuration of its own"
        deprecated = [field.name for field in attrs.fields(type(flags.deprecated)) if field.name != _STILL_USED]
        ignored = [name for name in deprecated if name in flags.given]
        warnings += [f"--{name.replace('_', '-')} is ignored, {why}" for name in ignored]
    else:
        config = _with_deprecated(config, flags)
    config = with_election(config, flags, gates)
    return Effective(config=config, gates=gates, warnings=warnings)


# --- the configuration --------------------------------------------------------------------------


def _with_deprecated(config: Configuration, flags: Flags) -> Configuration:
    """Return `config` with the deprecated flags applied; only for a configuration without a file."""
    old = flags.deprecated
    connection = attrs.evolve(
        config.client_connection,
        qps=old.kube_api_qps,
        burst=old.kube_api_burst,
        content_type=old.kube_api_content_type,
    )
    return attrs.evolve(
        config,
        client_connection=connection,
        enable_profiling=old.profiling,
        enable_contention_profiling=old.contention_profiling,
    )


def with_election(config: Configuration, flags: Flags, gates: Mapping[str, bool]) -> Configuration:
    """Return `config` with the flags of leader election applied; raise `ConfigError` for values that conflict."""
    from pyscheduler.config.fields import fields_of
    from pyscheduler.config.problems import path_text
    from pyscheduler.config.types import LeaderElection
    from pyscheduler.config.validation import problems_of

    election = flags.leader_election
    names = {field.name: f"--{flag_name(field)}" for field in attrs.fields(type(election)) if field.name in flags.given}
    said = {name: getattr(election, name) for name in names}
    changed = attrs.evolve(config, leader_election=attrs.evolve(config.leader_election, **said))
    keys = {field.attribute: key for key, field in fields_of(LeaderElection).items()}
    named: dict[Path, str] = {("leaderElection", keys[name]): flag for name, flag in names.items()}
    named["clientConnection", "burst"] = "--kube-api-burst"
    for name in ("resource_lock", "resource_name", "resource_namespace"):
        if said.get(name) == "":
            raise ConfigError(f"{names[name]}: Required value")
    problems = [
        f"{named.get(problem.path, path_text(problem.path))}: {problem.message}"
        for problem in problems_of(changed, gates)
    ]
    if problems:
        raise ConfigError(*problems)
    return changed


# --- mistakes -----------------------------------------------------------------------------------


def _refusals(flags: Flags, gates: Mapping[str, bool]) -> Iterator[str]:
    """Yield a line for each flag that cannot work here as in kube-scheduler."""
    if flags.globals.unsupported_kube_api_over_localhost:
        yield (
            "--unsupported-kube-api-over-localhost is a flag of OpenShift and not supported; name the API server with "
            "--master or in the kubeconfig"
        )
    if flags.authentication.requestheader_client_ca_file:
        yield (
            "--requestheader-client-ca-file is not supported: pyscheduler does not accept users named in a proxy's "
            "headers; let clients send a token or a certificate (--client-ca-file)"
        )
    if flags.deprecated.kube_api_content_type not in _CONTENT_TYPES:
        kind = flags.deprecated.kube_api_content_type
        yield f"--kube-api-content-type: {kind} is not supported; remove the flag, or use application/json"
    if flags.globals.version not in {"", "true", "false", "raw"}:
        shown = flags.globals.version
        yield f"--version={shown}: the reported version cannot be changed; use --version or --version=raw"
    yield from _log_refusals(flags, gates)


def _log_refusals(flags: Flags, gates: Mapping[str, bool]) -> Iterator[str]:
    logs = flags.logs
    form = logs.log_format or logs.logging_format
    if form not in {"text", "json"}:
        yield f"--logging-format: Invalid value: {json.dumps(form)}: Unsupported log format; use text or json"
    if logs.vmodule and form == "json":
        yield "--vmodule: Forbidden: Only supported for text log format"
    if logs.log_flush_frequency_seconds <= 0:
        yield "--log-flush-frequency: Must be greater than zero"
    for kind in ("text", "json"):
        if getattr(logs, f"log_{kind}_split_stream") and not gates[_LOGGING_GATE]:
            yield f"--log-{kind}-split-stream: Forbidden: Feature {_LOGGING_GATE} is disabled"
        flag, size = f"--log-{kind}-info-buffer-size", getattr(logs, f"log_{kind}_info_buffer_size")
        try:
            buffered = bool(size) and parse_quantity(size) != 0
        except QuantityError as error:
            yield f'invalid argument {json.dumps(size)} for "{flag}" flag: {error}'
            continue
        if buffered and not gates[_LOGGING_GATE]:
            yield f"{flag}: Forbidden: Feature {_LOGGING_GATE} is disabled"
        elif buffered:
            yield f"{flag}: every line is written at once, so that none is lost; remove the flag"


def _version_problems(flags: Flags) -> Iterator[str]:
    """Yield the mistakes in the versions to emulate; only 1.36 is supported."""
    wanted = {
        "--emulated-version": (flags.feature_gate.emulated_version, _VERSION, "emulation version"),
        "--min-compatibility-version": (
            flags.feature_gate.min_compatibility_version,
            _OLDEST,
            "minCompatibilityVersion version",
        ),
    }
    for flag, (values, oldest, what) in wanted.items():
        seen: dict[str, str] = {}
        for value in values:
            component, _, text = value.rpartition("=")
            component = component.strip() or "kube"
            match = re.fullmatch(r"v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", text.strip())
            if component in seen:
                yield f"{flag}: duplicate version flag, {component}={seen[component]} and {component}={text}"
            elif component != "kube":
                yield f"{flag}: component not registered: {component}"
            elif match is None:
                yield f"{flag}: could not parse {json.dumps(text)} as version"
            elif match[3] and int(match[3]):
                yield f"{flag}: patch version not allowed, got: kube={text}"
            elif not oldest <= (int(match[1]), int(match[2])) <= _VERSION:
                first, last = (".".join(map(str, version)) for version in (oldest, _VERSION))
                yield f"{flag}: {what} {match[1]}.{match[2]} is not between [{first}, {last}]"
            seen[component] = text


def _serving_problems(flags: Flags) -> Iterator[str]:
    serving = flags.secure_serving
    for flag, port, what in (
        ("--secure-port", serving.secure_port, "secure port"),
        ("--health-port", flags.own.health_port, "health port"),
    ):
        if not 0 <= port <= 65535:
            yield f"{flag} {port} must be between 0 and 65535, inclusive. 0 for turning off {what}"
    if serving.secure_port and serving.secure_port == flags.own.health_port:
        yield f"--secure-port and --health-port are both {serving.secure_port}; use two ports, or 0 for one of them"
    if bool(serving.tls_cert_file) != bool(serving.tls_private_key_file):
        here, missing = "--tls-cert-file", "--tls-private-key-file"
        if serving.tls_private_key_file:
            here, missing = missing, here
        yield f"{here} is given without {missing}; a certificate needs its key"
    if serving.http2_max_streams_per_connection < 0:
        yield "--http2-max-streams-per-connection must be 0 or more"
    for flag, paths in (("--authorization-always-allow-paths", flags.authorization.authorization_always_allow_paths),):
        for path in paths:
            if "*" in path[:-1]:
                yield f"{flag}: only trailing * allowed in {json.dumps(path.removeprefix('/'))}"
    if flags.deprecated.max_unschedulable_seconds < 0:
        yield "--pod-max-in-unschedulable-pods-duration must be 0 or more"
    yield from _header_problems(flags)


def _header_problems(flags: Flags) -> Iterator[str]:
    """Yield kube-scheduler's errors about request headers, although they are not used here."""
    names = ("username_headers", "uid_headers", "group_headers", "extra_headers_prefix", "allowed_names")
    for name in names:
        if not all(value.strip() for value in getattr(flags.authentication, f"requestheader_{name}")):
            yield f'empty value in "requestheader-{name.replace("_", "-")}"'


def _metric_problems(flags: Flags) -> Iterator[str]:
    metrics = flags.metrics
    for name in metrics.disabled_metrics:
        if not re.fullmatch(_METRIC, name):
            shown = json.dumps(name)
            yield f'--disabled-metrics: must be fully qualified metric names matching "^{_METRIC}$", got {shown}'
    if not all(re.fullmatch(f"{_METRIC},{_LABEL}", key) for key in metrics.allow_metric_labels):
        yield (
            "--allow-metric-labels: must have keys with format `metricName,labelName` where metricName matches "
            f'"{_METRIC}" and labelName matches "{_LABEL}"'
        )
    if metrics.allow_metric_labels and metrics.allow_metric_labels_manifest:
        yield "--allow-metric-labels and --allow-metric-labels-manifest: cannot specify both"
    before = f"{_VERSION[0]}.{_VERSION[1] - 1}"
    if metrics.show_hidden_metrics_for_version not in {"", before}:
        yield (
            f"--show-hidden-metrics-for-version: Invalid value: {json.dumps(metrics.show_hidden_metrics_for_version)}: "
            f"must be omitted or have the value '{before}'; only the previous minor version is allowed"
        )
