"""`explain` for users who may read one namespace, beside a leader that is made up: no scheduler runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import yaml

from kube_testserver.test_server import TestServer
from pyscheduler.cli.leader import Answer
from pyscheduler.config.load import load
from pyscheduler.stories.view import PodStories, RunView, StoryView
from pyscheduler.testing import node_manifest, pod_manifest
from tests.cli.conftest import Run, explain_as

Object = dict[str, Any]

QUOTA = 'pods "shop-5d4-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2'
AT = "2026-01-01T00:00:00Z"
URL = "https://scheduler.example.com:10259"
NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."


def in_web(api_version: str, kind: str, name: str, **fields: Any) -> Object:
    """Return an object of the namespace `web`."""
    metadata = {"name": name, "namespace": "web", **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def account(name: str, role: str) -> list[Object]:
    """Return a service account with a ClusterRole in the namespace `web`."""
    return [
        in_web("v1", "ServiceAccount", name),
        in_web(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            name,
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": "web"}],
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        ),
    ]


def refused(kind: str, name: str) -> Object:
    """Return the event about a workload whose pod was refused."""
    about = {"kind": kind, "name": name, "namespace": "web"}
    times = {"firstTimestamp": AT, "lastTimestamp": AT, "count": 7}
    return in_web("v1", "Event", f"{name}.1", involvedObject=about, reason="FailedCreate", message=QUOTA, **times)


def waiting(name: str, message: str = NO_CPU, **spec: Any) -> Object:
    """Return a pod whose scheduler has found no node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod_manifest(name, namespace="web", status={"conditions": [condition]}, **spec)


def members() -> list[Object]:
    """Return two members of a gang that avoid each other, one with a node; one in another namespace has both marks."""
    marks = {"scheduling.x-k8s.io/pod-group": "train"}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": marks}}
    found = [
        waiting("apart", requests={"cpu": "500m", "memory": "2Gi"}, labels=marks),
        pod_manifest("peer", namespace="web", node_name="n1", labels=marks),
        pod_manifest("stranger", namespace="default", node_name="n1", labels=marks),
    ]
    found[0]["spec"] |= {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "nodeSelector": {"disktype": "sdd"},
        "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("dta", "logs")],
        "resourceClaims": [
            {"name": "gpu", "resourceClaimName": "gpu"},
            {"name": "made", "resourceClaimTemplateName": "no"},
        ],
    }
    found[0]["status"]["conditions"][0]["message"] = "0/1 nodes are available: 1 optimistic rejection in PostFilter."
    return [*found, waiting("wide", "0/1 nodes are available: 1 Insufficient memory.", labels=marks)]


def claims() -> list[Object]:
    """Return a volume claim, and a claim for devices."""
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]}
    size = {
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "10Gi"}},
        "accessModes": ["ReadWriteOnce"],
    }
    return [
        in_web("v1", "PersistentVolumeClaim", "logs", spec=size, status={"phase": "Pending"}),
        in_web("resource.k8s.io/v1", "ResourceClaim", "gpu", spec={"devices": devices}),
    ]


def victim() -> list[Object]:
    """Return a pod that is evicted, with a finalizer, and its disruption budget."""
    marks = {"app": "db"}
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "preempting",
    }
    status = {"conditions": [condition]}
    found = pod_manifest("database", namespace="web", node_name="n1", labels=marks, status=status)
    found["metadata"]["finalizers"] = ["example.com/keep"]
    spec = {"minAvailable": 1, "selector": {"matchLabels": marks}}
    return [found, in_web("policy/v1", "PodDisruptionBudget", "db", spec=spec, status={"disruptionsAllowed": 0})]


def objects() -> list[Object]:
    """Return a cluster with a tenant that has the role `view`, and one that may only get pods."""
    template = {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    workload = {"spec": {"selector": {"matchLabels": {"app": "shop"}}, "template": template}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": "uid-of-shop"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    return [
        node_manifest("n1", allocatable={"cpu": "1"}),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}},
        *account("tenant", "view"),
        *account("poor", "pod-getter"),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "pod-getter"},
            "rules": rules,
        },
        pod_manifest("foreign", namespace="web", scheduler_name="nobody"),
        pod_manifest("gated", namespace="web", scheduling_gates=["example.com/wait"]),
        pod_manifest("plain", namespace="web"),
        pod_manifest("placed", namespace="web", node_name="n1"),
        waiting("told", requests={"cpu": "4"}),
        pod_manifest("fresh", namespace="web", scheduler_name="pyscheduler"),
        *members(),
        *claims(),
        *victim(),
        pod_manifest("port", namespace="web", host_ports=[8080]),
        in_web("apps/v1", "Deployment", "shop", **workload),
        in_web("apps/v1", "ReplicaSet", "shop-5d4", metadata={"ownerReferences": [owner]}, **workload),
        refused("ReplicaSet", "shop-5d4"),
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    """Serve the cluster over HTTP."""
    file = tmp_path_factory.mktemp("tenant") / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects()))
    with TestServer(authorization="rbac", controllers=False, lifecycle=False, load=[file]) as running:
        yield running


@pytest.fixture
def explain(server: TestServer, run: Run, tmp_path: Path) -> Run:
    """Return a function that runs `explain` as an account of the namespace; "" is the administrator."""
    return explain_as(server, run, tmp_path, "web")


@attrs.define
class FakeLeader:
    """Answers as the HTTPS port of a scheduler does, or as a Service of several replicas."""

    stories: Mapping[str, Sequence[StoryView]] = attrs.field(factory=dict)
    config: str = ""
    #: So many answers come from a standby.
    standbys: int = 0
    requests: list[str] = attrs.field(factory=list)
    url: str = URL
    why: str = ""

    async def get(self, path: str) -> Answer:
        """Return the configuration, or the stories of a pod."""
        self.requests.append(path)
        if path == "/configz":
            return Answer(self.config.encode()) if self.config else Answer(why="configz is forbidden")
        self.standbys -= 1
        key = path.removeprefix("/debug/story/")
        is_leader = self.standbys < 0
        stories = [*self.stories.get(key, ())] if is_leader else []
        return Answer(
            msgspec.json.encode(
                PodStories(pod=key, is_leader=is_leader, stories=stories, profiles=("pyscheduler", "batch"))
            )
        )


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    """Let `explain` find a leader."""
    found = FakeLeader()

    async def find_leader(*_: object, **__: object) -> FakeLeader:
        return found

    monkeypatch.setattr("pyscheduler.cli.leader_story.find_leader", find_leader)
    return found


def story_of(pod: str, *reasons: str, uid: str = "1", pending: bool = True) -> StoryView:
    """Return a story with a run for each reason."""
    runs = [
        RunView(
            reason=reason,
            message=f"message of {reason}",
            first=f"2026-01-01T00:0{minute}:00.000000Z",
            last=f"2026-01-01T00:0{minute}:30.000000Z",
            count=3,
            plugins=(),
            node="",
            woken_by={},
            others=(),
        )
        for minute, reason in enumerate(reasons)
    ]
    return StoryView(
        pod=pod,
        uid=uid,
        profile="pyscheduler",
        pending=pending,
        reason=reasons[-1],
        queue="unschedulable",
        created=AT,
        first_seen=AT,
        runs=runs,
        omitted=0,
    )


def uid_of(server: TestServer, name: str) -> str:
    """Return the uid of a pod."""
    return str(server.run(lambda cluster: cluster.get("v1", "Pod", name, namespace="web"))["metadata"]["uid"])


# --- a tenant with the role `view` --------------------------------------------------------------


def test_tenant_learns_that_nobody_serves_the_scheduler_name(explain: Run, leader: FakeLeader) -> None:
    """The leader has no story of such a pod, but says which names it serves; the context's namespace is the default."""
    code, out, err = explain("tenant", "foreign")
    assert code == 0, err
    assert "Verdict: waits: NoProfile" in out
    assert f'no profile of the scheduler at {URL} has the schedulerName "nobody"; it serves pyscheduler, batch' in out
    assert "no scheduler has written the condition PodScheduled" in out
    assert "Next: correct schedulerName" in out
    assert (
        'note: nothing is evaluated: GET /api/v1/nodes: nodes is forbidden: User "system:serviceaccount:web:tenant"'
        in err
    )
    assert "profile is used" not in err
    assert leader.requests[-1] == "/debug/story/web/foreign"


@pytest.mark.usefixtures("no_leader")
@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        pytest.param("foreign", "waits", 'the pod has the schedulerName "nobody"; the leader was not found', id="name"),
        pytest.param("gated", "waits: SchedulingGated", "scheduling gates: example.com/wait", id="gates"),
        pytest.param("told", "waits: Unschedulable", f"PodScheduled is False: {NO_CPU}", id="condition"),
        pytest.param("placed", "placed", "the pod is on n1", id="placed"),
    ],
)
def test_tenant_without_a_leader_sees_what_the_pod_says(explain: Run, name: str, verdict: str, words: str) -> None:
    """Gates, node and condition of the pod, without any other permission."""
    for user in ("tenant", "poor"):
        code, out, err = explain(user, name)
        assert code == 0, err
        assert f"Verdict: {verdict} " in out
        assert words in out


@pytest.mark.parametrize(
    ("name", "message", "then"),
    [
        pytest.param("gated", "waiting for scheduling gates", "the pod is scheduled when its gates are", id="gates"),
        pytest.param("plain", 'could not find ResourceClaim "web/no"', "create the ResourceClaim web/no", id="missing"),
        pytest.param("plain", "held back", "is tried when Holder no longer keeps it out of the queue", id="plugin"),
    ],
)
def test_tenant_learns_what_ends_the_gate_of_a_pod(
    explain: Run, leader: FakeLeader, server: TestServer, name: str, message: str, then: str
) -> None:
    """A plugin may keep a pod without gates out of the queue, for example because a claim does not exist."""
    story = story_of(f"web/{name}", "SchedulingGated", uid=uid_of(server, name))
    story.queue, story.runs[0].message, story.runs[0].plugins = "gated", message, ("Holder",)
    leader.stories = {f"web/{name}": [story]}
    code, out, err = explain("tenant", name)
    assert code == 0, err
    assert "Verdict: waits: SchedulingGated" in out
    assert then in out.partition("Next: ")[2]


def test_tenant_sees_what_the_pod_asks_for_and_the_pods_beside_it(
    explain: Run, leader: FakeLeader, server: TestServer
) -> None:
    """Labels, amounts, claims and the tenant's own pods; with the story, and no pod of another namespace."""
    story = story_of("web/apart", "Unschedulable", uid=uid_of(server, "apart"))
    story.runs[0].plugins = ("NodeAffinity", "InterPodAffinity")
    leader.stories = {"web/apart": [story]}
    code, out, err = explain("tenant", "apart")
    assert code == 0, err
    assert "Verdict: waits: Unschedulable" in out
    assert "500m" not in out
    assert "asks info - 0.5 cpu, 2Gi memory; nodes with disktype=sdd; PersistentVolumeClaims dta" in out
    assert (
        "dta (does not exist), logs (10Gi, class fast, Pending); ResourceClaims gpu (2 of gpu.example.com, not" in out
    )
    assert "allocated), of template no (does not exist)" in out
    assert "other pods of group train in this namespace: web/peer on n1; web/wide without a node" in out
    assert "the scheduler says of web/wide: 0/1 nodes are available: 1 Insufficient memory." in out
    term = "per kubernetes.io/hostname (scheduling.x-k8s.io/pod-group=train)"
    assert f"pods of its anti-affinity {term} in this namespace: web/peer on n1" in out
    assert "Unschedulable since 2026-01-01T00:00:00.000000Z, found 3 times" in out
    assert out.count("message of Unschedulable") == 1
    assert "the answer of NodeAffinity, InterPodAffinity" in out
    assert "stranger" not in out + err
    code, out, err = explain("poor", "apart")
    assert (code, "nodes with disktype=sdd" in out, "in this namespace" in out) == (0, True, False)
    assert "the other pods of the namespace are not known: " in err


def test_tenant_learns_why_a_pod_ends(explain: Run, leader: FakeLeader, server: TestServer) -> None:
    """The pod says that it is preempted, the story for which pod; the budget is in the namespace."""
    story = story_of("web/database", "Preempted", uid=uid_of(server, "database"), pending=False)
    story.runs[0].others = ("web/vip",)
    leader.stories = {"web/database": [story]}
    server.run(lambda cluster: cluster.remove("v1", "Pod", "database", namespace="web"))
    code, out, err = explain("tenant", "database")
    assert code == 0, err
    assert (
        "eviction info - PreemptionByScheduler: preempting; n1 is promised to web/vip; violates the disruption" in out
    )
    assert "budget web/db; web/database on n1, ending since " in out
    assert "finalizers example.com/keep" in out


@pytest.mark.usefixtures("no_leader")
def test_tenant_sees_the_newest_event_about_the_pod(explain: Run, server: TestServer) -> None:
    """The role `view` may list events; the scheduler's own words are there."""
    about = {"kind": "Pod", "name": "told", "namespace": "web", "uid": uid_of(server, "told")}
    event = in_web(
        *("v1", "Event", "told.1"),
        involvedObject=about,
        reason="FailedScheduling",
        message="no room",
        lastTimestamp=AT,
        count=4,
        reportingComponent="pyscheduler",
    )
    same = {"message": NO_CPU, "lastTimestamp": "2026-01-02T00:00:00Z"}
    server.run(lambda cluster: cluster.add(event))
    code, out, _ = explain("tenant", "told")
    assert (code, f"FailedScheduling of pyscheduler, last at {AT}, 4 times: no room" in out) == (0, True)
    server.run(lambda cluster: cluster.add(event | {"metadata": {"name": "told.2", "namespace": "web"}, **same}))
    code, out, _ = explain("tenant", "told")
    assert (code, out.count(NO_CPU), "last at 2026-01-02T00:00:00Z, 4 times: the message of the" in out) == (0, 1, True)
    code, _, err = explain("poor", "told")
    assert (code, "may not list events; what they say is not known" in err) == (0, True)


def test_tenant_explains_a_workload_whose_pods_were_refused(explain: Run, leader: FakeLeader) -> None:
    """Workloads, events and pods of the namespace are enough."""
    code, out, err = explain("tenant", "deployment/shop")
    assert code == 0, err
    assert "Deployment web/shop Verdict: waits: FailedCreate" in out
    assert f"ReplicaSet web/shop-5d4: {QUOTA} (7 times)" in out
    assert leader.requests == ["/configz"]


@pytest.mark.usefixtures("no_leader")
def test_workload_that_may_not_be_read_is_forbidden_and_not_missing(explain: Run) -> None:
    """The message names what is needed; for a name without a kind, both explanations are open."""
    code, out, err = explain("poor", "deployment/shop")
    assert (code, out) == (1, "")
    text = "Deployment web/shop cannot be read: forbidden: these credentials may not list deployments in the namespace"
    assert f"{text} web; the role view in the namespace permits it" in err
    assert "does not exist" not in err
    code, _, err = explain("poor", "shop")
    assert code == 1
    assert "pod web/shop does not exist, or it has terminated; these credentials may not list deployments, " in err
    code, _, err = explain("tenant", "job/shop")
    assert (code, "error: Job web/shop does not exist" in err) == (1, True)


@pytest.mark.usefixtures("no_leader")
def test_pod_of_another_namespace_is_forbidden(explain: Run) -> None:
    """The message names the permission."""
    code, out, err = explain("tenant", "kube-system/anything")
    assert (code, out) == (1, "")
    assert 'cannot get resource "pods" in API group "" in the namespace "kube-system"' in err
    assert "the role view in the namespace permits it" in err


# --- no leader ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_leader")
def test_administrator_learns_that_no_replica_leads(explain: Run, server: TestServer) -> None:
    """By the lease; the reasons of the pod stay. Without an answer of the leader, no profile is known to be missing."""
    code, out, err = explain("", "foreign")
    assert (code, "NoProfile" in out, "Verdict: unknown" in out) == (0, False, True), err
    assert "Next: a sure answer needs the scheduler's configuration" in out
    code, out, _ = explain("", "fresh")
    assert (code, "in its next attempt, if a replica leads; none has answered" in out) == (0, True)
    spec = {"holderIdentity": "gone_1", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    name = {"name": "pyscheduler", "namespace": "kube-system"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": name, "spec": spec}
    server.run(lambda cluster: cluster.add(lease))
    for pod, reason in (("foreign", ""), ("fresh", ""), ("told", "nodes holds Unschedulable")):
        code, out, _ = explain("", pod)
        assert (code, "Verdict: waits: NoScheduler" in out, reason in out) == (0, True, True)
        assert "NoProfile" not in out
        assert "no replica leads: the lease kube-system/pyscheduler has expired; gone_1 renewed it last at 2026-" in out
        assert "Next: the pod is tried when a replica of the scheduler leads" in out
    server.run(
        lambda cluster: cluster.remove("coordination.k8s.io/v1", "Lease", "pyscheduler", namespace="kube-system")
    )


# --- stories ------------------------------------------------------------------------------------


def test_wide_shows_the_whole_story(explain: Run, leader: FakeLeader, server: TestServer) -> None:
    """The table has the last reason; `-o wide` and JSON have all of them."""
    story = story_of("web/told", "SchedulingGated", "Unschedulable", uid=uid_of(server, "told"))
    leader.stories = {"web/told": [story]}
    code, out, err = explain("", "told")
    assert (code, "message of SchedulingGated" in out) == (0, False), err
    code, out, _ = explain("", "told", "-o", "wide")
    assert "SINCE LAST REASON COUNT" in out
    assert out.index("message of SchedulingGated") < out.rindex("message of Unschedulable")
    _, out, _ = explain("", "told", "-o", "json")
    assert [run["reason"] for run in json.loads(out)["stories"][0]["runs"]] == ["SchedulingGated", "Unschedulable"]
    code, out, _ = explain("tenant", "told")
    assert (code, "message of SchedulingGated" in out) == (0, True)


@pytest.mark.parametrize("user", ["", "tenant"])
def test_pod_that_is_gone_has_the_leaders_story(explain: Run, leader: FakeLeader, user: str) -> None:
    """The story ends with the deletion; without one, the logs are named."""
    leader.stories = {"web/gone": [story_of("web/gone", "Unschedulable", "Deleted", pending=False)]}
    code, out, err = explain(user, "gone")
    assert code == 0, err
    assert "pod web/gone does not exist, or it has terminated; the leader knows its story" in err
    assert "Verdict: Deleted, after a wait of 1m" in out
    code, out, err = explain(user, "never")
    assert (code, out) == (1, "")
    assert f"the scheduler at {URL} knows no story of pod web/never; if it was a pod, the logs may know it: " in err
    assert "explain --history web/never --from FILE" in err


def test_standbys_behind_a_service_are_passed_over(explain: Run, leader: FakeLeader) -> None:
    """A story is requested until the leader answers, or a bound is reached."""
    leader.stories = {"web/gone": [story_of("web/gone", "Deleted", pending=False)]}
    leader.standbys = 5
    code, out, err = explain("tenant", "gone")
    assert (code, "Verdict: Deleted" in out) == (0, True), err
    assert leader.requests.count("/debug/story/web/gone") == 6
    leader.standbys = 1000
    code, _, err = explain("tenant", "gone")
    assert (code, f"{URL} is not the leader, and does not know why pods wait" in err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["--lease", "team/mine"], 0, "there is no lease team/mine; name another", id="given"),
        pytest.param(["--lease", "mine"], 1, "--lease must be NAMESPACE/NAME, such as kube-", id="no namespace"),
        pytest.param([], 0, "there is no lease kube-system/pyscheduler; name another", id="default"),
    ],
)
def test_lease_of_the_leader_is_an_option(explain: Run, arguments: list[str], code: int, said: str) -> None:
    """A release in a namespace of its own has its lease there."""
    found, _, err = explain("", "told", *arguments)
    assert (found, said in err) == (code, True), err


# --- several pods -------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["", "tenant"])
@pytest.mark.usefixtures("no_leader")
def test_several_pods_in_one_call(explain: Run, user: str) -> None:
    """Each has its answer; one that does not exist costs the exit code, and not the others."""
    code, out, err = explain(user, "pod/told", "never", "deployment/shop", "web/gated")
    assert code == 1
    places = [out.index(text) for text in ("pod web/told", "Deployment web/shop", "pod web/gated")]
    assert places == sorted(places)
    assert [line for line in err.splitlines() if line.startswith("error: ")] == [
        line for line in err.splitlines() if "pod web/never does not exist" in line
    ]
    assert err.count("note: nothing is evaluated") == (1 if user else 0)
    code, out, _ = explain(user, "told", "gated", "-o", "json")
    assert (code, [each["pod"] for each in json.loads(out)]) == (0, ["web/told", "web/gated"])


# --- the leader's configuration -----------------------------------------------------------------


def test_profile_whose_plugin_is_missing_here_is_left_out_alone(explain: Run, leader: FakeLeader) -> None:
    """Pods of the other profiles are evaluated with the leader's configuration."""
    from pyscheduler.config.dump import to_json

    config = load(None)
    (profile,) = config.profiles
    other = attrs.evolve(profile, scheduler_name="nobody")
    data = json.loads(to_json(attrs.evolve(config, profiles=(profile, other))))["componentconfig"]
    enabled = data["profiles"][1]["plugins"]["filter" if "filter" in data["profiles"][1]["plugins"] else "multiPoint"]
    enabled.setdefault("enabled", []).append({"name": "Licences"})
    leader.config = json.dumps({"componentconfig": data})
    code, out, err = explain("", "told")
    assert code == 0, err
    assert f"profile pyscheduler of the leader's configuration ({URL}/configz)" in out
    assert "default profile" not in err
    code, out, err = explain("", "foreign")
    assert f"profile nobody of the leader's configuration ({URL}/configz) cannot be used here: " in out
    assert "Licences" in out
    assert "profile pyscheduler is used instead" in out
    assert "NoProfile" not in out
