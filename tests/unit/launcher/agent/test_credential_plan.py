"""Which keys and passwords come into a guest, and that nobody else's go."""

from __future__ import annotations

import pytest

from kvedge.launcher.agent.credential_plan import MARK, CredentialUnusable, plan_credentials, plan_keys
from kvedge.resources.access_credentials import AgentCredential

ANN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAnn ann@desk"
BOB = "ssh-rsa AAAAB3NzaC1yc2EAAAABob bob@desk"
SECRETS = {
    "keys": {"ann": f"# of Ann\n{ANN}\n\n".encode(), "bob": BOB.encode()},
    "more": {"key": ANN.encode()},
    "words": {"admin": b" secret \n", "nobody": b"\n"},
    "odd": {"token": b"s3cr3t"},
    "bytes": {"admin": b"\xff"},
}


def test_a_user_has_the_keys_of_all_secrets_that_name_him_each_once_with_our_mark() -> None:
    credentials = [AgentCredential("keys", ("ann", "root")), AgentCredential("more", ("ann",))]
    wanted = plan_credentials(credentials, SECRETS.__getitem__)
    assert wanted.keys == {"ann": (f"{ANN} {MARK}", f"{BOB} {MARK}"), "root": (f"{ANN} {MARK}", f"{BOB} {MARK}")}
    assert wanted.passwords == {}


def test_passwords_go_by_the_names_of_their_files_and_empty_ones_are_none() -> None:
    assert plan_credentials([AgentCredential("words", None)], SECRETS.__getitem__).passwords == {"admin": "secret"}


@pytest.mark.parametrize(
    ("credential", "words"),
    [
        (AgentCredential("odd", ("ann",)), "Secret odd: token holds something else than SSH public keys"),
        (AgentCredential("bytes", None), "Secret bytes: the password of user admin is no text"),
    ],
)
def test_a_secret_that_holds_something_else_is_named_and_not_quoted(credential: AgentCredential, words: str) -> None:
    with pytest.raises(CredentialUnusable) as caught:
        plan_credentials([credential], SECRETS.__getitem__)
    assert str(caught.value) == words


def test_the_guest_gets_what_it_lacks_and_loses_what_left_its_secret_and_others_keys_stay() -> None:
    old = f"ssh-rsa AAAAB3NzaC1yc2EAAAAOld x {MARK}"
    change = plan_keys({"keys": [BOB, old, "  ", f"{ANN} {MARK} "]}, [f"{ANN} {MARK}", f"{BOB} {MARK}"])
    assert change == ([f"{BOB} {MARK}"], [old])


@pytest.mark.parametrize("answer", [None, 7, [], {"keys": 7}, {"keys": [7, None, "x" * 40000]}])
def test_an_answer_that_makes_no_sense_is_an_empty_file(answer: object) -> None:
    assert plan_keys(answer, [f"{ANN} {MARK}"]) == ([f"{ANN} {MARK}"], [])
