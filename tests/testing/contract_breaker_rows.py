"""The rows of `wrong_plugin_rows.py` about mistakes that only `check_plugin` finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.testing import contract_breakers as breaking
from tests.testing.wrong_plugin_runs import Row, check

__all__ = ["CONTRACT_ROWS"]

CONTRACT_ROWS: Final[Sequence[Row]] = (
    Row(
        symptom="A `reuse` that promises too much",
        code=breaking.ReusesTooLong,
        run=check,
        check="cache",
        message='plugin "ReusesTooLong" fails the check "cache" in ReusesTooLong.filter_nodes '
        "(...contract_breakers.py:...answers feasible with the equivalence cache, but rejected without it; the plugin "
        "declares Reuse.WHILE_NODE_STAYS",
        remedy="Nothing else shows this: run [`check_plugin`](write-a-plugin.md#test-it) in your tests. Declare a "
        "`reuse` that covers everything on which the answer depends; here `Reuse.WHILE_PODS_STAY`.",
    ),
    Row(
        symptom="A signature that leaves something out",
        code=breaking.SignsNothing,
        run=check,
        check="signature",
        message='plugin "SignsNothing" fails the check "signature" in SignsNothing.sign_pod '
        "(...contract_breakers.py:...for a copy with other labels; both have the signature ()",
        remedy="Return each part of the pod on which the answers depend from `sign_pod`. `check_plugin` finds this.",
    ),
    Row(
        symptom="An event that is not registered",
        code=breaking.MissesDeletions,
        run=check,
        check="hints",
        message='plugin "MissesDeletions" fails the check "hints" in MissesDeletions.events_to_register '
        "(...contract_breakers.py:...sleeps among the unschedulable pods, but node n2 takes it now...but the plugin "
        "registers NodeAdd, NodeUpdateNodeTaint",
        remedy="Register the event that helps the pod. Without it, the pod waits up to five minutes, and a pod that "
        "PreEnqueue rejected waits for ever. `check_plugin` finds this.",
    ),
    Row(
        symptom="An `unreserve` that gives nothing back",
        code=breaking.ForgetsUnreserve,
        run=check,
        check="reserve",
        message='plugin "ForgetsUnreserve" fails the check "reserve" in ForgetsUnreserve.unreserve '
        "(...contract_breakers.py:...after 10 times of reserve and unreserve",
        remedy="Undo in `unreserve` everything that `reserve` did, also in a trial. `check_plugin` finds this.",
    ),
    Row(
        symptom="An answer that depends on the order of the nodes",
        code=breaking.PrefersRows,
        run=check,
        check="node-order",
        message='plugin "PrefersRows" fails the check "node-order" in PrefersRows.filter_nodes '
        "(...contract_breakers.py:...in one order of the nodes, but...in the opposite order",
        remedy="Let each answer depend on its own node, and not on its row. `check_plugin` finds this.",
    ),
    Row(
        symptom="An answer that depends on the other nodes",
        code=breaking.ComparesNodes,
        run=check,
        check="node-order",
        message='plugin "ComparesNodes" fails the check "node-order" in ComparesNodes.filter_nodes '
        "(...contract_breakers.py:...among all nodes, but...among some of them",
        remedy="`nodes` may be some of the nodes, and other plugins may have rejected any of them. Sum over "
        "`self.handle.snapshot.nodes`, and set `counts_across_nodes = True`. `check_plugin` finds this.",
    ),
    Row(
        symptom="An answer that depends on earlier pods",
        code=breaking.CountsAttempts,
        run=check,
        check="earlier-pods",
        message='plugin "CountsAttempts" fails the check "earlier-pods" in CountsAttempts.pre_filter '
        "(...contract_breakers.py:...of this scheduler, but nothing of a new scheduler on the same cluster",
        remedy="Keep the values of one attempt in the `CycleState`. `check_plugin` finds this.",
    ),
    Row(
        symptom="An answer that depends on the clock of the machine",
        code=breaking.ReadsWallClock,
        run=check,
        check="earlier-pods",
        message='plugin "ReadsWallClock" fails the check "earlier-pods" in ReadsWallClock.filter ('
        "...contract_breakers.py:...ReadsWallClock.filter (...contract_breakers.py:...) calls time.time_ns()",
        remedy="Read `self.handle.clock.now()`, or `wall()` for the time of day. `check_plugin` finds this.",
    ),
    Row(
        symptom="A change of a node of the snapshot",
        code=breaking.ChangesNodes,
        run=check,
        check="snapshot",
        message='plugin "ChangesNodes" fails the check "snapshot" in ChangesNodes.pre_filter '
        "(...contract_breakers.py:...the call for pod default/p0 changed nodes",
        remedy="Copy what you change. `check_plugin` finds this; a write into an array raises at once.",
    ),
)
