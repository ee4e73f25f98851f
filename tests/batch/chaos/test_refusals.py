"""Refusals of random runs: which writes they hit, and what they answer."""

from __future__ import annotations

import re

import pytest

from pyscheduler.testing import FakeCluster
from tests.batch.chaos.refusals import REASONS, REFUSED, Refusal

PODS = "/api/v1/namespaces/default/pods"
PATHS = {"bind": "{}/binding", "evict": "{}", "pod status": "{}/status"}
TEXTS = {
    "policy": "pods \"job1-2-3\" is forbidden: ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied ",
    "webhook": 'admission webhook "frozen.example.com" denied the request: ',
    "rights": 'pods "job1-2-3" is forbidden: User "system:serviceaccount:kube-system:batch" cannot ',
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_is_about_the_pods_of_some_jobs(what: str) -> None:
    """Other pods and other writes are not hit."""
    refusal = Refusal(what=what, who="policy", until=0.0, queue="a")
    refusal.cover(["job1-2", "job3-4"])
    hit = {
        (name, other)
        for name in ("job1-2-3", "job3-4-9", "job1-2", "job11-2-3", "job5-6-7")
        for other, path in PATHS.items()
        if re.search(refusal.path, f"{PODS}/{path.format(name)}")
    }
    assert hit == {("job1-2-3", what), ("job3-4-9", what)}
    refusal.cover([])
    assert not re.search(refusal.path, f"{PODS}/{PATHS[what].format('job1-2-3')}")
    refusal.cover(None)
    assert re.search(refusal.path, f"{PODS}/{PATHS[what].format('job5-6-7')}")


@pytest.mark.parametrize("who", REASONS)
async def test_a_refusal_answers_as_kube_apiserver(cluster: FakeCluster, who: str) -> None:
    """Code and reason are 403 Forbidden, the message is that of an admission policy, a webhook or an authorizer."""
    refusal = Refusal(what="evict", who=who, until=0.0)
    refusal.cover(None)
    cluster.server.faults.add(refusal)
    chosen = cluster.server.faults.choose("DELETE", f"{PODS}/job1-2-3")
    assert chosen is refusal
    error = refusal.response_error(f"{PODS}/job1-2-3")
    status = error.as_status()
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith(TEXTS[who])
    assert refusal.title == "evict: 403 for all"
    assert refusal.hits == 1
