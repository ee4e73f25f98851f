"""The messages of wrong plugins, and the page about them.

`test_wrong_plugins.py` runs each row and looks for its message. `docs/how-to/when-a-plugin-misbehaves.md` is made from
these rows: `python -m tests.testing.wrong_plugin_rows` writes the page. To add a row, write the class in
`wrong_plugins.py` and append a `Row`; the order of `ROWS` is the order of the page. In `message`, `...` stands for any
text.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.testing import wrong_plugins as wrong
from tests.testing.contract_breaker_rows import CONTRACT_ROWS
from tests.testing.wrong_plugin_runs import (
    Row,
    add_node,
    bind,
    block,
    build,
    fixture,
    load,
    schedule,
    schedule_two,
    wait,
    warned,
)

__all__ = ["PAGE", "ROWS", "rendered"]

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/when-a-plugin-misbehaves.md"

ROWS: Final[Sequence[Row]] = (
    Row(
        symptom="An exception at an extension point",
        code=wrong.Raises,
        run=schedule,
        message="plugin \"Raises\" failed at Filter (pod=default/p): KeyError: 'zone', wrong_plugins.py:... in "
        "Raises.filter",
        remedy="Read the traceback in the log, or run `pyscheduler explain --traceback`. The scheduler retries the pod "
        "after its backoff; after an exception at PreEnqueue, only after an event. "
        "Handle the case (`labels.get`), or return a `Status`.",
    ),
    Row(
        symptom="An exception after the pod is bound",
        code=wrong.RaisesAfterBinding,
        run=schedule,
        message='plugin "RaisesAfterBinding" failed at PostBind (pod=default/p): RuntimeError: cannot tell the ledger '
        "about p, wrong_plugins.py:... in RaisesAfterBinding.post_bind",
        remedy="No pod fails because of it, so only the log and the metric "
        "`pyscheduler_plugin_failures_total` show it. In tests, the fixture fails at teardown.",
    ),
    Row(
        symptom="An exception in the constructor",
        code=wrong.RaisesWhenMade,
        run=build,
        message='initializing plugin "RaisesWhenMade": TypeError: ..., wrong_plugins.py:... in RaisesWhenMade.__init__',
        remedy="Declare an attrs class as `args_type`: then the scheduler checks the args, and the plugin gets an "
        "object with defaults.",
    ),
    Row(
        symptom="A constructor with other parameters",
        code=wrong.HandleOnly,
        run=build,
        message='initializing plugin "HandleOnly": the constructor cannot be called with args and handle: too many '
        "positional arguments; write `def __init__(self, args, handle)` and call super().__init__(args, handle), "
        "wrong_plugins.py:... in HandleOnly.__init__",
        remedy="Take both parameters, also if the plugin has no args.",
    ),
    Row(
        symptom="A constructor that does not call the one of the base class",
        code=wrong.NoSuper,
        run=schedule,
        message="plugin \"NoSuper\" failed at Filter (pod=default/p): AttributeError: 'NoSuper' object has no "
        "attribute 'handle'; call super().__init__(args, handle) in NoSuper.__init__, "
        "wrong_plugins.py:... in NoSuper.filter",
        remedy="Begin the constructor with `super().__init__(args, handle)`.",
    ),
    Row(
        symptom="`run()` ends with an exception",
        code=wrong.DyingRun,
        run=wait,
        message='plugin "DyingRun" failed at run: ConnectionError: the price list is not reachable, '
        "wrong_plugins.py:... in DyingRun.run",
        remedy="The scheduler starts `run()` again after 1 s, 2 s, 4 s and so on, at most 60 s; `/readyz?verbose` and "
        "the metric `pyscheduler_plugin_run_restarts_total` show it. Catch what you expect inside the loop of `run()`.",
    ),
    Row(
        symptom="An exception in a queueing hint",
        code=wrong.BadHint,
        run=add_node,
        message='plugin "BadHint" failed at QueueingHint (event=NodeAdd pod=default/p): AttributeError: ..., '
        "wrong_plugins.py:... in BadHint.events_to_register.<lambda>",
        remedy="`old` is None when an object was created, `new` when it was deleted. The pod is queued, as if the hint "
        "had returned QUEUE.",
    ),
    Row(
        symptom="A queueing hint that returns a bool",
        code=wrong.BoolHint,
        run=add_node,
        message='plugin "BoolHint" failed at QueueingHint (event=NodeAdd pod=default/p): TypeError: QueueingHint '
        "returned bool; expected QueueingHint.QUEUE or QueueingHint.SKIP, wrong_plugins.py:... in BoolHint.is_worth_it",
        remedy="Return `QueueingHint.QUEUE` or `QueueingHint.SKIP`. Until then the pod is queued at each such event.",
    ),
    Row(
        symptom="An exception in an event handler",
        code=wrong.BadHandler,
        run=schedule,
        message='plugin "BadHandler" failed at EventHandler (resource=pods object=default/p): LookupError: ..., '
        "wrong_plugins.py:... in BadHandler.on_pod",
        remedy="The watch and the other handlers continue. Handle the case, since nobody calls the handler again for "
        "this change.",
    ),
    Row(
        symptom="An array of the wrong length",
        code=wrong.WrongShape,
        run=schedule,
        message='plugin "WrongShape" failed at Filter (pod=default/p): TypeError: Filter returned NodeStatuses; '
        "expected one status for each of 2 nodes, not 1, wrong_plugins.py:... in WrongShape.filter_nodes",
        remedy="Each array has one value for each row of `nodes`. If you know the rows, set them in "
        "`np.zeros(len(nodes), dtype=np.bool_)`. A mask in which no node fails is not compared.",
    ),
    Row(
        symptom="Row numbers in place of a mask",
        code=wrong.RowNumbers,
        run=schedule,
        message='plugin "RowNumbers" failed at Filter (pod=default/p): TypeError: `failed` must be a numpy array with '
        "one bool per node, not int64; ... in RowNumbers.filter_nodes",
        remedy="`mask = np.zeros(len(nodes), dtype=np.bool_); mask[rows] = True`.",
    ),
    Row(
        symptom="An array of the wrong dtype",
        code=wrong.WrongDtype,
        run=schedule,
        message='plugin "WrongDtype" failed at Score (pod=default/p): TypeError: Score returned ndarray; '
        "expected int64[2], not float64[2]...wrong_plugins.py:... in WrongDtype.score_nodes",
        remedy="Divide with `//`, or end with `.astype(np.int64)`: scores are whole numbers.",
    ),
    Row(
        symptom="A score that is not within 0 and 100",
        code=wrong.OutOfRange,
        run=schedule,
        message='plugin "OutOfRange" returns an invalid score 4000, it should in the range of [0, 100] after '
        "normalizing",
        remedy="Define `normalize_scores`; `default_normalize` of `pyscheduler.framework.scoring` does it.",
    ),
    Row(
        symptom="`normalize_scores` returns an array",
        code=wrong.ReturnsScores,
        run=schedule,
        message='plugin "ReturnsScores" failed at ScoreExtensionNormalize (pod=default/p): TypeError: '
        "ScoreExtensionNormalize returned ndarray; expected Status or None...in ReturnsScores.normalize_scores",
        remedy="Change the array in place: `scores[:] = scores * 100 // scores.max()`.",
    ),
    Row(
        symptom="An answer of the wrong type",
        code=wrong.ReturnsBool,
        run=schedule,
        message='plugin "ReturnsBool" failed at Filter (pod=default/p): TypeError: Filter returned bool; '
        "expected Status or None, wrong_plugins.py:... in ReturnsBool.filter",
        remedy="Return None for a node that fits, and `Status.unschedulable(reason)` for one that does not.",
    ),
    Row(
        symptom="A code that the extension point does not have",
        code=wrong.WaitsAtPreFilter,
        run=schedule,
        message='plugin "WaitsAtPreFilter" failed at PreFilter (pod=default/p): TypeError: PreFilter returned the '
        'code Wait ("waits for a licence"); its codes are Success, Skip, Unschedulable, UnschedulableAndUnresolvable, '
        "Error; only permit may return Status.wait(...), wrong_plugins.py:... in WaitsAtPreFilter.pre_filter",
        remedy="[The table of codes](../reference/framework-api.md#codes-per-extension-point) has the codes of each "
        "extension point. As in kube-scheduler, another code is an error, and the pod is retried.",
    ),
    Row(
        symptom="A success with a reason",
        code=wrong.SuccessWithReason,
        run=schedule,
        message='plugin "SuccessWithReason" failed at Reserve (pod=default/p): TypeError: Reserve returned Success '
        'with a reason ("no licence is left"); return None for success, or reject with Status.unschedulable(reason)',
        remedy="The pod goes on, as in kube-scheduler, and nobody reads the reason.",
    ),
    Row(
        symptom="A signature that is no list of fragments",
        code=wrong.SignsWithText,
        run=schedule,
        message='plugin "SignsWithText" failed at Sign (pod=default/p): TypeError: Sign returned str; expected a list '
        "or tuple of SignFragment(key, value), or a rejection for a pod without a signature, wrong_plugins.py:... in "
        "SignsWithText.sign_pod",
        remedy='Return `[SignFragment("example.com/tier", pod.labels.get("tier"))]`.',
    ),
    Row(
        symptom="A signature that cannot be compared",
        code=wrong.SignsWithDict,
        run=schedule,
        message='plugin "SignsWithDict" failed at Sign (pod=default/p): TypeError: Sign returned a SignFragment whose '
        'value of "example.com/labels" is a dict; write a value that can be hashed, such as a tuple of texts',
        remedy="Write `tuple(sorted(pod.labels.items()))`.",
    ),
    Row(
        symptom="A change of the pod",
        code=wrong.ChangesLabels,
        run=schedule,
        message='plugin "ChangesLabels" failed at PreFilter (pod=default/p): TypeError: '
        "PreFilter changed the labels or annotations of the pod, which all plugins share; write "
        "dict(pod.labels) for a copy of your own, or handle.client.patch(...) to change the pod",
        remedy="The test kit finds this; a running scheduler does not look. The failure names the plugin.",
    ),
    Row(
        symptom="A `retry_after` that is no number",
        code=wrong.TextRetry,
        run=schedule,
        message='plugin "TextRetry" failed at Filter (pod=default/p): TypeError: retry_after takes seconds as a '
        "number, not '5m'; None means that time does not help, wrong_plugins.py:... in TextRetry.filter",
        remedy="Give seconds: `retry_after=300`. Of a `timedelta`, write `delta.total_seconds()`.",
    ),
    Row(
        symptom="An answer of PostFilter that is no pair",
        code=wrong.NominatesByName,
        run=schedule,
        message='plugin "NominatesByName" failed at PostFilter (pod=default/p): TypeError: PostFilter returned (str, '
        "Status); expected a pair (PostFilterResult or None, Status), wrong_plugins.py:... in "
        "NominatesByName.post_filter",
        remedy='Return `PostFilterResult.nominated("n1"), Status(Code.SUCCESS)`, '
        "or `None, Status.unschedulable(reason)`.",
    ),
    Row(
        symptom="A write into the snapshot",
        code=wrong.WritesSnapshot,
        run=schedule,
        message='plugin "WritesSnapshot" failed at Filter (pod=default/p): ValueError: output array is read-only, '
        "wrong_plugins.py:... in WritesSnapshot.filter_nodes",
        remedy="The arrays belong to the snapshot. Make a new one: `free = nodes.allocatable(name) - "
        "nodes.requested(name)`.",
    ),
    Row(
        symptom="`async def` where the scheduler does not await",
        code=wrong.AsyncFilter,
        run=schedule,
        message='plugin "AsyncFilter" failed at Filter (pod=default/p): TypeError: Filter returned a coroutine (only '
        "PostFilter, PreBind, Bind and PostBind may be async)...in AsyncFilter.filter",
        remedy="Write a plain `def`. Fetch what the filter needs in `run()`, and read it from the plugin object.",
    ),
    Row(
        symptom="`run()` without `async`",
        code=wrong.PlainRun,
        run=build,
        message='plugin "PlainRun" defines a run() that is not async',
        remedy="Write `async def run(self) -> None`.",
    ),
    Row(
        symptom="A `reuse` that is no `Reuse`",
        code=wrong.TextReuse,
        run=build,
        message="plugin \"TextReuse\" has reuse = 'while node stays'; set a member of pyscheduler.Reuse, such as "
        "Reuse.WHILE_NODE_STAYS",
        remedy="Write `reuse = Reuse.WHILE_NODE_STAYS`, or leave it out.",
    ),
    Row(
        symptom="A coroutine that nobody awaits",
        code=wrong.NeverAwaits,
        run=fixture,
        message="plugin \"NeverAwaits\": coroutine '...' was never awaited, made at wrong_plugins.py:... in post_bind",
        remedy="Write `await` before the call. In a method that cannot be `async def`, write "
        "`self.handle.spawn(self.handle.client.patch(...))`.",
    ),
    Row(
        symptom="A function in place of a coroutine",
        code=wrong.SpawnsFunction,
        run=schedule,
        message='plugin "SpawnsFunction" failed at PostBind (pod=default/p): TypeError: handle.spawn() takes a '
        "coroutine, not a function; write handle.spawn(report(...)), wrong_plugins.py:... in SpawnsFunction.post_bind",
        remedy="Call the function: `self.handle.spawn(self.report())`.",
    ),
    Row(
        symptom="A slow plugin",
        code=wrong.Blocks,
        run=block,
        message="Plugin is slow, and the scheduler does nothing else meanwhile; do the work in run() and read its "
        "result here plugin=Blocks extensionPoint=PreFilter pod=default/q seconds=0.300 times=1",
        remedy="Calls of over 100 ms are logged, one a minute for each plugin and extension point. At the extension "
        "points up to Permit, the log names the plugin from the second slow call on. Event handlers, queueing hints, "
        "PreBind, Bind, PostBind, `run()` and tasks of `handle.spawn` are all measured; of a coroutine, the time "
        "between two awaits counts. Constructors, `sort_key` and `close()` are not measured. "
        "In your tests, the fixture issues a `PluginWarning` with the time of the slowest call; it does not measure "
        "hints. Let `run()` fetch what the plugin needs; a `pre_bind` that is `async def` may await.",
    ),
    Row(
        symptom="A slow event handler",
        code=wrong.BlocksInHandler,
        run=block,
        message="Plugin is slow, and the scheduler does nothing else meanwhile; only keep the object here, and do the "
        "work in run() or a task of handle.spawn plugin=BlocksInHandler extensionPoint=EventHandler resource=pods "
        "object=default/p seconds=0.300 times=1",
        remedy="The same holds for a coroutine that calls `time.sleep` or another function that blocks: its message "
        "says `await what takes long`.",
    ),
    Row(
        symptom="An event handler that is `async def`",
        code=wrong.AsyncHandler,
        run=schedule,
        message='plugin "AsyncHandler" failed at EventHandler (resource=pods object=default/p): TypeError: an event '
        "handler is a plain function, and this one is `async def`; write `def`, and start what awaits with "
        "handle.spawn(self.work(pod)), wrong_plugins.py:... in AsyncHandler.pod_added",
        remedy="Write a plain `def` that calls `self.handle.spawn(self.work(pod))`.",
    ),
    Row(
        symptom="A method that is misspelled",
        code=wrong.Misspelled,
        run=build,
        message='plugin "Misspelled" takes part in filter but does not define filter or filter_nodes; '
        "it defines filter_node, which is never called",
        remedy="Define one of the methods. A class that inherits an interface takes part in its extension point.",
    ),
    Row(
        symptom="An optional method that is misspelled",
        code=wrong.OldName,
        run=warned,
        message='PluginWarning: plugin "OldName" defines normalize_score, which is never called; rename it to '
        '"normalize_scores", or begin the name of a helper with an underscore',
        remedy="The scheduler logs this when it loads the plugin; the fixture and `check_plugin` issue a "
        "`PluginWarning`.",
    ),
    Row(
        symptom="A method that lacks a parameter",
        code=wrong.TooFewParameters,
        run=build,
        message='plugin "TooFewParameters" defines filter(self, pod, node) (wrong_plugins.py:... in '
        "TooFewParameters.filter), but the scheduler calls filter(state, pod, node)",
        remedy="Give the method the parameters of the interface; their names do not matter.",
    ),
    Row(
        symptom="`reserve` without `unreserve`",
        code=wrong.NoUnreserve,
        run=build,
        message='plugin "NoUnreserve" takes part in reserve but does not define unreserve',
        remedy="Define `unreserve`, which gives back what `reserve` took, also when called twice.",
    ),
    Row(
        symptom="Events without `ClusterEventWithHint`",
        code=wrong.BareEvents,
        run=build,
        message='plugin "BareEvents" cannot register its events: TypeError: EventsToRegister returned a ClusterEvent; '
        "expected ClusterEventWithHint",
        remedy="Write `ClusterEventWithHint(event)`, or `ClusterEventWithHint(event, hint)`.",
    ),
    Row(
        symptom="Events of a resource that does not exist",
        code=wrong.UnknownResource,
        run=build,
        message='plugin "UnknownResource" cannot register its events: ValueError: no events have the resource '
        "'pods', did you mean \"Pod\"?; custom kinds are plural.version.group, as event_resource(KIND) returns, "
        "wrong_plugins.py:... in UnknownResource.events_to_register",
        remedy="Use a member of `EventResource`, or `event_resource(KIND)` for a custom resource.",
    ),
    Row(
        symptom="Events of an action that does not exist",
        code=wrong.UnknownAction,
        run=build,
        message='plugin "UnknownAction" cannot register its events: AttributeError: ActionType has no member '
        "UPDATE_NODE_LABELS, did you mean ActionType.UPDATE_NODE_LABEL?, wrong_plugins.py:... in "
        "UnknownAction.events_to_register",
        remedy="Use a member of `ActionType`; several are combined with `|`.",
    ),
    Row(
        symptom="A pod that waits at Permit and is never allowed",
        code=wrong.WaitsForever,
        run=wait,
        message="due to timeout after waiting 15m0s at plugin WaitsForever",
        remedy="A wait ends after `max_permit_wait_seconds` of the plugin, 900 by default, and the pod is retried. "
        "Call `handle.get_waiting_pod(uid).allow(self.name)` when the pod may go on.",
    ),
    Row(
        symptom="`allow` with a name that no plugin has",
        code=wrong.AllowsAnother,
        run=schedule_two,
        message='plugin "AllowsAnother" failed at Permit (pod=default/q): ValueError: no plugin is called '
        '"AllowAnother", did you mean "AllowsAnother"? (pods wait for AllowsAnother); pass self.name, '
        "wrong_plugins.py:... in AllowsAnother.permit",
        remedy="Write `waiting.allow(self.name)`. The same holds for `reject`.",
    ),
    Row(
        symptom="`bind` that does not bind",
        code=wrong.BindsNothing,
        run=bind,
        message='plugin "BindsNothing" failed at Bind (pod=default/p): returned success, but the pod is not bound to '
        "n1; await handle.client.bind(pod, node_name), or return Status.skip(), "
        "wrong_plugins.py:... in BindsNothing.bind",
        remedy="The scheduler reports it half a minute later; in a test, the fixture reports it at the end. The pod "
        "counts on its node until it is deleted or the scheduler restarts, because its binding may still come.",
    ),
    Row(
        symptom="A wait without a timeout",
        code=wrong.WaitsWithoutEnd,
        run=schedule,
        message='plugin "WaitsWithoutEnd" failed at Permit (pod=default/p): ValueError: returned WAIT without a '
        "timeout in seconds; use Status.wait(timeout=...), wrong_plugins.py:... in WaitsWithoutEnd.permit",
        remedy="Give the timeout in seconds.",
    ),
    Row(
        symptom="Unknown args",
        code=wrong.Priced,
        run=build,
        args={"Priced": {"percentage": 20}},
        message='unknown field "percentage", did you mean "percent"?',
        remedy="`pyscheduler plugins` lists the args of each plugin, and `pyscheduler config` shows them with their "
        "defaults.",
    ),
    Row(
        symptom="A value that is no member of an enum",
        code=wrong.Scheduled,
        run=build,
        args={"Scheduled": {"outside": "never"}},
        message='plugin "Scheduled": Unsupported value: "never": supported values: "allow", "reject"',
        remedy="Write one of the values. The plugin gets the member of the enum.",
    ),
    Row(
        symptom="A default of a wrong type",
        code=wrong.Patient,
        run=build,
        message="plugin \"Patient\": the default of PatientArgs.patience_seconds is '30s'; write the seconds as a "
        "number",
        remedy='Write `30.0` for a `Duration`, and `Quantity("1Gi")` for a `Quantity`.',
    ),
    Row(
        symptom="Args of a type that a file does not have",
        code=wrong.Graceful,
        run=build,
        message='plugin "Graceful": GracefulArgs.grace cannot be read from a file: timedelta is no type of args; '
        "write Duration",
        remedy="[The list of types](write-a-plugin.md#args) is in the guide.",
    ),
    Row(
        symptom="A kind that is not declared",
        code=wrong.Unread,
        run=build,
        message='initializing plugin "Unread": ConfigMap is read but not declared; add '
        'kind_of(ConfigMap, "configmaps") to the plugin\'s `watches`, wrong_plugins.py:... in Unread.__init__',
        remedy='`watches = (kind_of(ConfigMap, "configmaps"),)`, with `kind_of` of `pyscheduler.api`.',
    ),
    Row(
        symptom="A kind that is named by a text",
        code=wrong.UnreadByName,
        run=build,
        message='initializing plugin "UnreadByName": lister() takes the class of a kind, such as '
        "pyscheduler.api.ConfigMap, not 'configmaps', wrong_plugins.py:... in UnreadByName.__init__",
        remedy="Write `handle.lister(ConfigMap)`.",
    ),
    Row(
        symptom="A class among `watches`",
        code=wrong.WatchesClass,
        run=build,
        message='plugin "WatchesClass" watches ConfigMap, which is no ResourceKind; write '
        'kind_of(ConfigMap, "configmaps")',
        remedy='`watches = (kind_of(ConfigMap, "configmaps"),)`, with `kind_of` of `pyscheduler.api`.',
    ),
    Row(
        symptom="`watches` that is no tuple",
        code=wrong.WatchesWithoutTuple,
        run=build,
        message='`watches` of plugin "WatchesWithoutTuple" must be a tuple; write watches = (kind_of(ConfigMap, '
        '"configmaps"),)',
        remedy="The comma makes the tuple.",
    ),
    Row(
        symptom="A kind with a wrong plural",
        code=wrong.WatchesSingular,
        run=build,
        message='plugin "WatchesSingular" watches "configmap"; did you mean "configmaps"? Write kind_of(ConfigMap, '
        '"configmaps")',
        remedy="`kubectl api-resources` lists the plurals.",
    ),
    Row(
        symptom="Permissions that are no `PolicyRule`",
        code=wrong.RbacByName,
        run=build,
        message="`rbac` of plugin \"RbacByName\" has 'pods/patch', which is no PolicyRule; write PolicyRule("
        'api_groups=("",), resources=("pods",), verbs=("patch",))',
        remedy="`pyscheduler config --rbac` shows the roles that follow from the rules.",
    ),
    Row(
        symptom="Two plugins that sort the queue",
        code=wrong.ByName,
        run=build,
        message='only one queue sort plugin required for profile with scheduler name "pyscheduler", but got 2 '
        "(PrioritySort, ByName); write `multiPoint: {disabled: [{name: PrioritySort}]}` under `plugins`",
        remedy='Disable the default plugin. In a test, pass `disable=["PrioritySort"]` to `cluster.framework(...)`.',
    ),
    Row(
        symptom="A plugin with the name of another one",
        code=wrong.NodeAffinity,
        run=build,
        message='plugin "NodeAffinity" is offered by kube-pyscheduler ... and this program '
        "(tests.testing.wrong_plugins:NodeAffinity); give the class of this program another name",
        remedy="Rename the class, or set its `name`. `--block` excludes a distribution that you cannot rename.",
    ),
    Row(
        symptom="An entry point or a hook that names something which cannot be imported",
        code=wrong.pyscheduler_register,
        run=load,
        message='plugin "Rack" of ... (acme_plugins.rack:Rack) cannot be loaded: ModuleNotFoundError: No module named '
        "'acme_plugins'",
        remedy="Correct the name in the hook. `pyscheduler plugins` shows each installed distribution with its "
        "plugins, and why one is broken.",
    ),
    *CONTRACT_ROWS,
)

_HEAD: Final = """\
# When a plugin misbehaves

Each section shows a plugin with one mistake, the message, and the remedy. In the messages, `...` stands for any text.
This page is made from [the list of wrong plugins](../../tests/testing/wrong_plugins.py), which the test suite runs.
`python -m tests.testing.wrong_plugin_rows` writes the page.

## Where the messages appear

- In the log of the scheduler, as `Plugin failed plugin=Raises extensionPoint=Filter pod=default/p ...`.
  The first failure of a kind has its traceback in the field `exception`. The scheduler counts the failures after the
  first, and logs the 10th, the 100th and so on. Two failures are of one kind if plugin, extension point, type of the
  exception and line are the same.
- In the pod's event and condition, if the failure ended an attempt.
- In `pyscheduler explain --traceback`, which asks the plugins about one pod.
- In your tests: the fixture `pyscheduler_cluster` fails the test at teardown with the exception of the plugin, and
  `pytest --pdb` stops in the plugin. A test that is about a failure passes `allow_plugin_errors=True` to
  `cluster.framework(...)` and reads `framework.plugin_errors`.
- In your tests, as a `PluginWarning`: slow calls, methods that nobody calls, and plugins that `check_plugin` did not
  really try. `allow_plugin_errors=True` turns these warnings of the fixture off, too.
- In the metric `pyscheduler_plugin_failures_total`, with the labels `plugin` and `extension_point`.
"""


def rendered() -> str:
    """Return the page."""
    parts = [_HEAD]
    for row in ROWS:
        code = inspect.getsource(row.code).rstrip("\n")
        args = f"\nwith the args `{row.args[row.name]}`:\n" if row.args else ""
        parts.append(
            f"## {row.symptom}\n\n```python\n{code}\n```\n{args}\n```text\n{row.message}\n```\n\n{row.remedy}\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")
