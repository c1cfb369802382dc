"""`credentials add-ssh-key|remove-ssh-key|set-password` of an unmodified virtctl, and of kvedge, against both servers:
they leave the same behind, so that either may go on after the other.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from kvedge.cli.exits import Exit
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.kvedge_cli import KvedgeCli

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
VM = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/logins"
VMI = VM.replace("virtualmachines", "virtualmachineinstances")
SECRETS = "/api/v1/namespaces/default/secrets"
MERGE = "application/merge-patch+json"
ANN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAnn ann@desk"
BOB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBob bob@desk"
# What a tool says, and whether it ended well.
Tool: TypeAlias = Callable[..., tuple[str, bool]]


@pytest.fixture(params=["virtctl", "kvedge"])
def tool(request: pytest.FixtureRequest, server: ApiServerUnderTest) -> Tool:
    kubeconfig = server.write_kubeconfig("admin", ["system:masters"])
    program = KvedgeCli(kubeconfig) if request.param == "kvedge" else Kubectl(kubeconfig, "virtctl")

    def call(verb: str, *words: str | Path) -> tuple[str, bool]:
        done = program.try_run("credentials", verb, "logins", *map(str, words))
        return done.stdout + done.stderr, done.returncode == 0

    return call


@pytest.fixture
def vm(admin: KubeClient) -> Iterator[JsonObject]:
    document = vm_of(small_vmi(), runStrategy="Manual")
    document["metadata"]["name"] = "logins"
    yield admin.request("POST", VM.rpartition("/")[0], document)
    # Before the VM, with which those that it owns go.
    for item in admin.request("GET", SECRETS)["items"]:
        if item["metadata"]["name"].startswith("logins-"):
            remove(admin, f"{SECRETS}/{item['metadata']['name']}")
    remove(admin, VM)


def credentials(admin: KubeClient) -> list[JsonObject]:
    found: list[JsonObject] = admin.request("GET", VM)["spec"]["template"]["spec"].get("accessCredentials", [])
    return found


def content(admin: KubeClient, name: str) -> dict[str, str]:
    data = admin.request("GET", f"{SECRETS}/{name}").get("data") or {}
    return {key: base64.b64decode(value).decode().strip() for key, value in data.items()}


def give(admin: KubeClient, name: str, owner: JsonObject | None, kind: JsonObject, **data: str) -> None:
    """Make a Secret, and have the VM name it."""
    metadata: JsonObject = {"name": name}
    if owner is not None:
        reference = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "logins"}
        metadata["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
    admin.request("POST", SECRETS, {"metadata": metadata, "stringData": data})
    (each,) = kind
    source = {"source": {"secret": {"secretName": name}}}
    body = {"spec": {"template": {"spec": {"accessCredentials": [{each: {**source, **kind[each]}}]}}}}
    admin.request("PATCH", VM, body, None, MERGE)


KEYS = {"sshPublicKey": {"propagationMethod": {"qemuGuestAgent": {"users": ["ann"]}}}}
PASSWORDS = {"userPassword": {"propagationMethod": {"qemuGuestAgent": {}}}}


def test_keys_come_into_a_secret_of_the_vms_own_and_go(
    tool: Tool, admin: KubeClient, vm: JsonObject, tmp_path: Path
) -> None:
    told, done = tool("add-ssh-key", "--user=ann", f"--value={ANN}")
    assert done, told
    (credential,) = credentials(admin)
    public = credential["sshPublicKey"]
    assert public["propagationMethod"] == {"qemuGuestAgent": {"users": ["ann"]}}
    name = public["source"]["secret"]["secretName"]
    (owner,) = admin.request("GET", f"{SECRETS}/{name}")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("VirtualMachine", "logins", vm["metadata"]["uid"])
    assert list(content(admin, name).values()) == [ANN]
    (tmp_path / "bob.pub").write_text(BOB)
    told, done = tool("add-ssh-key", "-u", "ann", "-f", tmp_path / "bob.pub")
    assert (told.strip(), done) == (f'Successfully added the key to secret "{name}"', True)
    assert sorted(content(admin, name).values()) == [ANN, BOB]
    told, done = tool("add-ssh-key", "-u", "ann", "-f", tmp_path / "bob.pub")
    assert (told.strip(), done) == (f'Secret "{name}" already contains this SSH key.', True)
    assert tool("remove-ssh-key", "--user=ann", f"--value={ANN}")[1]
    assert list(content(admin, name).values()) == [BOB]
    assert credentials(admin) == [credential]


def test_a_vm_that_runs_gets_no_further_secret_unless_it_is_forced(
    tool: Tool, admin: KubeClient, controller: KubeClient, vm: JsonObject
) -> None:
    body = small_vmi()
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "logins", "controller": True}
    body["metadata"] = {"name": "logins", "ownerReferences": [{**owner, "uid": vm["metadata"]["uid"]}]}
    controller.request("POST", VMI.rpartition("/")[0], body)
    try:
        told, done = tool("add-ssh-key", "--user=ann", f"--value={ANN}")
        assert not done
        assert "virtual machine logins is running. Use --force flag to update a running VM" in told
        assert credentials(admin) == []
        assert tool("add-ssh-key", "--user=ann", f"--value={ANN}", "--force", "--create-secret")[1]
        assert len(credentials(admin)) == 1
    finally:
        remove(admin, VMI)


def test_a_secret_that_others_may_use_is_changed_by_force_alone(tool: Tool, admin: KubeClient, vm: JsonObject) -> None:
    give(admin, "logins-shared", None, KEYS, key=ANN)
    for verb, key in (("add-ssh-key", BOB), ("remove-ssh-key", ANN)):
        told, done = tool(verb, "--user=ann", f"--value={key}")
        assert not done
        assert "secret logins-shared does not have an owner reference pointing to VM logins" in told
        told, done = tool(verb, "--user=ann", f"--value={key}", "--force")
        assert done, told
    assert list(content(admin, "logins-shared").values()) == [BOB]
    told, done = tool("add-ssh-key", "--user=eve", f"--value={BOB}", "--update-secret")
    assert (done, "no secrets specified for user: eve" in told) == (False, True)
    told, done = tool("remove-ssh-key", "--user=eve", f"--value={BOB}")
    assert (told.strip(), done) == ("No secrets associated with user eve", True)
    told, done = tool("remove-ssh-key", "--user=ann", f"--value={BOB}", "--secret=other")
    assert (done, "secret other is not associated with user ann" in told) == (False, True)


def test_a_password_is_set(tool: Tool, admin: KubeClient, vm: JsonObject) -> None:
    told, done = tool("set-password", "--user=ann", "--password=first")
    assert (done, "no secrets assigned to UserPassword AccessCredentials" in told) == (False, True)
    give(admin, "logins-words", vm, PASSWORDS)
    told, done = tool("set-password", "--user=ann", "--password=first")
    assert (told.strip(), done) == ('Successfully set password in secret "logins-words"', True)
    assert tool("set-password", "-u", "bob", "-p", "second")[1]
    assert content(admin, "logins-words") == {"ann": "first", "bob": "second"}


@pytest.fixture
def cli(server: ApiServerUnderTest) -> KvedgeCli:
    return KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))


def test_a_password_of_a_file_is_on_no_command_line(
    cli: KvedgeCli, admin: KubeClient, vm: JsonObject, tmp_path: Path
) -> None:
    give(admin, "logins-words", vm, PASSWORDS, ann="first")
    (tmp_path / "word").write_text("second\n")
    cli.run("credentials", "set-password", "logins", "-u", "ann", "--password-file", str(tmp_path / "word"))
    assert content(admin, "logins-words") == {"ann": "second"}


def test_what_makes_no_sense_is_told_before_anything_is_written(
    cli: KvedgeCli, admin: KubeClient, vm: JsonObject, tmp_path: Path
) -> None:
    (tmp_path / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    private = ("--file", str(tmp_path / "id"))
    both = ("--create-secret", "--update-secret", "--value", ANN)
    for words in ((), private, (*private, "--value", ANN), both):
        assert cli.try_run("credentials", "add-ssh-key", "logins", "-u", "ann", *words).returncode == Exit.USAGE
    for words in ((), ("-p", " "), ("-p", "word", "--password-file", str(tmp_path / "id"))):
        assert cli.try_run("credentials", "set-password", "logins", "-u", "ann", *words).returncode == Exit.USAGE
    done = cli.try_run("credentials", "add-ssh-key", "login", "-u", "ann", "--value", ANN)
    assert (done.returncode, "logins" in done.stderr) == (Exit.NOT_FOUND, True)
    assert credentials(admin) == []


def test_a_secret_that_no_vm_came_to_name_is_deleted_again(cli: KvedgeCli, admin: KubeClient, vm: JsonObject) -> None:
    """As the VM would have a user without a name."""
    done = cli.try_run("credentials", "add-ssh-key", "logins", "-u", "a\tb", "--value", ANN)
    assert (done.returncode, "must be names of users in the guest" in done.stderr) == (Exit.FAILED, True)
    names = [item["metadata"]["name"] for item in admin.request("GET", SECRETS)["items"]]
    assert not [name for name in names if name.startswith("logins-")]
