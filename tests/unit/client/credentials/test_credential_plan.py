"""Which Secret a login goes to, and what becomes of its content."""

from __future__ import annotations

import base64

import pytest

from kvedge.client.credentials.credential_plan import (
    check_owned,
    check_password_user,
    choose_secret,
    credentials_of,
    encode_text,
    key_credential,
    missing_keys,
    new_secret,
    password_secrets,
    read_keys,
    secrets_of_user,
    without_keys,
)
from kvedge.client.errors import RefusedError, UsageError
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.core import Secret
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import small_vmi, vm_of

ANN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAnn ann@desk"
BOB = "ssh-rsa AAAAB3NzaC1yc2EAAAABob== bob"


def vm(*credentials: JsonObject, name: str = "web") -> VirtualMachine:
    document = vm_of(small_vmi())
    document["metadata"] |= {"name": name, "namespace": "default", "uid": "u-1"}
    document["spec"]["template"]["spec"]["accessCredentials"] = list(credentials)
    return decode(VirtualMachine, document)


def password(secret: str) -> JsonObject:
    return {"userPassword": {"source": {"secret": {"secretName": secret}}, "propagationMethod": {"qemuGuestAgent": {}}}}


def by_cloud_init(secret: str) -> JsonObject:
    return {"sshPublicKey": {"source": {"secret": {"secretName": secret}}, "propagationMethod": {"noCloud": {}}}}


def data(**entries: str) -> dict[str, str]:
    return {name: encode_text(text) for name, text in entries.items()}


def test_secrets_are_found_by_user_and_kind() -> None:
    found = vm(
        key_credential("a", "ann"),
        by_cloud_init("b"),
        password("c"),
        key_credential("d", "bob"),
        key_credential("e", "ann"),
        key_credential("a", "ann"),
    )
    assert len(credentials_of(found)) == 6
    assert secrets_of_user(found, "ann") == ["a", "e"]
    assert secrets_of_user(found, "eve") == []
    assert password_secrets(found) == ["c"]


def test_one_of_several_secrets_has_to_be_named() -> None:
    assert choose_secret("", ["a"]) == "a"
    assert choose_secret("b", ["a", "b"]) == "b"
    with pytest.raises(RefusedError, match="use option --secret to specify which secret to modify: a, b"):
        choose_secret("", ["a", "b"])
    with pytest.raises(RefusedError, match="secret c was not assigned"):
        choose_secret("c", ["a", "b"])


@pytest.mark.parametrize(
    "text", ["", "# a comment\n", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n", f"{ANN}\nsecret\n"]
)
def test_what_is_no_public_key_goes_into_no_secret(text: str) -> None:
    with pytest.raises(UsageError, match="no SSH public key"):
        read_keys(text)


def test_a_file_may_have_several_keys() -> None:
    assert read_keys(f"# keys\n{ANN}\n\n{BOB}\n") == [ANN, BOB]


def test_a_key_is_the_same_whatever_its_comment_or_options() -> None:
    present = data(one=f'from="10.0.0.1" {ANN.rpartition(" ")[0]} other\n')
    assert missing_keys(present, [ANN, BOB]) == [BOB]


def test_a_key_that_is_a_beginning_of_another_is_another() -> None:
    assert missing_keys(data(one=f"{ANN.split()[0]} {ANN.split()[1]}more ann"), [ANN]) == [ANN]


def test_removed_keys_leave_all_else_as_it_is() -> None:
    present = data(one=f"# mine\n{ANN}\n{BOB}\n", two=f"{ANN}\n", three=f"{BOB}\n") | {"odd": "no base64"}
    changed = without_keys(present, [ANN])
    assert changed == {"one": encode_text(f"# mine\n{BOB}\n"), "two": None}
    assert without_keys(present, ["ssh-ed25519 AAAAother"]) == {}


def test_a_new_secret_is_the_vms_own_and_its_name_fits_a_pods_volume() -> None:
    made = new_secret(vm(name="w" * 63), "abcde", [ANN, BOB])
    assert base64.b64decode(made.data["ssh-key-abcde"]).decode() == f"{ANN}\n{BOB}\n"
    assert made.metadata.name.endswith("w-ssh-key-abcde")
    assert len(f"{made.metadata.name}-access-cred") == 63
    check_owned(made, vm(name="w" * 63))
    with pytest.raises(RefusedError, match="does not have an owner reference pointing to VM web"):
        check_owned(made, vm())
    with pytest.raises(RefusedError, match="--force changes it all the same"):
        check_owned(Secret(), vm())


def test_a_password_is_for_a_user_who_can_stand_in_a_secret() -> None:
    check_password_user("svc.ann_1")
    with pytest.raises(UsageError, match=r"user 'CORP\\\\ann'"):
        check_password_user("CORP\\ann")
