"""kube-scheduler's flags, all of them: taken, with its spelling and defaults, or refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from kube_objects.durations import format_duration
from pyscheduler.cli.run import command
from pyscheduler.flags.effective_config import Effective, effective
from pyscheduler.flags.run_flags import Flags
from pyscheduler.framework.errors import ConfigError

#: As kube-scheduler's help lists them; see the NOTICE beside it.
KNOWN: dict[str, dict[str, Any]] = {
    each["flag"]: each for each in json.loads((Path(__file__).parent / "flags.json").read_text())
}
DEFAULT = Path(__file__).parents[2] / "configs" / "default.yaml"


def read(*arguments: str) -> Flags:
    """Return what a command line says."""
    return Flags.read(command.make_context("run", list(arguments)).params)


def told(*arguments: str) -> str:
    """Return the mistakes of a command line."""
    with pytest.raises(ConfigError) as raised:
        effective(read(*arguments))
    return str(raised.value)


@attrs.frozen
class Taken:
    """A flag that is accepted: what is typed after its name, and the value that comes of it."""

    typed: str
    value: object


@attrs.frozen
class Refused:
    """A flag that is not: what is typed, and words of the reason."""

    typed: str
    reason: str


#: What is typed for each flag, and what becomes of it. A flag that is not here fails the first test.
TABLE: dict[str, Taken | Refused] = {
    "config": Taken(str(DEFAULT), str(DEFAULT)),
    "master": Taken("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
    "unsupported-kube-api-over-localhost": Refused("true", "OpenShift"),
    "write-config-to": Taken("out.yaml", "out.yaml"),
    "bind-address": Taken("127.0.0.1", "127.0.0.1"),
    "cert-dir": Taken("certs", "certs"),
    "disable-http2-serving": Taken("true", True),
    "http2-max-streams-per-connection": Taken("100", 100),
    "permit-address-sharing": Taken("true", True),
    "permit-port-sharing": Taken("true", True),
    "secure-port": Taken("10260", 10260),
    "tls-cert-file": Refused("tls.crt", "is given without --tls-private-key-file"),
    "tls-cipher-suites": Taken("TLS_A,TLS_B", ("TLS_A", "TLS_B")),
    "tls-curve-preferences": Taken("29", ("29",)),
    "tls-min-version": Taken("VersionTLS13", "VersionTLS13"),
    "tls-private-key-file": Refused("tls.key", "is given without --tls-cert-file"),
    "tls-sni-cert-key": Taken("a.crt,a.key:a.example,*.b.example", (("a.crt", "a.key", ("a.example", "*.b.example")),)),
    "authentication-kubeconfig": Taken("scheduler.conf", "scheduler.conf"),
    "authentication-skip-lookup": Taken("true", True),
    "authentication-token-webhook-cache-ttl": Taken("1m30s", 90.0),
    "authentication-tolerate-lookup-failure": Taken("false", False),
    "client-ca-file": Taken("ca.crt", "ca.crt"),
    "requestheader-allowed-names": Taken("front", ("front",)),
    "requestheader-client-ca-file": Refused("front.crt", "let clients send a token or a certificate"),
    "requestheader-extra-headers-prefix": Taken("X-Remote-Extra-", ("X-Remote-Extra-",)),
    "requestheader-group-headers": Taken("X-Remote-Group", ("X-Remote-Group",)),
    "requestheader-uid-headers": Taken("X-Remote-Uid", ("X-Remote-Uid",)),
    "requestheader-username-headers": Taken("X-Remote-User", ("X-Remote-User",)),
    "authorization-always-allow-paths": Taken("/healthz,/metrics*", ("/healthz", "/metrics*")),
    "authorization-kubeconfig": Taken("scheduler.conf", "scheduler.conf"),
    "authorization-webhook-cache-authorized-ttl": Taken("5s", 5.0),
    "authorization-webhook-cache-unauthorized-ttl": Taken("500ms", 0.5),
    "contention-profiling": Taken("false", False),
    "kube-api-burst": Taken("200", 200),
    "kube-api-content-type": Taken("application/json", "application/json"),
    "kube-api-qps": Taken("75.5", 75.5),
    "kubeconfig": Taken("scheduler.conf", "scheduler.conf"),
    "pod-max-in-unschedulable-pods-duration": Taken("5m0s", 300.0),
    "profiling": Taken("false", False),
    "leader-elect": Taken("false", False),
    "leader-elect-lease-duration": Taken("2562047h", 2562047 * 3600.0),
    "leader-elect-renew-deadline": Taken("9s", 9.0),
    "leader-elect-resource-lock": Taken("leases", "leases"),
    "leader-elect-resource-name": Taken("mine", "mine"),
    "leader-elect-resource-namespace": Taken("default", "default"),
    "leader-elect-retry-period": Taken("1.5s", 1.5),
    "emulated-version": Taken("kube=1.36", ("kube=1.36",)),
    "feature-gates": Taken("kube:GangScheduling=false", ("kube:GangScheduling=false",)),
    "min-compatibility-version": Taken("1.35", ("1.35",)),
    "allow-metric-labels": Taken("m,l=a,b", {"m,l": "a,b"}),
    "allow-metric-labels-manifest": Taken("labels.yaml", "labels.yaml"),
    "disabled-metrics": Taken("scheduler_goroutines", ("scheduler_goroutines",)),
    "show-hidden-metrics-for-version": Taken("1.35", "1.35"),
    "log-flush-frequency": Taken("1s", 1.0),
    "log-json-info-buffer-size": Refused("1Mi", "Feature LoggingAlphaOptions is disabled"),
    "log-json-split-stream": Refused("true", "Feature LoggingAlphaOptions is disabled"),
    "log-text-info-buffer-size": Refused("512", "Feature LoggingAlphaOptions is disabled"),
    "log-text-split-stream": Refused("true", "Feature LoggingAlphaOptions is disabled"),
    "logging-format": Taken("json", "json"),
    "v": Taken("4", 4),
    "vmodule": Taken("queue/*=4,serving=0", {"queue/*": 4, "serving": 0}),
    "version": Taken("raw", "raw"),
}
#: Defaults that are others here, for the reason that the table of differences gives.
OTHER_DEFAULTS = {"leader-elect-resource-name": "pyscheduler", "v": "2"}


def test_every_flag_has_its_row() -> None:
    """A flag that kube-scheduler gains has to be thought about; click itself has `--help`."""
    assert set(TABLE) == set(KNOWN) - {"help"}
    assert "--help" in {name for each in command.get_params(command.make_context("run", [])) for name in each.opts}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(TABLE))
@pytest.mark.parametrize("form", ["--flag=value", "--flag value"])
def test_each_flag_is_accepted_or_rejected(name: str, form: str) -> None:
    """In both spellings, with the value that was meant; what is refused is told in one line with the flag's name."""
    row = TABLE[name]
    typed = [f"--{name}={row.typed}"] if form == "--flag=value" else [f"--{name}", row.typed]
    flags = read(*typed)
    if isinstance(row, Refused):
        reason = told(*typed)
        assert reason.startswith(f"--{name}")
        assert row.reason in reason
        assert "\n" not in reason
    else:
        assert dict(flags.items())[name] == row.value
        assert effective(flags).config.profiles
        assert len(flags.given) == 1


def test_each_flag_has_kube_schedulers_default() -> None:
    """What is not given is as there, but for what lets the two stand side by side."""
    values = dict(Flags().items())
    for name in set(TABLE) - {"version"}:
        value = values[name]
        shown = f"[{','.join(value)}]" if isinstance(value, tuple) else json.dumps(value).strip('"')
        if isinstance(value, float):
            shown = f"{value:g}" if name == "kube-api-qps" else format_duration(value)
        expected = OTHER_DEFAULTS.get(name) or (KNOWN[name]["default"] or "").strip('"')
        assert shown == expected if expected not in {"", "[]"} else not value, name


@pytest.mark.parametrize(
    ("typed", "name", "expected"),
    [
        pytest.param(["--leader-elect"], "leader-elect", True, id="a boolean alone"),
        pytest.param(["--leader-elect", "--seed=1"], "leader-elect", True, id="a boolean before another flag"),
        pytest.param(["--profiling=F"], "profiling", False, id="a boolean as Go takes it"),
        pytest.param(["-v=4"], "v", 4, id="-v=4"),
        pytest.param(["-v", "4"], "v", 4, id="-v 4"),
        pytest.param(["-v4"], "v", 4, id="-v4"),
        pytest.param(["--v=4"], "v", 4, id="--v=4"),
        pytest.param(["--secure_port=1"], "secure-port", 1, id="underscores"),
        pytest.param(["--secure-port=0x10"], "secure-port", 16, id="a hexadecimal number"),
        pytest.param(["--secure-port=1", "--secure-port=2"], "secure-port", 2, id="the last of several"),
        pytest.param(
            ["--feature-gates=A=true", "--feature-gates", "B=true,C=false"],
            "feature-gates",
            ("A=true", "B=true,C=false"),
            id="gates add up",
        ),
        pytest.param(
            ["--disabled-metrics=a,b", "--disabled-metrics=c"], "disabled-metrics", ("a", "b", "c"), id="lists add up"
        ),
        pytest.param(["--disabled-metrics="], "disabled-metrics", (), id="an empty list"),
        pytest.param(
            ["--allow-metric-labels", 'a,l=1,"b,l=2"'], "allow-metric-labels", None, id="quotes in the wrong place"
        ),
        pytest.param(
            ["--allow-metric-labels", '"a,l=1,2","b,l=3"'],
            "allow-metric-labels",
            {"a,l": "1,2", "b,l": "3"},
            id="pairs with commas, quoted",
        ),
        pytest.param(["--bind-address=::"], "bind-address", "::", id="IPv6"),
        pytest.param(["--bind-address="], "bind-address", "0.0.0.0", id="all addresses"),
        pytest.param(["--log-format", "json"], "log-format", "json", id="the old name"),
    ],
)
def test_spelling(typed: list[str], name: str, expected: object) -> None:
    """Flags are typed as for Go programs."""
    if expected is None:
        with pytest.raises(ConfigError, match="invalid argument"):
            read(*typed)
    else:
        assert dict(read(*typed).items())[name] == expected


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        pytest.param("--secure-port=https", 'strconv.ParseInt: parsing "https": invalid syntax', id="no number"),
        pytest.param("--kube-api-burst=3000000000", "value out of range", id="too large"),
        pytest.param("--kube-api-qps=fast", 'strconv.ParseFloat: parsing "fast": invalid syntax', id="no float"),
        pytest.param("--leader-elect=maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax', id="no boolean"),
        pytest.param("--leader-elect-retry-period=2", 'time: missing unit in duration "2"', id="no unit"),
        pytest.param("--pod-max-in-unschedulable-pods-duration=300", "time: missing unit", id="bare seconds"),
        pytest.param("--kube-api-qps=1e39", 'strconv.ParseFloat: parsing "1e39": value out of range', id="too large"),
        pytest.param("--bind-address=localhost", 'failed to parse IP: "localhost"', id="no address"),
        pytest.param("--v=-1", 'strconv.ParseUint: parsing "-1": invalid syntax', id="a negative level"),
        pytest.param("--v=3000000000", "value out of range", id="a huge level"),
        pytest.param("--vmodule=queue", '"queue" does not have the pattern=N format', id="no level"),
        pytest.param("--vmodule=queue=x", 'parsing verbosity in "queue=x": strconv.ParseUint', id="no number for it"),
        pytest.param("--tls-sni-cert-key=a", "expected comma separated certificate and key file paths", id="no pair"),
        pytest.param("--tls-sni-cert-key=a,b:", "empty names list is not allowed", id="no names"),
        pytest.param("--allow-metric-labels=a", "a must be formatted as key=value", id="no pair of key and value"),
    ],
)
def test_values_that_cannot_be_read(typed: str, reason: str) -> None:
    """One line in the words of Go's flags, with the flag's name."""
    name, _, value = typed.partition("=")
    flag = "-v, --v" if name == "--v" else name
    with pytest.raises(ConfigError) as raised:
        read(typed)
    assert str(raised.value).startswith(f'invalid argument {json.dumps(value)} for "{flag}" flag: ')
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        pytest.param(["--secure-port=70000"], "--secure-port 70000 must be between 0 and 65535, inclusive.", id="port"),
        pytest.param(["--health-port=-1"], "--health-port -1 must be between 0 and 65535", id="health port"),
        pytest.param(["--health-port=10259"], "--secure-port and --health-port are both 10259", id="one port twice"),
        pytest.param(
            ["--leader-elect-renew-deadline=15s"],
            '$.leaderElection.leaseDuration: Invalid value: "15s": must be greater than `RenewDeadline`',
            id="lease shorter than deadline",
        ),
        pytest.param(
            ["--leader-elect-lease-duration=5s"],
            '--leader-elect-lease-duration: Invalid value: "10s": must be greater than `RenewDeadline`',
            id="the same, by its flag",
        ),
        pytest.param(
            ["--leader-elect-retry-period=0s"], '--leader-elect-retry-period: Invalid value: "0s": must be', id="zero"
        ),
        pytest.param(
            ["--leader-elect-resource-lock=endpoints"],
            '--leader-elect-resource-lock: Invalid value: "endpoints": resourceLock value must be "leases"',
            id="kind of lock",
        ),
        pytest.param(
            ["--leader-elect-resource-name="], "--leader-elect-resource-name: Required value", id="lease without name"
        ),
        pytest.param(["--kube-api-burst=-1"], "--kube-api-burst: Invalid value: -1: must be non-negative", id="burst"),
        pytest.param(["--kube-api-content-type=text/xml"], "--kube-api-content-type: text/xml is not", id="content"),
        pytest.param(["--emulated-version=1.35"], "emulation version 1.35 is not between [1.36, 1.36]", id="emulated"),
        pytest.param(["--emulated-version=wardle=1.2"], "component not registered: wardle", id="component"),
        pytest.param(["--emulated-version=1.36.2"], "patch version not allowed, got: kube=1.36.2", id="patch"),
        pytest.param(["--emulated-version=new"], 'could not parse "new" as version', id="no version"),
        pytest.param(["--emulated-version=1.36,kube=1.36"], "duplicate version flag", id="twice"),
        pytest.param(
            ["--min-compatibility-version=1.32"],
            "minCompatibilityVersion version 1.32 is not between [1.33, 1.36]",
            id="compatibility",
        ),
        pytest.param(
            ["--show-hidden-metrics-for-version=1.34"],
            "must be omitted or have the value '1.35'; only the previous minor version is allowed",
            id="hidden metrics",
        ),
        pytest.param(["--disabled-metrics=a-b"], 'must be fully qualified metric names matching "^', id="metric"),
        pytest.param(["--allow-metric-labels=m=v"], "must have keys with format `metricName,labelName`", id="labels"),
        pytest.param(
            ["--allow-metric-labels=m,l=v", "--allow-metric-labels-manifest=f"], "cannot specify both", id="both"
        ),
        pytest.param(["--logging-format=xml"], '--logging-format: Invalid value: "xml": Unsupported', id="format"),
        pytest.param(["--vmodule=a=1", "--logging-format=json"], "Only supported for text log format", id="vmodule"),
        pytest.param(["--log-flush-frequency=0s"], "--log-flush-frequency: Must be greater than zero", id="flush"),
        pytest.param(
            ["--log-text-info-buffer-size=1Mi", "--feature-gates=LoggingAlphaOptions=true"],
            "every line is written at once",
            id="buffer",
        ),
        pytest.param(["--log-text-info-buffer-size=much"], 'invalid argument "much" for', id="no quantity"),
        pytest.param(
            ["--authorization-always-allow-paths=/a*b"], 'only trailing * allowed in "a*b"', id="star in a path"
        ),
        pytest.param(["--requestheader-group-headers= "], 'empty value in "requestheader-group-headers"', id="header"),
        pytest.param(["--http2-max-streams-per-connection=-1"], "must be 0 or more", id="streams"),
        pytest.param(
            ["--pod-max-in-unschedulable-pods-duration=-1s"], "must be 0 or more", id="a duration that is negative"
        ),
        pytest.param(["--version=v1.30.0"], "the reported version cannot be changed", id="reported version"),
    ],
)
def test_values_that_cannot_be_used(typed: list[str], reason: str) -> None:
    """One line for the mistake, with the flag's name, in kube-scheduler's words where it has some."""
    assert reason in told(*typed)


def test_all_mistakes_are_reported_at_once() -> None:
    """Each on a line of its own."""
    lines = told("--secure-port=70000", "--disabled-metrics=a-b", "--version=v1.2").splitlines()
    assert [line.split()[0].rstrip(":") for line in lines] == ["--version=v1.2", "--secure-port", "--disabled-metrics"]


# --- what counts beside a file ------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return a configuration that says otherwise than the defaults."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nenableProfiling: false\n"
        "clientConnection: {qps: 7, burst: 8, kubeconfig: theirs}\n"
        "leaderElection: {leaderElect: false, leaseDuration: 60s, resourceName: theirs}\n"
    )
    return str(path)


def settled(*arguments: str) -> Effective:
    """Return what a command line comes to."""
    return effective(read(*arguments))


def test_flags_of_leader_election_override_the_file(file: str) -> None:
    """Those that are given, and no other; as in kube-scheduler."""
    found = settled("--config", file, "--leader-elect", "--leader-elect-renew-deadline=50s")
    election = found.config.leader_election
    assert (election.leader_elect, election.renew_deadline_seconds) == (True, 50.0)
    assert (election.lease_duration_seconds, election.resource_name) == (60.0, "theirs")


def test_deprecated_flags_are_ignored_with_config(file: str) -> None:
    """As in kube-scheduler; each is said to be."""
    typed = ["--kube-api-qps=1", "--kube-api-burst=2", "--profiling", "--kube-api-content-type=application/json"]
    found = settled("--config", file, *typed)
    assert (found.config.client_connection.qps, found.config.client_connection.burst) == (7.0, 8)
    assert not found.config.enable_profiling
    assert sorted(found.warnings) == sorted(
        f"{each.partition('=')[0]} is ignored, because --config is given" for each in typed
    )


def test_deprecated_flags_apply_without_config() -> None:
    """They are the only way to say it then."""
    typed = ["--kube-api-qps=1", "--kube-api-burst=2", "--profiling=false", "--contention-profiling=false"]
    config = settled(*typed).config
    assert (config.client_connection.qps, config.client_connection.burst) == (1.0, 2)
    assert (config.enable_profiling, config.enable_contention_profiling) == (False, False)


def test_without_flags_nothing_changes(file: str) -> None:
    """The file counts as it stands; without one, the defaults of the program do."""
    config = settled("--config", file).config
    assert (config.client_connection.qps, config.leader_election.leader_elect) == (7.0, False)
    assert settled().config.leader_election.leader_elect
    assert settled().warnings == []


def test_gates_with_a_prefix_and_repeated() -> None:
    """`kube:` is optional, but not now and then; several flags add up."""
    gates = settled("--feature-gates=kube:GangScheduling=true,kube:GenericWorkload=true").gates
    assert gates["GangScheduling"]
    assert settled("--feature-gates=AllBeta=false", "--feature-gates=GenericWorkload=true").gates["GenericWorkload"]
    mixed = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
    assert mixed in told("--feature-gates=kube:GenericWorkload=true", "--feature-gates=AllBeta=false")


def test_streams_can_be_split_with_the_gate() -> None:
    """As in kube-scheduler, which asks for the same gate."""
    flags = read("--log-text-split-stream", "--feature-gates=LoggingAlphaOptions=true")
    assert effective(flags).gates["LoggingAlphaOptions"]
    assert flags.logs.log_text_split_stream
