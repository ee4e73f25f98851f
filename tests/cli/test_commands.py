"""The command line: quick, teaching, and readable by people and programs."""

from __future__ import annotations

import json
import re
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import attrs
import click
import pytest

from pyscheduler.api import Pod
from pyscheduler.cli import run as run_module
from pyscheduler.cli.main import cli, main
from pyscheduler.framework import PLUGIN_API, CycleState, FilterPlugin, Nodes, NodeStatuses, PostBindPlugin
from pyscheduler.plugins.node_resources.fit import NodeResourcesFit
from pyscheduler.runtime.assembly import discovery
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_batch.cli.queue.command import main as queue
from tests import processes
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]
COMMANDS = [
    *("run", "demo", "cluster", "explain", "podgroup", "plugins", "bench", "new", "config"),
    *("queue", "binder", "simulate", "lab", "demo-gang", "demo-batch", "webhook"),
]


def said(run: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command in this process; return what it printed."""
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    return out


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"]], ids=" ".join)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """Help answers at once, because it imports none of what the commands need."""
    heavy = {"numpy", "aiohttp", "kubernetes", "rich", "yaml", "opentelemetry", "pluggy", "cattrs", "cryptography"}
    heavy |= {"asyncio"} if arguments == ["--help"] else {"msgspec"}
    code = (
        "import sys\nfrom pyscheduler.cli.main import cli\n"
        f"try:\n    cli({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = processes.run(sys.executable, "-c", code, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_explain_of_a_live_cluster_imports_no_api_server() -> None:
    """Only manifests need the embedded API server; its import takes a quarter of a second of CPU."""
    code = (
        "import sys\nfrom pyscheduler.cli import explain_pods, explain_view, leader_story\n"
        "from pyscheduler.cluster import object_sources, readonly_cluster\n"
        "print('kube_testserver.cluster' in sys.modules)"
    )
    assert processes.run(sys.executable, "-c", code, check=True).stdout == "False\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that installs a distribution with a command module of this text, and nothing of the lab."""

    def install(text: str) -> None:
        package, metadata = tmp_path / "my_tools", tmp_path / "my_tools-1.0.dist-info"
        package.mkdir()
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-tools\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[pyscheduler.commands]\nmy-tools = my_tools.commands\n")
        (package / "__init__.py").touch()
        (package / "commands.py").write_text(text)
        (package / "drain.py").write_text("import click\n\n\n@click.command\ndef command():\n    print('drained')\n")

    for name in ("my_tools", "my_tools.commands", "my_tools.drain"):
        sys.modules.pop(name, None)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(each for each in sys.path if "site-packages" not in each)])
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if "editable" not in repr(each).lower()])
    return install


def test_a_distribution_adds_commands(installed: Callable[[str], None], run: Run) -> None:
    """A command of an entry point is listed and run; a name of ours stays ours."""
    installed("COMMANDS = {'drain': ('my_tools.drain', 'Empty a node.'), 'run': ('my_tools.drain', 'Mine.')}")
    assert said(run, "drain") == "drained\n"
    listed = said(run, "--help")
    assert re.search(r"^  drain +Empty a node\.$", listed, re.MULTILINE)
    assert "Mine." not in listed
    assert "Schedule pods on a cluster." in listed


def test_a_distribution_that_fails_is_reported(installed: Callable[[str], None], run: Run) -> None:
    """The other commands work; a command that has moved says what to install."""
    installed("raise RuntimeError('broken')")
    code, _, err = run("simulate")
    assert code == 2
    lines = err.splitlines()
    assert lines[0] == "warning: commands of my_tools.commands are left out: RuntimeError('broken')"
    assert lines[-1].startswith(
        "error: No such command 'simulate'. Install it with: pip install 'kube-pyscheduler[lab]'"
    )


def test_jobs_are_explained_where_batch_is_installed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, one line says what to install."""
    monkeypatch.setattr("pyscheduler.cli.added_commands.added", lambda _: {})
    code, _, err = run("explain", "job", "training/resnet")
    assert code == 2
    assert "pip install 'kube-pyscheduler[batch]'" in err


def test_config_shows_a_shard_and_its_warnings(tmp_path: Path, run: Run) -> None:
    """The actions of a SchedulingShard are written out; a warning has the file and the path in it."""
    file = tmp_path / "shard.yaml"
    file.write_text("apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec: {args: {nix: 1}}\n")
    code, out, err = run("config", "--config", file)
    assert code == 0
    assert "shard:" not in out
    assert "      - stalegangeviction\n" in out
    assert err == f"warning: {file}: $.spec.args.nix has no effect here\n"


def test_the_first_fifty_mistakes_are_shown(tmp_path: Path, run: Run) -> None:
    """The last line says how many more there are."""
    file = tmp_path / "batch.yaml"
    file.write_text(f"preset: kai\nactions: {'dance, ' * 200}allocate\n")
    lines = run("config", "--config", file)[2].splitlines()
    assert len(lines) == 51
    assert lines[-1] == f"error: {file}: 150 more mistakes"


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        pytest.param(main, ["config"], id="config"),
        pytest.param(main, ["simulate", "--queue-cases", "CASES"], id="cases"),
        pytest.param(
            queue, ["get", "--objects", str(ROOT / "tests" / "batch" / "queue" / "kai.yaml")], id="kubectl queue"
        ),
    ],
)
def test_a_full_disk_is_one_line(
    program: Callable[[list[str]], None],
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It names the cause, and the exit code is 1."""
    (tmp_path / "cases").write_text("cases: [{id: a}]")
    with open("/dev/full", "w", encoding="utf-8") as full, monkeypatch.context() as patch:  # noqa: PTH123 - a device
        patch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            program([str(tmp_path / "cases") if each == "CASES" else each for each in arguments])
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: the output cannot be written: no space left on device\n"


def test_answers_to_a_closed_output_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python has no standard output then; the exit code is 1."""
    (tmp_path / "cases").write_text("cases: [{id: a}]")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        with pytest.raises(SystemExit) as ended:
            main(["simulate", "--queue-cases", str(tmp_path / "cases")])
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: the output cannot be written: bad file descriptor\n"


def test_help_lists_every_command_with_its_first_line(run: Run) -> None:
    """The list says what each command does, though none of them is imported for it."""
    text = said(run, "--help")
    context = click.Context(cli)
    assert cli.list_commands(context) == COMMANDS
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\S.*\.$", text, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_explains_every_option(name: str, run: Run) -> None:
    """Each command's help says what it does, explains each option, and fits 80 columns."""
    text = said(run, name, "--help")
    assert len(text.partition("Options:")[0].split()) > 20
    assert max(map(len, text.splitlines())) <= 100
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
        else:
            assert parameter.make_metavar(click.Context(command)) in text


@pytest.mark.parametrize("name", ["cluster", "config", "explain", "plugins", "run"])
def test_examples_in_help_are_commands(name: str, run: Run) -> None:
    """What the help shows as an example can be typed: commands and options exist."""
    lines = [line.split() for line in said(run, name, "--help").splitlines() if line.startswith("    pyscheduler ")]
    assert lines
    for words in lines:
        command = cli.get_command(click.Context(cli), words[1])
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_crash_of_the_scheduler_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector of logs sees an error that ends the program as one event."""

    async def crash(*_: object, **__: object) -> bool:
        raise ValueError("a fault\nof the program")

    monkeypatch.setattr(run_module, "run_on_cluster", crash)
    code, _, err = run("run", "-v=0", "--logging-format=json", "--secure-port=0")
    (line,) = err.splitlines()
    assert (code, json.loads(line)["err"]) == (1, "a fault\nof the program")


def test_version(run: Run) -> None:
    """The version is that of the distribution; kube-scheduler's and Python's stand beside it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert said(run, "--version").startswith(
        f"pyscheduler {version} (kube-scheduler 1.36, plugin API {PLUGIN_API}), Python 3."
    )


def test_plugins_as_text(run: Run) -> None:
    """80 columns are enough; a plugin stands under its distribution with its extension points and args."""
    text = said(run, "plugins")
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"^kube-pyscheduler \S+ \(in-tree = pyscheduler\.plugins\.hooks\)$", text, re.MULTILINE)
    assert re.search(r"^  NodeName +filter$", text, re.MULTILINE)
    assert re.search(r"^  NodeAffinity +preFilter, filter, preScore, score\n +args: addedAffinity$", text, re.MULTILINE)


def test_plugins_as_json(run: Run) -> None:
    """Programs get the same, with the distributions and what is wrong with them."""
    data = json.loads(said(run, "plugins", "-o", "json", "--block", "queuesort"))
    fit = next(plugin for plugin in data["plugins"] if plugin["name"] == "NodeResourcesFit")
    assert fit["extensionPoints"] == ["preFilter", "filter", "preScore", "score", "placementScore"]
    assert set(fit["args"]) == {"ignoredResources", "ignoredResourceGroups", "scoringStrategy"}
    assert (fit["distribution"], fit["error"]) == ("kube-pyscheduler", "")
    batch = next(plugin for plugin in data["plugins"] if plugin["name"] == "Batch")
    assert {"preset", "actions", "tiers", "queueDepthPerAction", "binder"} < set(batch["args"])
    blocked = {each["name"]: each["blocked"] for each in data["distributions"]}
    assert blocked["kube-pyscheduler-queuesort"]
    assert not any(blocked[name] for name in ("kube-pyscheduler", "kube-pyscheduler-coscheduling"))


@pytest.mark.slow
def test_plugins_of_a_profile(run: Run) -> None:
    """With a file, its profiles are shown, extension point by extension point, in the order plugins run."""
    path = str(ROOT / "configs" / "default.yaml")
    text = said(run, "plugins", "--config", path)
    assert max(map(len, text.splitlines())) <= 80
    assert re.match(r"profile pyscheduler\n  preEnqueue +SchedulingGates, DynamicResources, DefaultPreemption\n", text)
    data = json.loads(said(run, "plugins", "--config", path, "-o", "json"))
    assert data["pyscheduler"]["filter"][:3] == ["NodeUnschedulable", "NodeName", "TaintToleration"]
    assert text.endswith("  equivalence cache: on\n")
    assert data["pyscheduler"]["equivalenceCache"] == {"enabled": True, "obstacles": []}


class Unsigned(FilterPlugin):
    """Filters nodes and does not sign pods."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return None


class WiderFit(NodeResourcesFit):
    """Inherits the filter of a plugin whose answers are cached."""


@pytest.mark.slow
def test_plugins_checks_an_installed_plugin(run: Run) -> None:
    """`--check` shows that the checks pass, the price at three sizes, and the equivalence cache."""
    text = said(run, "plugins", "--check", "NodeName", "--histories", "1")
    assert re.search(r"^NodeName passes \d+ checks on 1 random histories$", text, re.MULTILINE)
    assert re.search(r"\d+ µs at 100 nodes, \d+ µs at 1,000 nodes, \d+ µs at 5,000 nodes$", text, re.MULTILINE)
    assert "equivalence cache of the profile: on" in text


class SleepyFilter(FilterPlugin):
    """Blocks the event loop."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        """Sleep."""
        time.sleep(0)
        return None


@pytest.mark.slow
@pytest.mark.parametrize("output", ["text", "json"])
def test_plugins_reports_a_failed_check(run: Run, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """A plugin that fails a check ends the command with code 1, the place, the remedy and a test."""
    registry = discover()
    registry.add("SleepyFilter", SleepyFilter)
    monkeypatch.setattr(discovery, "discover", lambda **_: registry)
    for module in ("pyscheduler.testing.checks.subject", "pyscheduler.testing.fake_framework"):
        monkeypatch.setattr(f"{module}.discover", lambda **_: registry)
    code, text, _ = run("plugins", "--check", "SleepyFilter", "--histories", "1", "-o", output)
    assert code == 1
    if output == "json":
        failure = json.loads(text)["failure"]
        assert (failure["check"], json.loads(text)["price"]) == ("blocking", None)
        assert failure["place"].startswith("SleepyFilter.filter_nodes (")
    else:
        assert text.startswith('plugin "SleepyFilter" fails the check "blocking" in SleepyFilter.filter_nodes')
        assert "check_plugin('SleepyFilter', histories=[history])" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--check", "Nonesuch"], 'plugin "Nonesuch"', id="unknown"),
        pytest.param(["--check", "NodeName", "--block", "gang"], "leave out --block", id="block"),
        pytest.param(["--check", "NodeName", "--config", "nowhere.yaml"], "nowhere.yaml", id="no file"),
    ],
)
def test_plugins_check_reports_a_mistake_in_one_line(run: Run, arguments: list[str], message: str) -> None:
    """A wrong name or file is one line on stderr, and code 1."""
    code, _, error = run("plugins", *arguments)
    assert code == 1
    assert message in error
    assert len(error.splitlines()) == 1


def test_plugins_shows_which_plugin_prevents_the_equivalence_cache(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text names each plugin with the reason; a subclass loses the reuse of its own answers only."""
    registry = discover()
    registry.add("WiderFit", WiderFit)
    registry.add("Unsigned", Unsigned)
    monkeypatch.setattr(discovery, "discover", lambda **_: registry)
    path = tmp_path / "config.yaml"

    def shown(*enabled: str) -> list[str]:
        names = "".join(f"{{name: {name}}}, " for name in enabled)
        plugins = f"{{multiPoint: {{enabled: [{names}], disabled: [{{name: NodeResourcesFit}}]}}}}"
        path.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"profiles: [{{plugins: {plugins}}}]\n"
        )
        text = said(run, "plugins", "--config", str(path))
        assert max(map(len, text.splitlines())) <= 80
        return text[text.index("  equivalence cache") :].split("\n")

    subclass = ["    not for WiderFit: is a subclass of NodeResourcesFit and does not declare", "      reuse itself"]
    assert shown("WiderFit") == ["  equivalence cache: on", *subclass, ""]
    unsigned = "    Unsigned: judges nodes and does not inherit SignPlugin"
    assert shown("WiderFit", "Unsigned") == ["  equivalence cache: off", *subclass, unsigned, ""]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_output_of_config_can_be_read_again(form: str, tmp_path: Path, run: Run) -> None:
    """What `config` prints can be given to `--config`, and comes to the same."""
    text = said(run, "config", "--config", str(ROOT / "configs" / "default.yaml"), "-o", form)
    path = tmp_path / "again.yaml"
    path.write_text(text)
    assert said(run, "config", "--config", str(path), "-o", form) == text


@attrs.frozen(kw_only=True)
class PriceArgs:
    """The args of a plugin that is not kube-scheduler's."""

    percent: int = 50
    regions: tuple[str, ...] = ("north",)


class Priced(PostBindPlugin):
    """Has args."""

    args_type = PriceArgs

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing."""


@pytest.fixture
def priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Give a function that writes a configuration with a profile, for which the plugin `Priced` is installed."""
    registry = discover()
    registry.add("Priced", Priced)
    monkeypatch.setattr(discovery, "discover", lambda **_: registry)

    def write(profile: str) -> Path:
        path = tmp_path / "priced.yaml"
        path.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"profiles: [{{schedulerName: a, {profile}}}]\n"
        )
        return path

    return write


@pytest.mark.parametrize("given", ["", "pluginConfig: [{name: Priced, args: {percent: 20}}]"])
def test_config_fills_in_the_args_of_third_party_plugins(priced: Callable[[str], Path], run: Run, given: str) -> None:
    """Defaults are shown as for kube-scheduler's own, and what is shown can be read again."""
    path = priced(f"plugins: {{multiPoint: {{enabled: [{{name: Priced}}]}}}}, {given}")
    shown = json.loads(said(run, "config", "--config", str(path), "-o", "json"))
    args = [each["args"] for each in shown["profiles"][0]["pluginConfig"] if each["name"] == "Priced"]
    assert args == [{"percent": 20 if given else 50, "regions": ["north"]}]
    path.write_text(json.dumps(shown))
    assert json.loads(said(run, "config", "--config", str(path), "-o", "json")) == shown


def test_mistakes_in_plugins_and_in_args_are_reported_together(priced: Callable[[str], Path], run: Run) -> None:
    """One run tells about an unknown plugin, an unknown arg and an arg of the wrong type."""
    path = priced(
        "plugins: {multiPoint: {enabled: [{name: Priced}, {name: Prised}]}}, "
        "pluginConfig: [{name: Priced, args: {percnt: 20, regions: 3}}]"
    )
    lines = run("config", "--config", path)[2].splitlines()
    assert len(lines) == 3, lines
    for line in lines:
        assert line.removeprefix("error: ").startswith(f"{path}: "), line
    for text in ('plugin "Prised" does not exist, did you mean "Priced"?', 'did you mean "percent"?', "args.regions"):
        assert any(text in line for line in lines), (text, lines)


def test_unknown_plugins_are_reported_with_all_other_mistakes(priced: Callable[[str], Path], run: Run) -> None:
    """A value out of range hides no plugin that is missing, and what follows from a reported mistake is left out."""
    path = priced(
        "plugins: {score: {enabled: [{name: Prised}]}, multiPoint: {enabled: 3}}, percentageOfNodesToScore: 200, "
        "pluginConfig: [{name: NodeResourcesFit, args: {bogus: 1}}]"
    )
    lines = run("config", "--config", path)[2].splitlines()
    assert [line.rpartition(" @ $.profiles[0].")[2] for line in lines] == [
        "plugins.multiPoint.enabled",
        "pluginConfig[0].args.bogus",
        "percentageOfNodesToScore",
        "plugins.score.enabled[0]",
    ], lines
    assert lines[-1].startswith(f'error: {path}: plugin "Prised" does not exist')


def test_mistake_is_one_line_with_the_file_name(tmp_path: Path, run: Run) -> None:
    """Standard output stays empty, the exit code is 1."""
    path = tmp_path / "missing.yaml"
    assert run("config", "--config", path) == (1, "", f"error: {path}: no such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["bench", "--nodes", "-1"], "--nodes"),
        (["plugins", "--wrong"], "No such option"),
        (["lab", "sweep"], "Missing argument"),
        (["nothing"], "No such command"),
        (["--wrong"], "No such option"),
        (["simulate", "--seeds", "0"], "--seeds: 0 is not in the range"),
        (["lab", "sweep", "s.yaml", "--out", "o", "--workers", "-1"], "--workers: -1 is not in the range"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_mistake_in_arguments_is_one_line(run: Run, arguments: list[str], error: str) -> None:
    """The line names the option, what is wrong, and the command whose help describes it; the exit code is 2."""
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {error}")
    assert re.search(r'; run "pyscheduler( [a-z-]+)* --help" for help\n$', err)


def test_interrupted_command_has_the_exit_code_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program that SIGINT ends; there is one line, and no traceback."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(discovery, "discover", interrupted)
    monkeypatch.setattr("pyscheduler.cli.plugins.discover", interrupted, raising=False)
    code, out, err = run("plugins")
    assert (code, out, err.strip()) == (130, "", "interrupted")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(PermissionError(13, "Permission denied", "x.yaml"), "x.yaml: permission denied", id="file"),
        pytest.param(OSError(36, "File name too long", b"\xff"), "\\udcff: file name too long", id="bytes"),
        pytest.param(RecursionError("maximum recursion depth"), "the input is nested too deeply", id="nested"),
        pytest.param(UnicodeError("label too long"), "label too long", id="name"),
    ],
)
def test_unusable_input_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str) -> None:
    """Wherever a command meets it. An error that names no file is a mistake of the program, and keeps its traceback."""

    def unusable(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("pyscheduler.cli.plugins.discover", unusable, raising=False)
    monkeypatch.setattr(discovery, "discover", unusable)
    assert run("plugins") == (1, "", f"error: {message}\n")
