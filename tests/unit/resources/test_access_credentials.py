"""Which Secrets of a VMI's access credentials go which way."""

from __future__ import annotations

from kvedge.resources.access_credentials import (
    AgentCredential,
    agent_credentials,
    credential_secrets,
    key_secrets,
    read_public_keys,
)
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAnn ann@desk"


def credential(kind: str, secret: str, way: JsonObject) -> JsonObject:
    return {kind: {"source": {"secret": {"secretName": secret}}, "propagationMethod": way}}


CREDENTIALS = [
    credential("sshPublicKey", "seed", {"noCloud": {}}),
    credential("sshPublicKey", "keys", {"qemuGuestAgent": {"users": ["ann", "bob"]}}),
    credential("userPassword", "words", {"qemuGuestAgent": {}}),
    credential("userPassword", "seed", {"qemuGuestAgent": {}}),
]


def test_each_secret_goes_its_way_and_the_launchers_pod_has_each_once() -> None:
    document = small_vmi()
    document["spec"]["accessCredentials"] = CREDENTIALS
    vmi = decode(VirtualMachineInstance, document)
    assert key_secrets(vmi, "noCloud", "configDrive") == ["seed"]
    assert agent_credentials(vmi.spec.access_credentials) == [
        AgentCredential("keys", ("ann", "bob")),
        AgentCredential("words", None),
        AgentCredential("seed", None),
    ]
    assert credential_secrets(vmi) == ["seed", "keys", "words"]


def test_lines_of_keys_are_read_and_anything_else_is_told_apart() -> None:
    assert read_public_keys(f"# Ann\n\n  {KEY}  \n") == [KEY]
    assert read_public_keys("") == []
    assert read_public_keys(f"{KEY}\npassword") is None
