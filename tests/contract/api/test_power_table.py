"""What start, stop and restart do over HTTP for every run strategy and every state: KubeVirt's table, cell by cell.

No controller runs here, so that what a call has written can be seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from kvedge.api.subresources.power_rules import Call
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.contract.api.conftest import remove
from tests.support.builders import small_vmi, vm_of

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]

VM = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/small"
VMI = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/small"
CALLS = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/small"
MERGE = "application/merge-patch+json"
REFUSED = 'Operation cannot be fulfilled on virtualmachine.kubevirt.io "small": '

# What is written: the run strategy, or requests for the controller ("Stop" is for the run that was there).
ON, OFF, START, STOP, AGAIN = "Always", "Halted", ["Start"], ["Stop"], ["Stop", "Start"]
RUNNING, NOT_RUNNING, NO_RUN = "VM is already running", "VM is not running", "VM is not running: Halted"
NO_START = "{} does not support manual start requests"
NO_RESTART = "RunStategy {} does not support manual restart requests"
FAILED = "RerunOnFailure does not support starting VM from failed state"
SOONER = "Halted only supports manual stop requests with a shorter graceperiod"

STATES = ("none", "live", "succeeded", "failed")
PHASES = {"live": "Running", "succeeded": "Succeeded", "failed": "Failed"}
# A text with a space is a refusal with 409; anything else is accepted with 202.
TABLE: dict[tuple[Call, str], tuple[str | list[str], str | list[str], str | list[str], str | list[str]]] = {
    # call, strategy                none         live     succeeded    failed
    ("start", "Always"): (NO_START, RUNNING, NO_START, NO_START),
    ("start", "RerunOnFailure"): (START, RUNNING, AGAIN, FAILED),
    ("start", "Manual"): (START, RUNNING, AGAIN, AGAIN),
    ("start", "Halted"): (ON, RUNNING, ON, ON),
    ("start", "Once"): (NO_START, RUNNING, NO_START, NO_START),
    ("stop", "Always"): (OFF, OFF, OFF, OFF),
    ("stop", "RerunOnFailure"): (NOT_RUNNING, STOP, NOT_RUNNING, NOT_RUNNING),
    ("stop", "Manual"): (NOT_RUNNING, STOP, NOT_RUNNING, NOT_RUNNING),
    ("stop", "Halted"): (NOT_RUNNING, SOONER, NOT_RUNNING, NOT_RUNNING),
    ("stop", "Once"): (OFF, OFF, OFF, OFF),
    ("restart", "Always"): (NO_RUN, AGAIN, AGAIN, AGAIN),
    ("restart", "RerunOnFailure"): (NO_RUN, AGAIN, AGAIN, AGAIN),
    ("restart", "Manual"): (NO_RUN, AGAIN, AGAIN, AGAIN),
    ("restart", "Halted"): (NO_RESTART, NO_RESTART, NO_RESTART, NO_RESTART),
    ("restart", "Once"): (NO_RESTART, NO_RESTART, NO_RESTART, NO_RESTART),
}
CELLS = [
    (state, call, strategy, row[index]) for index, state in enumerate(STATES) for (call, strategy), row in TABLE.items()
]
CELL_IDS = [f"{call}-{strategy}-{state}" for state, call, strategy, _ in CELLS]


class Stage:
    """One VM, and its run in the state that a cell needs."""

    def __init__(self, admin: KubeClient, controller: KubeClient) -> None:
        self._admin = admin
        self._controller = controller
        self.uid = admin.request("POST", VM.rpartition("/")[0], vm_of(small_vmi(), runStrategy="Halted"))["metadata"][
            "uid"
        ]

    def set(self, strategy: str, state: str, status: JsonObject | None = None) -> str:
        """Returns the run's UID, empty without one."""
        spec = {"running": None, "runStrategy": strategy}
        if strategy in ("true", "false"):
            spec = {"running": strategy == "true", "runStrategy": None}
        self._admin.request("PATCH", VM, {"spec": spec}, None, MERGE)
        fresh = {"stateChangeRequests": None, "startFailure": {"consecutiveFailCount": 3}, "conditions": None}
        self._controller.request("PATCH", f"{VM}/status", {"status": fresh | (status or {})}, None, MERGE)
        return self._run(state)

    def vm(self) -> JsonObject:
        found: JsonObject = self._admin.request("GET", VM)
        return found

    def call(self, call: str, body: JsonObject | None = None) -> tuple[int, str, str]:
        """Code, reason and message."""
        try:
            self._admin.request("PUT", f"{CALLS}/{call}", body or {})
        except KubeError as error:
            return error.status, error.reason, error.message
        return 202, "", ""

    def remove(self) -> None:
        self._run("none")
        remove(self._admin, VM)

    def _run(self, state: str) -> str:
        try:
            found = self._admin.request("GET", VMI)
        except NotFound:
            found = None
        if state == "none":
            if found is not None:
                remove(self._admin, VMI)
            return ""
        if found is None:
            vmi = small_vmi()
            owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "small", "uid": self.uid}
            vmi["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
            self._controller.request("POST", VMI.rpartition("/")[0], vmi)
        run = {"spec": {"terminationGracePeriodSeconds": 60}, "status": {"phase": PHASES[state]}}
        return str(self._controller.request("PATCH", VMI, run, None, MERGE)["metadata"]["uid"])


@pytest.fixture(scope="module")
def stage(admin: KubeClient, controller: KubeClient, webhooks_are_called: None) -> Iterator[Stage]:
    made = Stage(admin, controller)
    yield made
    made.remove()


def test_the_table_has_a_cell_for_each_call_strategy_and_state() -> None:
    strategies = ("Always", "RerunOnFailure", "Manual", "Halted", "Once")
    calls: tuple[Call, ...] = ("start", "stop", "restart")
    assert set(TABLE) == set(itertools.product(calls, strategies))


@pytest.mark.parametrize(("state", "call", "strategy", "expected"), CELLS, ids=CELL_IDS)
def test_a_call_does_what_the_table_says(
    stage: Stage, state: str, call: Call, strategy: str, expected: str | list[str]
) -> None:
    uid = stage.set(strategy, state)
    answer = stage.call(call)
    vm = stage.vm()
    written = vm["status"].get("stateChangeRequests", [])
    if isinstance(expected, str) and " " in expected:
        assert answer == (409, "Conflict", REFUSED + expected.format(strategy))
        assert (vm["spec"]["runStrategy"], written) == (strategy, [])
        return
    assert answer == (202, "", "")
    # Whoever asks for something begins to count anew.
    assert "startFailure" not in vm["status"]
    if isinstance(expected, str):
        assert (vm["spec"]["runStrategy"], written) == (expected, [])
        return
    requests: list[JsonObject] = [{"action": "Stop", "uid": uid}, {"action": "Start"}]
    assert written == [request for request in requests if request["action"] in expected]
    assert vm["spec"]["runStrategy"] == strategy


@pytest.mark.parametrize(
    ("running", "call", "state", "after"),
    [("false", "start", "none", True), ("true", "stop", "live", False), ("true", "stop", "none", False)],
)
def test_the_old_word_for_running_is_kept(stage: Stage, running: str, call: Call, state: str, after: bool) -> None:
    stage.set(running, state)
    assert stage.call(call)[0] == 202
    spec = stage.vm()["spec"]
    assert spec["running"] is after
    assert "runStrategy" not in spec


@pytest.mark.parametrize("strategy", ["Manual", "RerunOnFailure", "Halted"])
def test_a_paused_start_is_a_request(stage: Stage, strategy: str) -> None:
    stage.set(strategy, "none")
    assert stage.call("start", {"paused": True})[0] == 202
    vm = stage.vm()
    assert vm["status"]["stateChangeRequests"] == [{"action": "Start", "data": {"paused": "true"}}]
    assert vm["spec"]["runStrategy"] == strategy


def test_a_halted_vm_stops_sooner_with_a_shorter_grace_period(stage: Stage, admin: KubeClient) -> None:
    stage.set("Halted", "live")
    assert stage.call("stop", {"gracePeriod": 60}) == (409, "Conflict", REFUSED + SOONER)
    assert stage.call("stop", {"gracePeriod": 5})[0] == 202
    assert admin.request("GET", VMI)["spec"]["terminationGracePeriodSeconds"] == 5


def test_a_forced_restart_leaves_the_guest_one_second(stage: Stage, admin: KubeClient) -> None:
    uid = stage.set("Always", "live")
    assert stage.call("restart", {"gracePeriodSeconds": 0})[0] == 202
    assert admin.request("GET", VMI)["spec"]["terminationGracePeriodSeconds"] == 1
    requests = stage.vm()["status"]["stateChangeRequests"]
    assert requests == [{"action": "Stop", "uid": uid}, {"action": "Start"}]


@pytest.mark.parametrize(
    ("call", "body", "text"),
    [
        ("restart", {"gracePeriodSeconds": 3}, "For force restart, only gracePeriod=0 is supported for now"),
        ("restart", {"gracePeriodSeconds": -1}, "gracePeriod has to be greater or equal to 0"),
        ("stop", {"gracePeriod": -1}, "gracePeriod has to be greater or equal to 0"),
    ],
)
def test_a_grace_period_that_makes_no_sense_is_refused(stage: Stage, call: str, body: JsonObject, text: str) -> None:
    stage.set("Always", "live")
    assert stage.call(call, body) == (400, "BadRequest", text)


@pytest.mark.parametrize(("call", "body"), [("start", {"paused": True}), ("restart", {})])
def test_what_is_underway_is_not_overwritten(stage: Stage, call: str, body: JsonObject) -> None:
    state = "none" if call == "start" else "live"
    stage.set("Manual", state, {"stateChangeRequests": [{"action": "Start"}]})
    text = "unable to complete request: stop/start already underway"
    assert stage.call(call, body) == (500, "InternalError", text)


def test_a_stop_replaces_what_is_underway(stage: Stage) -> None:
    uid = stage.set("Manual", "live", {"stateChangeRequests": [{"action": "Start"}]})
    assert stage.call("stop")[0] == 202
    assert stage.vm()["status"]["stateChangeRequests"] == [{"action": "Stop", "uid": uid}]


@pytest.mark.parametrize(
    ("call", "state", "condition", "text"),
    [
        ("start", "none", "ManualRecoveryRequired", "VM recovery required: disks are elsewhere"),
        (
            "restart",
            "live",
            "VolumesChange",
            "VM recovery required: the VM cannot be restarted while its volumes change, as some targets are incomplete:"
            " disks are elsewhere; wait, or put the original claims back",
        ),
    ],
)
def test_disks_that_move_keep_it_where_it_is(stage: Stage, call: str, state: str, condition: str, text: str) -> None:
    entry = {"type": condition, "status": "True", "message": "disks are elsewhere"}
    stage.set("Manual", state, {"conditions": [entry]})
    assert stage.call(call) == (409, "Conflict", REFUSED + text)


@pytest.mark.parametrize(("call", "state"), [("start", "none"), ("stop", "live"), ("restart", "live")])
def test_a_dry_run_answers_alike_and_writes_nothing(stage: Stage, admin: KubeClient, call: str, state: str) -> None:
    stage.set("Manual", state)
    before = stage.vm()
    grace = {"stop": {"gracePeriod": 1}, "restart": {"gracePeriodSeconds": 0}}.get(call, {})
    assert stage.call(call, {"dryRun": ["All"], **grace})[0] == 202
    assert stage.vm() == before
    if state == "live":
        assert admin.request("GET", VMI)["spec"]["terminationGracePeriodSeconds"] == 60


def test_a_run_that_somebody_made_by_hand_is_not_the_vms(stage: Stage, admin: KubeClient) -> None:
    stage.set("Manual", "none")
    admin.request("POST", VMI.rpartition("/")[0], small_vmi())
    assert stage.call("stop") == (409, "Conflict", REFUSED + NOT_RUNNING)
