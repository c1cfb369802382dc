"""Whoever waits for a VM in vain is shown what its newest warnings say: the reason stands in an event alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import click
import pytest

from kvedge.cli.exits import Exit
from kvedge.cli.group import kvedge
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.meta import ObjectMeta, ObjectReference
from kvedge.resources.types.core import Event
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.contract.api.conftest import MERGE, EchoNode, remove
from tests.support.api_servers import ApiServerUnderTest
from tests.support.builders import small_vmi, vm_of
from tests.support.kvedge_cli import KvedgeCli
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
NAME = "warned"
VM, VMI = VirtualMachine.KIND.path("default", NAME), VirtualMachineInstance.KIND.path("default", NAME)
# With a run that does not come up, or does not end: what its launcher Pod was told.
OF_A_RUN = (
    f"restart {NAME} --wait --timeout 2",
    f"stop {NAME} --wait --timeout 2",
    f"console {NAME} --timeout 0.02",
    f"delete vmi {NAME} --timeout 1",
    "apply -f - --wait --timeout 2",
)
# These tell what has become of the migration, and why (test_migrations.py).
OF_A_MIGRATION = {"migrate", "migrate-cancel"}
# This one tells what the clone waits for (controller/test_vm_clones.py).
OF_A_CLONE = {"clone"}
# Without one: what the VM was told.
OF_A_VM = (f"start {NAME} --wait --timeout 2", f"launch local/none:1 {NAME} --wait --timeout 4")


@pytest.fixture(scope="module")
def cli(server: ApiServerUnderTest) -> KvedgeCli:
    return KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))


@contextlib.contextmanager
def a_vm(admin: KubeClient) -> Iterator[JsonObject]:
    document = vm_of(small_vmi(), runStrategy="Manual")
    document["metadata"]["name"] = NAME
    try:
        yield admin.request("POST", VM.rpartition("/")[0], document)
    finally:
        remove(admin, VM)


@pytest.fixture
def run(admin: KubeClient, controller: KubeClient, echo_node: EchoNode) -> Iterator[JsonObject]:
    """A VM whose guest does not come up: as controller and handler would have it."""
    with a_vm(admin) as vm:
        document = small_vmi()
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": NAME, "uid": vm["metadata"]["uid"]}
        document["metadata"] |= {"name": NAME, "ownerReferences": [{**owner, "controller": True}]}
        controller.request("POST", VMI.rpartition("/")[0], document)
        controller.request("PATCH", f"{VM}/status", {"status": {"created": True}}, None, MERGE)
        yield controller.request("PATCH", VMI, {"status": {"phase": "Scheduling"}}, None, MERGE)
        with contextlib.suppress(NotFound):
            remove(admin, VMI)


def warn(admin: KubeClient, kind: str, name: str, uid: str, message: str, minute: int = 0) -> None:
    """Record an event, `minute` minutes after the hour."""
    now = rfc3339(datetime.now(UTC).replace(minute=minute, second=0, microsecond=0))
    admin.create(
        Event(
            metadata=ObjectMeta(generate_name="warned-", namespace="default"),
            involved_object=ObjectReference(kind=kind, name=name, uid=uid, namespace="default"),
            type="Warning",
            reason="Failed",
            message=message,
            last_timestamp=now,
        )
    )


@pytest.mark.parametrize("call", OF_A_RUN)
def test_a_verb_that_waits_in_vain_tells_what_the_launcher_was_told(
    call: str, cli: KvedgeCli, admin: KubeClient, controller: KubeClient, run: JsonObject
) -> None:
    if call.startswith("restart"):
        controller.request("PATCH", VMI, {"status": {"phase": "Running"}}, None, MERGE)
    uid = run["metadata"]["uid"]
    found = VirtualMachineInstance(metadata=ObjectMeta(name=NAME, uid=uid))
    pod = launcher_pod_name(found)
    warn(admin, "Pod", pod, "p", "an older reason", 1)
    warn(admin, "Pod", pod, "p", "cannot run the command: Permission denied (/root/…)", 2)
    warn(admin, "Pod", f"virt-launcher-{NAME}-aaaaa", "q", "of another run")
    manifest = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": NAME}}
    done = cli.try_run(*call.split(), text=str(manifest))
    assert done.returncode == Exit.TIMED_OUT, done.stderr
    assert f"Warning of Pod {pod}, " in done.stderr
    assert "Failed: cannot run the command: Permission denied (/root/…)" in done.stderr
    assert "an older reason" not in done.stderr
    assert "of another run" not in done.stderr


@pytest.mark.parametrize("call", OF_A_VM)
def test_a_verb_that_waits_in_vain_tells_what_the_vm_was_told(call: str, cli: KvedgeCli, admin: KubeClient) -> None:
    def warn_once_there() -> None:
        wait_until(lambda: _exists(admin), "the VM is made")
        warn(admin, "VirtualMachine", NAME, "v", "exceeded quota: none")

    telling = threading.Thread(target=warn_once_there)
    telling.start()
    with contextlib.nullcontext() if call.startswith("launch") else a_vm(admin):
        done = cli.try_run(*call.split())
    telling.join()
    if call.startswith("launch"):
        remove(admin, VM)
    assert done.returncode == Exit.TIMED_OUT, done.stderr
    assert f"Warning of VirtualMachine {NAME}, " in done.stderr
    assert "Failed: exceeded quota: none" in done.stderr


def _exists(admin: KubeClient) -> bool:
    try:
        admin.request("GET", VM)
    except NotFound:
        return False
    return True


def test_every_verb_that_waits_for_a_vm_is_tried_here() -> None:
    waiting = {
        name
        for name in kvedge.list_commands(click.Context(kvedge))
        if (verb := kvedge.get_command(click.Context(kvedge), name)) is not None
        and any("--wait" in option.opts for option in verb.params)
    }
    tried = {call.split()[0] for call in (*OF_A_RUN, *OF_A_VM)}
    assert waiting <= tried | OF_A_MIGRATION | OF_A_CLONE
