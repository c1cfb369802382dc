"""A tenant with `edit` in one namespace of a real box: VMs, commands in launchers, a quota, and no way to the host."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.resources.types.vm import VirtualMachine
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.kubectl import current_kubectl
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]
IMAGE = "local/guest:1"
TENANT = "tenant"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("tn") / "data", "10.98.8.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    kubectl(found, "create", "rolebinding", TENANT, "--clusterrole=edit", f"--user={TENANT}", tenant=False)
    yield found
    found.remove()


def try_kubectl(box: Box, *arguments: str, given: str = "", tenant: bool = True) -> subprocess.CompletedProcess[str]:
    program = current_kubectl()
    if program is None:
        pytest.skip("there is no kubectl in /usr/local/kubebuilder/bin or on the PATH")
    command = [str(program), *(["--as", TENANT] if tenant else []), *arguments]
    environment = {**os.environ, "KUBECONFIG": str(box.kubeconfig)}
    return subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, env=environment, timeout=60
    )


def kubectl(box: Box, *arguments: str, given: str = "", tenant: bool = True) -> str:
    done = try_kubectl(box, *arguments, given=given, tenant=tenant)
    assert done.returncode == 0, done.stderr
    return done.stdout


def launchers(box: Box) -> list[str]:
    listed = json.loads(kubectl(box, "get", "pods", "-l", "kubevirt.io=virt-launcher", "-o", "json"))
    running: list[dict[str, Any]] = [item for item in listed["items"] if item["status"].get("phase") == "Running"]
    return [item["metadata"]["name"] for item in running]


def messages(box: Box, name: str) -> str:
    return kubectl(box, "get", "vmi", name, "-o", "json") + kubectl(box, "get", "events", "-o", "json")


def test_the_host_s_files_are_out_of_reach(box: Box) -> None:
    host = {"name": "host", "hostPath": {"path": "/"}}
    container = {
        "name": "c",
        "image": IMAGE,
        "command": ["/usr/bin/cat", "/host/etc/shadow"],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [
            {"name": "host", "mountPath": "/host"},
            {"name": "host", "mountPath": "/usr", "subPath": "usr"},
        ],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "thief"},
        "spec": {"restartPolicy": "Never", "containers": [container], "volumes": [host]},
    }
    done = try_kubectl(box, "apply", "-f", "-", given=json.dumps(pod))
    assert done.returncode != 0
    assert 'violates PodSecurity "baseline:latest": hostPath volumes (volume "host")' in done.stderr


def test_a_tenant_s_vm_runs_and_its_launcher_can_be_looked_into(box: Box) -> None:
    kubectl(box, "apply", "-f", "-", given=json.dumps(small_vm("mine", IMAGE, terminationGracePeriodSeconds=0)))
    box.wait_phase("mine", "Running")
    [launcher] = launchers(box)
    found = kubectl(box, "exec", launcher, "--", "sh", "-c", "id -u; grep CapBnd /proc/self/status; cat /proc/1/comm")
    user, bound, _ = found.splitlines()
    assert (user, bound.split()[1]) == ("107", "0" * 16)
    assert "qemu" in kubectl(box, "exec", launcher, "--", "sh", "-c", "cat /proc/[0-9]*/comm")
    # The host is not there to be read, whatever the launcher's own volumes are.
    assert try_kubectl(box, "exec", launcher, "--", "cat", "/etc/shadow").returncode != 0
    assert kubectl(box, "exec", launcher, "--", "virsh", "list", "--name").split("_")[-1].strip() == "mine"


def test_a_second_vm_waits_for_room_in_the_quota(box: Box) -> None:
    kubectl(box, "create", "quota", "one", "--hard=pods=1", tenant=False)
    kubectl(box, "apply", "-f", "-", given=json.dumps(small_vm("second", IMAGE, terminationGracePeriodSeconds=0)))
    wait_until(lambda: "exceeded quota: one, requested: pods=1, used: pods=1" in messages(box, "second"), "it is told")
    assert len(launchers(box)) == 1
    assert "pods: 1/1" in kubectl(box, "get", "quota", "one")
    box.client.delete(VirtualMachine, "default", "mine")
    box.wait_phase("second", "Running")
    box.client.delete(VirtualMachine, "default", "second")
    box.wait_gone("second")
    wait_until(lambda: "pods: 0/1" in kubectl(box, "get", "quota", "one"), "the quota is free again")
