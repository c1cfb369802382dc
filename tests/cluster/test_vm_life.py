"""The life of a VM on a real cluster: the same scenarios as on one box."""

from __future__ import annotations

import os

import pytest

from kvedge.resources.moves.crossing import CREDENTIALS_NAMESPACE
from kvedge.resources.role_users import HANDLER_GROUP
from tests.support.box import CHECKOUT, small_vm
from tests.support.cluster.any_cluster import Cluster
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.kube_apiserver import RoleCall
from tests.support.role_rights import unused_rights
from tests.support.terminal import in_terminal
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500)]


def test_a_vm_boots_gets_its_address_answers_and_is_shut_down_by_acpi(cluster: Cluster) -> None:
    cluster.apply(small_vm("life", cluster.image))
    vmi = cluster.wait_phase("life", "Running")
    (pod,) = cluster.pods(vmi)
    assert vmi.status.interfaces[0].ip_address == pod.status.pod_ip
    assert vmi.status.node_name == pod.spec.node_name
    cluster.wait_answer("life")
    wait_until(lambda: cluster.vm("life").status.ready, "the VM is ready")
    cluster.cli("stop", "life", "--wait")
    cluster.wait_gone("life")
    wait_until(lambda: cluster.vm("life").status.printable_status == "Stopped", "the VM says that it is stopped")
    events = cluster.kubectl("get", "events", "--field-selector", "involvedObject.name=life").stdout
    # It went by itself: nobody had to kill it.
    assert "ShuttingDown" in events
    cluster.cli("start", "life")
    again = cluster.wait_phase("life", "Running")
    assert again.metadata.uid != vmi.metadata.uid
    cluster.remove_vm("life")


def test_console_log_exec_and_log_of_the_launcher_are_useful(cluster: Cluster) -> None:
    cluster.apply(small_vm("talk", cluster.image))
    vmi = cluster.wait_phase("talk", "Running")
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "TERM": "xterm"}
    with in_terminal([*CHECKOUT, "console", "talk"], environment) as (terminal, process):
        terminal.wait_for(b"Successfully connected")
        terminal.type_until("\r", b"login:")
        terminal.type("\x1d")
        assert process.wait(20) == 0
    assert "login:" in cluster.cli("console", "talk", "--log").stdout
    (pod,) = cluster.pods(vmi)
    log = cluster.kubectl("logs", pod.metadata.name).stdout
    assert "domain" in log
    listed = cluster.kubectl("exec", pod.metadata.name, "--", "/usr/bin/ls", "/run/kubevirt-private").stdout
    assert vmi.metadata.uid in listed
    cluster.remove_vm("talk")


def test_the_launcher_pod_has_no_privilege(cluster: Cluster) -> None:
    cluster.apply(small_vm("bare", cluster.image))
    vmi = cluster.wait_phase("bare", "Running")
    (pod,) = cluster.pods(vmi)
    status = cluster.in_launcher(pod, "/usr/bin/cat", "/proc/1/status")
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["Uid"].split() == ["107"] * 4
    assert facts["CapEff"] == facts["CapBnd"] == "0" * 16
    assert facts["NoNewPrivs"] == "1"
    assert facts["Seccomp"] == "2"
    found = cluster.kubectl("exec", pod.metadata.name, "--", "/usr/bin/ls", "/run", check=False).stdout
    assert "secrets" not in found
    cluster.remove_vm("bare")


@pytest.mark.parametrize(
    ("strategy", "runs_again"), [("Always", True), ("RerunOnFailure", True), ("Once", False), ("Manual", False)]
)
def test_a_guest_that_is_killed_obeys_its_run_strategy(cluster: Cluster, strategy: str, runs_again: bool) -> None:
    name = f"crash-{strategy.lower()}"
    cluster.apply(small_vm(name, cluster.image, strategy))
    if strategy == "Manual":
        cluster.cli("start", name)
    vmi = cluster.wait_phase(name, "Running")
    cluster.kill_guest(vmi)

    def settled() -> bool:
        found = cluster.vmi(name)
        if runs_again:
            return found is not None and found.metadata.uid != vmi.metadata.uid and found.status.phase == "Running"
        return found is None or found.status.phase == "Failed"

    wait_until(settled, f"a VM that is {strategy} settles", 200, 0.2)
    assert cluster.count_qemus(vmi) == 0
    found = cluster.vmi(name)
    assert (cluster.count_qemus(found) if found else 0) == int(runs_again)
    cluster.remove_vm(name)


def test_of_two_guests_with_one_mac_on_a_node_the_later_waits_for_the_first(own_cluster: LocalCluster) -> None:
    cluster = own_cluster
    for name in ("twin", "later"):
        vm = small_vm(name, cluster.image, nodeSelector={"kubernetes.io/hostname": "n2"})
        (nic,) = vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"]
        nic["macAddress"] = "02:00:00:5e:00:01"
        cluster.apply(vm)
        cluster.wait_phase(name, "Running" if name == "twin" else "Scheduled")
    words = f"VMI {cluster.namespace}/twin of this node has it"
    look = ("get", "events", "--field-selector", "involvedObject.name=later,reason=SyncFailed")
    wait_until(lambda: words in cluster.kubectl(*look).stdout, "it is told whose MAC that is")
    later = cluster.vmi("later")
    assert later is not None
    assert (later.status.phase, cluster.count_qemus(later)) == ("Scheduled", 0)
    cluster.remove_vm("twin")
    cluster.wait_phase("later", "Running")
    cluster.wait_answer("later")
    cluster.remove_vm("later")


def test_no_role_was_refused_what_it_asked_for(own_cluster: LocalCluster) -> None:
    calls = own_cluster.plane.api.role_calls()
    refused = {_asked(call) for call in calls if call.code == 403}
    allowed = {_asked(call) for call in calls if call.code not in (401, 403)}
    assert allowed
    # A server that has just restarted knows no rights for a moment, and refuses everybody everything.
    assert refused - allowed == set()


def test_a_handler_reads_all_that_it_may_read(own_cluster: LocalCluster) -> None:
    """What it writes is compared in tests/contract/test_role_rights.py, where nothing but its reads is played."""
    # The server's speaks in its own name; the others as their nodes.
    idle = unused_rights(own_cluster.plane.api.role_calls())
    # A guest that moves to another box needs it (tests/contract/controller/test_two_boxes.py): clusters have no such.
    idle -= {f"{HANDLER_GROUP}: read secrets in {CREDENTIALS_NAMESPACE}"}
    assert [right for right in idle if right.startswith(f"{HANDLER_GROUP}: read ")] == []


def _asked(call: RoleCall) -> str:
    return f"{call.group}: {call.verb} {call.api_group}/{call.resource}"
