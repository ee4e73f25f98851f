"""The rules of list and watch: failures and news in, the next step out. No clock, no requests."""

from __future__ import annotations

import pytest

from pyscheduler.api import APIStatus
from pyscheduler.cluster.real.informer_rules import PAGE, InformerRules, Recovery, RelistError, SilenceError, Step
from pyscheduler.framework.errors import (
    APIError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    TransportError,
    UnauthorizedError,
)


@pytest.fixture
def rules() -> InformerRules:
    """Return the rules of an informer that watches from version 7."""
    made = InformerRules()
    made.listed("7")
    return made


def refusal(status: int, retry_after: float | None = None) -> APIError:
    """Return a refusal by the API server."""
    kinds = {401: UnauthorizedError, 403: ForbiddenError, 404: NotFoundError, 410: GoneError}
    return kinds.get(status, APIError)("no", status=status, reason="", retry_after_seconds=retry_after)


def test_a_new_informer_lists_then_watches() -> None:
    """An informer lists first and watches from the version of the list."""
    rules = InformerRules()
    assert rules.next_step() is Step.LIST
    assert not rules.synced
    rules.listed("7")
    assert (rules.next_step(), rules.version) == (Step.WATCH, "7")
    assert rules.synced


@pytest.mark.parametrize(
    ("error", "step", "warning"),
    [
        pytest.param(refusal(410), Step.LIST, "relisted", id="gone"),
        pytest.param(RelistError("gap"), Step.LIST, "relisted", id="gap"),
        pytest.param(SilenceError("silent"), Step.CHECK_VERSION, "", id="silence"),
        pytest.param(TransportError("cut"), Step.CHECK_VERSION, "watch_broken", id="broken"),
        pytest.param(refusal(403), Step.WATCH, "watch_refused", id="forbidden"),
        pytest.param(refusal(500), Step.WATCH, "watch_refused", id="server-error"),
        pytest.param(refusal(504), Step.LIST, "watch_refused", id="version-too-large"),
        pytest.param(KeyError("bug"), Step.LIST, "informer_failed", id="bug"),
    ],
)
def test_failure_of_a_watch(rules: InformerRules, error: Exception, step: Step, warning: str) -> None:
    """After a failure the informer keeps its version, checks it, or lists again, depending on the failure."""
    recovery = rules.failed(error)
    assert (rules.next_step(), recovery.warning) == (step, warning)
    assert not recovery.fatal


@pytest.mark.parametrize(
    ("optional", "needed", "status", "fatal"),
    [
        pytest.param(False, False, 403, True, id="required"),
        pytest.param(True, False, 403, False, id="optional"),
        pytest.param(True, True, 403, True, id="optional-but-built-in"),
        pytest.param(False, False, 404, True, id="required-and-absent"),
        pytest.param(False, False, 500, False, id="server-error"),
    ],
)
def test_refused_first_list(optional: bool, needed: bool, status: int, fatal: bool) -> None:
    """Only a first list that will never be permitted ends an informer, and only if the kind is indispensable."""
    rules = InformerRules(optional=optional, needed=needed)
    assert rules.failed(refusal(status)).fatal is fatal
    assert rules.settled is (status != 500)


def test_absent_optional_kind(rules: InformerRules) -> None:
    """An optional kind that is no longer served has no objects; its disappearance is logged once at info level."""
    rules.optional = True
    first = rules.failed(refusal(404))
    assert first.absent
    assert rules.synced, "the handlers do not know of it yet"
    rules.emptied()
    second = rules.failed(refusal(404))
    assert first.level > second.level
    assert (rules.next_step(), rules.synced) == (Step.LIST, False)


def test_retry_after_is_limited(rules: InformerRules) -> None:
    """An informer waits as long as Retry-After says, but not longer than a minute."""
    assert rules.failed(refusal(429, 5.0)).pause_seconds == 5.0
    assert rules.failed(refusal(429, 3600.0)).pause_seconds == 60.0


def test_many_refusals_lead_to_a_list(rules: InformerRules) -> None:
    """After five failures in a row the informer lists again, unless a watch was opened in between."""
    for _ in range(4):
        rules.failed(refusal(500))
    rules.opened()
    for _ in range(4):
        rules.failed(refusal(500))
    assert rules.next_step() is Step.WATCH
    rules.failed(refusal(500))
    assert rules.next_step() is Step.LIST


def test_two_silent_watches_lead_to_a_list(rules: InformerRules) -> None:
    """Silence makes a list due at the second watch in a row."""
    rules.fell_silent()
    rules.heard()
    rules.fell_silent()
    assert rules.next_step() is Step.WATCH
    rules.fell_silent()
    assert rules.next_step() is Step.LIST


def test_watches_that_end_at_once_lead_to_a_list(rules: InformerRules) -> None:
    """A list is due after five watches that ended at once without an event; an event resets the count."""
    due = []
    for _ in range(4):
        rules.opened()
        due.append(rules.ended(0.1))
    rules.advanced("8")
    for _ in range(5):
        rules.opened()
        due.append(rules.ended(0.1))
    assert due == [False] * 8 + [True]
    assert rules.next_step() is Step.LIST


def test_page_size_follows_failures(rules: InformerRules) -> None:
    """A list that outlived its version is repeated in larger pages, one that got no answer in smaller ones."""
    rules.list_failed(GoneError("gone", status=410, reason="Expired"))
    assert rules.page_size == 4 * PAGE
    rules.list_failed(TransportError("slow"))
    assert rules.page_size == 2 * PAGE
    rules.list_failed(TransportError("slow"))
    rules.list_failed(TransportError("slow"))
    assert rules.page_size == PAGE


def test_older_event_is_refused(rules: InformerRules) -> None:
    """An event with a version older than the last one makes a list due."""
    rules.check_order("8")
    with pytest.raises(RelistError, match="version 6 came after 7"):
        rules.check_order("6")


@pytest.mark.parametrize(
    ("code", "step"), [pytest.param(410, Step.LIST, id="gone"), pytest.param(429, Step.WATCH, id="busy")]
)
def test_status_in_a_watch(rules: InformerRules, code: int, step: Step) -> None:
    """A `Status` in a watch makes a list due, unless the server was only busy."""
    error = rules.refused_in_stream(APIStatus(code=code, message="no", reason="r"), "watch pods")
    assert (error.status, str(error), rules.next_step()) == (code, "watch pods: no", step)
    assert isinstance(error, GoneError) is (code == 410)


def test_recovery_defaults_to_going_on() -> None:
    """A recovery without further instructions only logs."""
    assert Recovery("x")[2:] == ("", False, False, False, 0.0, "err")
