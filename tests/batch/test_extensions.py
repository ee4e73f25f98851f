"""What distributions add to batch profiles: policies, actions and dialects of queues."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import attrs
import pytest

from pyscheduler.api import KubeObject
from pyscheduler.framework import ConfigError, PluginError
from pyscheduler.runtime.assembly.registry import Registry
from pyscheduler.testing import make_node
from pyscheduler_batch.added_dialects import added_queue_dialects
from pyscheduler_batch.batch_args import BatchArgs, PolicyEntry
from pyscheduler_batch.configured import make_actions, make_tiers
from pyscheduler_batch.contract import Action, Job, JobOrder, Key, Policy, QueueDialect, QueueSpec, Session, Task
from pyscheduler_batch.dialects import QUEUE_DIALECTS
from pyscheduler_batch.model.answers import ContractError
from pyscheduler_batch.settings.configuration import batch_args
from pyscheduler_batch.system import System
from pyscheduler_batch.systems import presets, queue_dialects, system_of, systems_by_dialect
from pyscheduler_kai.system import Kai
from pyscheduler_volcano.system import Volcano

HERE = "pyscheduler_batch"


def test_offers_are_loaded_when_they_are_named() -> None:
    """Each kind of offer is imported as what it is offered as."""
    registry = Registry()
    registry.add_batch("mine", f"{HERE}.contract:Policy")
    registry.add_action("act", f"{HERE}.contract:Action")
    offers = registry.extensions()
    assert offers.policies["mine"].load("policy", Policy) is Policy
    assert offers.actions["act"].load("action", Action) is Action
    assert added_queue_dialects(offers) == []


class Deadline(Policy):
    """A policy that names its arguments."""

    name = "deadline"
    argument_names = ("annotation", "spareSeconds")


class Any(Policy):
    """A policy that accepts any argument."""

    name = "any"


class Tidy(Action):
    """An action without arguments."""

    name = "tidy"
    argument_names = ()

    async def run(self, session: Session) -> None:
        """Do nothing."""


def test_unknown_arguments_of_others_are_refused() -> None:
    """A policy or action of a distribution that names its arguments gets no other; the message has the names."""
    registry = Registry()
    registry.add_batch("deadline", f"{__name__}:Deadline")
    registry.add_batch("any", f"{__name__}:Any")
    registry.add_action("tidy", f"{__name__}:Tidy")
    offers = registry.extensions()
    entries = (
        PolicyEntry(name="deadline", arguments={"annotation": "a", "spareSecond": "1"}),
        PolicyEntry(name="any", arguments={"whatever": "1"}),
    )
    args = BatchArgs(preset="kai", actions=("tidy",), tiers=(entries,), action_arguments={"tidy": {"often": "true"}})
    with pytest.raises(ConfigError) as caught:
        make_tiers(args, Kai, offers)
    assert caught.value.problems == (
        'policy "deadline" has no argument "spareSecond"; its arguments are annotation, spareSeconds',
    )
    with pytest.raises(ConfigError) as caught:
        make_actions(args, Kai, offers)
    assert caught.value.problems == ('action "tidy" has no argument "often"; it has no arguments',)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:Name", "cannot be imported"),
        (f"{HERE}.contract:NoSuchName", "cannot be imported"),
        (f"{HERE}.contract:Action", "is not a pyscheduler_batch.contract.Policy"),
        (f"{HERE}.dialects:QUEUE_DIALECTS", "is not a pyscheduler_batch.contract.Policy"),
    ],
)
def test_an_offer_that_is_none_is_refused_in_one_line(target: str, message: str) -> None:
    """The message names the offer, its distribution and its place."""
    registry = Registry()
    registry.add_batch("mine", target)
    with pytest.raises(ConfigError, match=message) as caught:
        registry.extensions().policies["mine"].load('policy "mine"', Policy)
    assert target in str(caught.value)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("class Mine(", "SyntaxError: '(' was never closed (mine_policy.py, line 1)", id="syntax"),
        pytest.param("raise SystemExit(3)", "SystemExit: 3", id="exits"),
    ],
)
def test_a_policy_whose_module_is_broken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    """The error names the policy, its distribution, its place and what is wrong with the module."""
    (tmp_path / "mine_policy.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()
    registry.add_batch("mine", "mine_policy:Mine")
    with pytest.raises(ConfigError) as caught:
        registry.extensions().policies["mine"].load('policy "mine"', Policy)
    assert str(caught.value) == f'policy "mine" of this program (mine_policy:Mine) cannot be imported: {message}'


class NeedsMore(Policy):
    """A policy whose constructor has no parameter for arguments."""

    def __init__(self) -> None:
        super().__init__()


def test_a_policy_that_cannot_be_made_is_named() -> None:
    """The error names the policy, its distribution and the constructor."""
    registry = Registry()
    registry.add_batch("mine", f"{__name__}:NeedsMore")
    with pytest.raises(ConfigError) as caught:
        registry.extensions().policies["mine"].make('policy "mine"', Policy, {})
    told = str(caught.value)
    assert told.startswith(f'policy "mine" of this program ({__name__}:NeedsMore) cannot be made: TypeError: ')
    assert re.search(r", test_extensions.py:\d+ in NeedsMore.__init__$", told)


@pytest.mark.parametrize(("name", "target"), [("", "a:B"), (1, "a:B"), ("x", "a"), ("x", ":B"), ("x", None)])
def test_a_malformed_offer_is_refused_at_once(name: object, target: object) -> None:
    """A name or a place of the wrong form raises an error in the hook."""
    with pytest.raises(PluginError, match="batch action"):
        Registry().add_action(name, target)


def test_one_name_belongs_to_one_offer() -> None:
    """The same offer twice is no conflict, another one of that name is."""
    registry = Registry()
    registry.add_queue_dialect("acme", "acme.rows:ROW")
    registry.add_queue_dialect("acme", "acme.rows:ROW")
    with pytest.raises(PluginError, match="is offered by"):
        registry.add_queue_dialect("acme", "other.rows:ROW")


class Misspelt(Policy, JobOrder):
    """Inherits a method that it means to define."""

    name = "mine"

    def jobkey(self, job: Job) -> Key:
        return (job.priority,)


class Uncalled(Policy):
    """Takes part in nothing, by a misspelling."""

    name = "mine"

    def taskkey(self, task: Task) -> Key:
        return (task.created,)


class Asynchronous(Policy):
    """A policy with a coroutine that nobody would await."""

    name = "mine"

    async def open_session(self, session: Session) -> None:  # type: ignore[override]  # that is the mistake
        """Do nothing."""


class WrongParameters(Policy):
    """Has a method without its parameter."""

    name = "mine"

    def job_key(self) -> Key:
        return ()


class OtherName(Policy):
    """Has another name than the one under which it is offered."""

    name = "other"


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (Misspelt, 'policy "mine" inherits JobOrder, but does not define job_key; rename jobkey'),
        (Uncalled, 'policy "mine" defines taskkey, which is never called; did you mean task_key'),
        (Asynchronous, 'policy "mine": open_session is async; write "def open_session"'),
        (WrongParameters, 'policy "mine": job_key must take (self, job), as JobOrder says'),
        (OtherName, "policy \"mine\": OtherName.name is 'other'; write name = 'mine'"),
    ],
)
def test_a_policy_whose_class_is_wrong_is_refused(policy: type[Policy], problem: str) -> None:
    """The message says what to write."""
    registry = Registry()
    registry.add_batch("mine", f"{__name__}:{policy.__name__}")
    args = BatchArgs(preset="kai", actions=(), tiers=((PolicyEntry(name="mine"),),))
    with pytest.raises(ConfigError) as caught:
        make_tiers(args, Kai, registry.extensions())
    assert caught.value.problems == (problem,)


class Synchronous(Action):
    """An action whose method cannot be awaited."""

    name = "mine"

    def run(self, session: Session) -> None:  # type: ignore[override]  # that is the mistake
        """Do nothing."""


class Idle(Action):
    """An action without its method."""

    name = "mine"


class WithoutSession(Action):
    """An action whose method lacks its parameter."""

    name = "mine"

    async def run(self) -> None:  # type: ignore[override]  # that is the mistake
        """Do nothing."""


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (Synchronous, 'action "mine": run is not async; write "async def run(self, session)"'),
        (Idle, 'action "mine" does not define run'),
        (WithoutSession, 'action "mine": run must take (self, session)'),
    ],
)
def test_an_action_whose_class_is_wrong_is_refused(action: type[Action], problem: str) -> None:
    """The mistake is found when the configuration is loaded, not in a pass."""
    registry = Registry()
    registry.add_action("mine", f"{__name__}:{action.__name__}")
    with pytest.raises(ConfigError) as caught:
        make_actions(BatchArgs(preset="kai", actions=("mine",), tiers=()), Kai, registry.extensions())
    assert caught.value.problems == (problem,)


def test_an_action_with_another_name_is_refused() -> None:
    """The name of the class and the name of the offer are one."""
    registry = Registry()
    registry.add_action("clean", f"{__name__}:Tidy")
    with pytest.raises(ConfigError) as caught:
        make_actions(BatchArgs(preset="kai", actions=("clean",), tiers=()), Kai, registry.extensions())
    assert caught.value.problems == ("action \"clean\": Tidy.name is 'tidy'; write name = 'clean'",)


def _read(queue: KubeObject) -> QueueSpec:
    return QueueSpec(
        name=queue.name,
        uid=queue.uid,
        dialect="acme",
        quota={"gpus": 1.0, "cpu": 1000.0, "hugepages-2Mi": 1.0},
        limit={"gpu": 1.0, "nvidia.com/gpu": 1.0, "pods": 3.0, "tpu": 1.0},
    )


ROW = attrs.evolve(QUEUE_DIALECTS[0], name="acme", read=_read)


def test_a_dialect_of_queues_is_a_row() -> None:
    """A row that imports is read by batch profiles; each time it is loaded it is the same."""
    registry = Registry()
    registry.add_queue_dialect("acme", f"{__name__}:ROW")
    rows = added_queue_dialects(registry.extensions())
    assert [(row.name, row.kinds) for row in rows] == [("acme", ROW.kinds)]
    assert rows == added_queue_dialects(registry.extensions())
    assert isinstance(rows[0], QueueDialect)


def test_resources_that_no_pod_requests_are_warnings() -> None:
    """A queue with a quota of `gpus` would limit nothing."""
    registry = Registry()
    registry.add_queue_dialect("acme", f"{__name__}:ROW")
    (row,) = added_queue_dialects(registry.extensions())
    assert row.read(make_node("a")).warnings == (
        'quota names "gpus", which no pod requests; GPUs are "nvidia.com/gpu"',
        'limit names "gpu", which no pod requests; GPUs are "nvidia.com/gpu"',
        'limit names "tpu", which no pod requests',
    )


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        pytest.param("name", "", "name='', expected a str that is not empty", id="empty name"),
        pytest.param("name", None, "name=None, expected a str that is not empty", id="no name"),
        pytest.param("parent", 3, "parent=3, expected a str", id="parent"),
        pytest.param("error", 3, "error=3, expected a str", id="error"),
        pytest.param("priority", "high", "priority='high', expected a number", id="priority"),
        pytest.param("priority", math.nan, "priority=nan, expected a number", id="NaN"),
        pytest.param("quota", None, "quota=None, expected numbers by resource", id="no quota"),
        pytest.param("quota", [1], "quota=[1], expected numbers by resource", id="list of amounts"),
        pytest.param("quota", {3: 4.0}, "quota={3: 4.0}, expected numbers by resource", id="resource"),
        pytest.param(
            "preempt_min_runtime",
            "5s",
            "preempt_min_runtime='5s', expected None or a number of 0 or more",
            id="seconds",
        ),
        pytest.param("reclaimable", "no", "reclaimable='no', expected True or False", id="boolean"),
        pytest.param("state", "odd", "state='odd', expected one of Open, Closed, Closing, Unknown", id="state"),
        pytest.param("warnings", "abc", "warnings='abc', expected a tuple of str", id="warnings"),
        pytest.param("affinity", 3, "affinity=3, expected a map", id="affinity"),
    ],
)
def test_a_queue_with_a_wrong_field_is_refused(
    monkeypatch: pytest.MonkeyPatch, field: str, value: object, expected: str
) -> None:
    """The error names the dialect, the field and the queue: the value would raise where nobody knows whose it is."""
    monkeypatch.setattr(sys.modules[__name__], "ROW", attrs.evolve(ROW, read=lambda queue: _with(queue, field, value)))
    registry = Registry()
    registry.add_queue_dialect("acme", f"{__name__}:ROW")
    (row,) = added_queue_dialects(registry.extensions())
    with pytest.raises(ContractError) as caught:
        row.read(make_node("a"))
    assert str(caught.value) == f'queue dialect "acme": read returned {expected}, for queue a'


def test_amounts_below_0_count_as_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does NaN; a warning names field, resource and value, and other queues are served."""
    wrong = {"cpu": -5.0, "memory": math.nan, "pods": 3.0}
    monkeypatch.setattr(
        sys.modules[__name__], "ROW", attrs.evolve(ROW, read=lambda queue: _with(queue, "quota", wrong))
    )
    registry = Registry()
    registry.add_queue_dialect("acme", f"{__name__}:ROW")
    (row,) = added_queue_dialects(registry.extensions())
    spec = row.read(make_node("a"))
    assert spec.quota == {"cpu": 0.0, "memory": 0.0, "pods": 3.0}
    assert spec.warnings[:2] == (
        "quota of cpu: -5.0 is not a number of 0 or more; 0 counts",
        "quota of memory: nan is not a number of 0 or more; 0 counts",
    )


def _with(queue: KubeObject, field: str, value: object) -> QueueSpec:
    return attrs.evolve(_read(queue), **{field: value})


async def _read_later(queue: KubeObject) -> QueueSpec:
    return _read(queue)


def test_a_dialect_that_reads_with_a_coroutine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to write."""
    monkeypatch.setattr(sys.modules[__name__], "ROW", attrs.evolve(ROW, read=_read_later))
    registry = Registry()
    registry.add_queue_dialect("acme", f"{__name__}:ROW")
    with pytest.raises(ConfigError, match='queue dialect "acme": read is async; write "def read\\(queue\\)"'):
        added_queue_dialects(registry.extensions())


def test_a_dialect_with_another_name_is_refused() -> None:
    """The name of the row and the name of the offer are one."""
    registry = Registry()
    registry.add_queue_dialect("fair", f"{__name__}:ROW")
    with pytest.raises(ConfigError, match="queue dialect \"fair\": the row has the name 'acme'; write name='fair'"):
        added_queue_dialects(registry.extensions())


def test_a_broken_system_concerns_only_who_chooses_it() -> None:
    """A profile of another preset does not even import it; one of its own is refused in one line."""
    registry = Registry()
    registry.add_system("acme", "nowhere:System")
    offers = registry.extensions()
    assert ("acme" in presets(offers), [*presets(offers)]) == (True, [])
    with pytest.raises(ConfigError, match=r'batch system "acme" of this program \(nowhere:System\) cannot be imported'):
        presets(offers)["acme"]


def test_a_system_that_nobody_offers_is_named() -> None:
    """The message says which system is missing."""
    with pytest.raises(ConfigError, match='no distribution that is installed offers the batch system "kai"'):
        system_of("kai", Registry().extensions())


class NoSystem(System):
    """Says nothing of itself."""


def test_a_class_that_is_no_whole_system_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Files of other systems are read; a file that names it gets an error that says what is missing."""
    registry = Registry()
    registry.add_system("acme", f"{__name__}:NoSystem")
    registry.add_system("kai", "pyscheduler_kai.system:Kai")
    offers = registry.extensions()
    assert [*presets(offers)] == ["kai"]
    text = f'batch system "acme" of this program ({__name__}:NoSystem) has no preset and no jobs and no queues'
    assert text in caplog.text
    with pytest.raises(ConfigError, match="has no preset and no jobs and no queues and no reports"):
        presets(offers)["acme"]


class KaiAgain(Kai):
    """A system on KAI's groups and queues."""

    preset = attrs.evolve(Kai.preset, name="again")


def test_the_system_of_a_dialect_is_the_one_of_its_name() -> None:
    """Another one that reads the same groups changes neither the reader nor the order."""
    registry = Registry()
    registry.add_system("again", f"{__name__}:KaiAgain")
    for name, target in (("volcano", "pyscheduler_volcano.system:Volcano"), ("kai", "pyscheduler_kai.system:Kai")):
        registry.add_system(name, target)
    offers = registry.extensions()
    assert systems_by_dialect(offers) == {"kai": Kai, "volcano": Volcano}
    assert [row.name for row in queue_dialects(offers)] == ["kai", "volcano"]


def test_a_system_on_kai_keeps_the_labels_of_queues_and_pools() -> None:
    """A configuration may say others, and none."""
    args = batch_args({"preset": "again", "nodePool": "blue"}, presets={"again": KaiAgain.preset})
    assert KaiAgain.queue_label_of(args) == "kai.scheduler/queue"
    assert KaiAgain.node_pool_label_of(args) == "kai.scheduler/node-pool"
    said = batch_args({"preset": "again", "nodePoolLabel": "", "queueLabel": "q"}, presets={"again": KaiAgain.preset})
    assert (KaiAgain.queue_label_of(said), KaiAgain.node_pool_label_of(said)) == ("q", "")
