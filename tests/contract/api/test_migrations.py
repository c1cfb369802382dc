"""Live migrations by the webhooks, with kubectl, against a real API server or the embedded one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kvedge.cli.exits import Exit
from kvedge.kube.errors import Invalid, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.migrations import MigrationPolicy, VirtualMachineInstanceMigration
from tests.contract.api.conftest import remove
from tests.contract.api.stream_parts import MERGE
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.kvedge_cli import KvedgeCli
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
MIGRATIONS = VirtualMachineInstanceMigration.KIND.path("default")
POLICIES = MigrationPolicy.KIND.path()
VMI = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/small"


def migration(name: str = "", **spec: Any) -> JsonObject:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": name} if name else {"generateName": "m-"},
        "spec": {"vmiName": "small", **spec},
    }


def refusal(client: KubeClient, document: JsonObject) -> KubeError:
    with pytest.raises(KubeError) as caught:
        client.request("POST", MIGRATIONS, document)
    return caught.value


def test_a_migration_is_labelled_listed_and_alone(
    admin: KubeClient, kubectl: Kubectl, guest: JsonObject, second_node: str
) -> None:
    made = admin.request("POST", MIGRATIONS, migration("move"))
    assert made["metadata"]["labels"] == {"kubevirt.io/vmi-name": "small"}
    assert made["metadata"]["finalizers"] == ["kubevirt.io/migrationJobFinalize"]
    again = refusal(admin, migration())
    assert f"in-flight migration detected. Active migration job ({made['metadata']['uid']}) is currently" in str(again)
    path = f"{MIGRATIONS}/move"
    with pytest.raises(Invalid, match="update of Migration object's spec is restricted"):
        admin.request("PATCH", path, {"spec": {"vmiName": "other"}}, None, MERGE)
    with pytest.raises(Invalid, match="selector label can't be"):
        admin.request("PATCH", path, {"metadata": {"labels": {"kubevirt.io/vmi-name": None}}}, None, MERGE)
    with pytest.raises(Invalid, match="migrationJobFinalize can't be removed from an in-flight migration"):
        admin.request("PATCH", path, {"metadata": {"finalizers": None}}, None, MERGE)
    admin.request("PATCH", f"{path}/status", {"status": {"phase": "Succeeded"}}, None, MERGE)
    head, row = kubectl.run("get", "vmims").splitlines()
    assert (head.split(), row.split()) == (["NAME", "PHASE", "VMI"], ["move", "Succeeded", "small"])
    admin.request("POST", MIGRATIONS, migration(), {"dryRun": "All"})
    remove(admin, path)


def test_a_migration_that_cannot_be_is_refused_with_the_reason(
    admin: KubeClient, controller: KubeClient, guest: JsonObject, second_node: str
) -> None:
    assert 'the VMI "default/other" does not exist' in str(refusal(admin, migration(vmiName="other")))
    assert "vmiName is missing" in str(refusal(admin, migration(vmiName="")))
    assert "only virt-controller is allowed to set priority" in str(
        refusal(admin, migration(priority="user-triggered"))
    )
    other_box = {"migrationID": "x", "connectURL": "nowhere"}
    assert "spec.sendTo.migrationID: Invalid value" in str(refusal(admin, migration(sendTo=other_box)))
    controller.request("POST", MIGRATIONS, migration(priority="system-critical"), {"dryRun": "All"})
    fixed = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable", "message": "a disk"}
    controller.request("PATCH", VMI, {"status": {"conditions": [fixed]}}, None, MERGE)
    words = "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: a disk"
    assert words in str(refusal(admin, migration()))
    controller.request("PATCH", VMI, {"status": {"conditions": []}}, None, MERGE)


def test_where_there_is_one_node_a_migration_is_refused_with_what_to_do(admin: KubeClient, guest: JsonObject) -> None:
    error = refusal(admin, migration())
    assert 'VMI "default/small" has no other node to go to: node echo is the only one.' in str(error)
    assert "join another node, or move it to another box by `kvedge migrate small --to KUBECONFIG`" in str(error)


def test_a_user_is_warned_of_labels_that_no_other_node_has(
    kubectl: Kubectl, guest: JsonObject, second_node: str
) -> None:
    def told(zone: str) -> str:
        document = migration("warned", addedNodeSelector={"zone": zone})
        done = kubectl.try_run("create", "--dry-run=server", "-f", "-", text=json.dumps(document))
        assert "created" in done.stdout
        return done.stderr

    assert "no other node that takes VMs has these labels" in told("c")
    assert told("b") == ""


def test_a_policy_is_judged_when_it_is_written(admin: KubeClient, kubectl: Kubectl) -> None:
    document = {
        "apiVersion": "migrations.kubevirt.io/v1alpha1",
        "kind": "MigrationPolicy",
        "metadata": {"name": "slow"},
        "spec": {"selectors": {"namespaceSelector": {"team": "a"}}, "bandwidthPerMigration": "64Mi"},
    }
    admin.request("POST", POLICIES, document)
    assert kubectl.run("get", "migrationpolicies", "-o", "name") == "migrationpolicy.migrations.kubevirt.io/slow\n"
    for field, value, words in (
        ("allowPostCopy", True, "post-copy is not supported yet"),
        ("bandwidthPerMigration", "-1", "must not be negative"),
        ("maxDowntimeMs", 0, "must be greater than or equal to 1"),
        ("selectors", None, "spec.selectors"),
    ):
        with pytest.raises(Invalid, match=words):
            admin.request("PATCH", f"{POLICIES}/slow", {"spec": {field: value}}, None, MERGE)
    admin.request("DELETE", f"{POLICIES}/slow")


@pytest.fixture
def cli(server: ApiServerUnderTest) -> KvedgeCli:
    return KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))


@pytest.fixture
def vm(admin: KubeClient, guest: JsonObject) -> Iterator[None]:
    """The VM whose run the guest could be."""
    path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
    document = vm_of(small_vmi(), runStrategy="Manual")
    document["metadata"]["name"] = "small"
    admin.request("POST", path, document)
    yield
    remove(admin, f"{path}/small")


def test_kvedge_migrates_follows_and_cancels(
    cli: KvedgeCli, admin: KubeClient, controller: KubeClient, vm: None, second_node: str
) -> None:
    assert cli.try_run("migrate", "small", "--node-selector", "zone").returncode == Exit.USAGE
    done = cli.try_run("migrate", "small", "--node-selector", "zone=b", "--wait", "--timeout", "0.1")
    assert done.returncode == Exit.TIMED_OUT, done.stderr
    assert done.stdout == "VM small was scheduled to migrate\n"
    assert "waiting for VM small to move: not seen by the controller yet" in done.stderr
    [made] = admin.request("GET", MIGRATIONS)["items"]
    assert made["spec"]["addedNodeSelector"] == {"zone": "b"}
    path = f"{MIGRATIONS}/{made['metadata']['name']}"
    assert cli.try_run("migrate-cancel", "small", "--dry-run").returncode == Exit.DONE
    assert "deletionTimestamp" not in admin.request("GET", path)["metadata"]
    with cli.running("migrate-cancel", "small", "--wait") as process:
        wait_until(lambda: "deletionTimestamp" in admin.request("GET", path)["metadata"], "it is being cancelled")
        remove_finalizer = {"metadata": {"finalizers": None}}
        admin.request("PATCH", path, remove_finalizer, None, MERGE)
        out, _ = process.communicate(timeout=30)
    assert out.splitlines() == ["VM small was scheduled to migrate-cancel", "VM small stays where it is"]
    nothing = cli.try_run("migrate-cancel", "small")
    assert (nothing.returncode, nothing.stderr) == (Exit.NOT_FOUND, "error: Found no migration to cancel for small\n")


def test_many_users_migrate_at_once_and_no_call_waits_for_another(
    admin: KubeClient, vm: None, second_node: str
) -> None:
    """Each call holds a thread of the role until the webhook of migrations has answered; the role has 16."""
    path = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/small/migrate"

    def migrate(number: int) -> None:
        admin.hurry(30).request("PUT", path, {"dryRun": ["All"]})

    with ThreadPoolExecutor(20) as users:
        assert list(users.map(migrate, range(20))) == [None] * 20
