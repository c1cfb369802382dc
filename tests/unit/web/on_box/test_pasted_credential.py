# Tests: kvedge/web/on_box/pasted_credential.py
"""Of what is pasted a token is taken, and nothing that leads elsewhere."""

from __future__ import annotations

import pytest
import yaml

from kvedge.resources.codec import JsonObject
from kvedge.web.on_box.pasted_credential import Credential, read_credential
from kvedge.web.sign_in import SignInRefused

TOKEN = "eyJhbGciOi.J9eyJpc3M.i0iJ-_x"


def kubeconfig(user: JsonObject, **context: str) -> str:
    """With one user, for a server elsewhere."""
    return yaml.safe_dump(
        {
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "elsewhere", "cluster": {"server": "https://elsewhere:6443"}}],
            "users": [{"name": "other", "user": {"token": "of-another-user"}}, {"name": "ann", "user": user}],
            "contexts": [{"name": "here", "context": {"cluster": "elsewhere", "user": "ann", **context}}],
        }
    )


@pytest.mark.parametrize("text", [TOKEN, f"\n  {TOKEN}\n"], ids=["alone", "with what a copy takes along"])
def test_a_token_is_taken(text: str) -> None:
    assert read_credential(text) == Credential(TOKEN)


def test_a_kubeconfigs_token_and_namespace_are_taken_and_not_its_server() -> None:
    assert read_credential(kubeconfig({"token": TOKEN}, namespace="shop")) == Credential(TOKEN, "shop")


@pytest.mark.parametrize("namespace", ["../kube-system", "a b", "", "-x"])
def test_a_namespace_that_there_cannot_be_is_left_out(namespace: str) -> None:
    assert read_credential(kubeconfig({"token": TOKEN}, namespace=namespace)) == Credential(TOKEN)


@pytest.mark.parametrize("user", [{"client-key-data": "x"}, {"client-certificate": "/etc/ann.crt"}])
def test_a_private_key_does_not_belong_into_a_page(user: JsonObject) -> None:
    with pytest.raises(SignInRefused, match=r"whose key does not belong into a page.*kubectl create token"):
        read_credential(kubeconfig(user))


@pytest.mark.parametrize(
    "text",
    [
        kubeconfig({"exec": {"command": "/bin/sh"}}),
        kubeconfig({"tokenFile": "/etc/shadow"}),
        kubeconfig({"token": "with a blank in it"}),
        kubeconfig({"token": f"{TOKEN}\nHost: elsewhere"}),
        kubeconfig({"token": ["x"]}),
        "current-context: here",
        "contexts: [1, null, {name: here}]\ncurrent-context: here\nusers: 5",
        "current-context: {a: 1}",
    ],
    ids=["a program", "a file", "a blank", "another header", "a list", "no users", "nonsense", "no name"],
)
def test_a_kubeconfig_without_a_token_is_refused(text: str) -> None:
    with pytest.raises(SignInRefused, match=r"the current context of this kubeconfig has no token: paste a token"):
        read_credential(text)


@pytest.mark.parametrize("text", ["", "short", "{", "a: &a [*a]", "x" * 9000, "x" * 300_000, "\x00", "é" * 20])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(SignInRefused, match="neither a token nor a kubeconfig"):
        read_credential(text)
