"""Tokens of service accounts in Secrets: written where one is asked for, good until it or its account is gone.

Kubernetes has this of its controller manager, which the real server of these tests runs without.
"""

from __future__ import annotations

import base64

import pytest

from kvedge.resources.codec import JsonObject
from tests.contract.apiserver.conftest import Server
from tests.contract.apiserver.test_account_tokens import accounts, use
from tests.contract.apiserver.test_rbac import give, rule, subject
from tests.support.api_client import eventually
from tests.support.widgets import config_maps

pytestmark = pytest.mark.contract
NAME = "kubernetes.io/service-account.name"
TYPE = "kubernetes.io/service-account-token"


@pytest.fixture(autouse=True)
def only_embedded(api_server: Server) -> None:
    if api_server.is_real:
        pytest.skip("the real server of these tests has no controller manager, which writes these Secrets")


@pytest.fixture
def account(api_server: Server, namespace: str) -> JsonObject:
    """One that may list ConfigMaps."""
    made = api_server.admin.made(accounts(namespace), {"metadata": {"name": "robot"}})
    give(
        api_server.admin,
        namespace,
        [rule("list", "core", "configmaps")],
        subject("ServiceAccount", "robot", namespace),
    )
    return made


def secrets(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"


def asking(name: str = "robot-token", account: str = "robot") -> JsonObject:
    return {"metadata": {"name": name, "annotations": {NAME: account}}, "type": TYPE}


def filled(server: Server, namespace: str, name: str = "robot-token") -> JsonObject:
    path = f"{secrets(namespace)}/{name}"
    eventually(lambda: "token" in (server.admin.get(path).json.get("data") or {}))
    return server.admin.get(path).json


def token_in(secret: JsonObject) -> str:
    return base64.b64decode(secret["data"]["token"]).decode()


def test_a_secret_gets_its_accounts_token(api_server: Server, namespace: str, account: JsonObject) -> None:
    api_server.admin.made(secrets(namespace), asking())
    secret = filled(api_server, namespace)
    assert base64.b64decode(secret["data"]["namespace"]).decode() == namespace
    assert base64.b64decode(secret["data"]["ca.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")
    assert secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]
    eventually(lambda: use(api_server, token_in(secret), config_maps(namespace)).status == 200)
    assert use(api_server, token_in(secret), secrets(namespace)).status == 403


def test_its_token_ends_with_the_secret(api_server: Server, namespace: str, account: JsonObject) -> None:
    api_server.admin.made(secrets(namespace), asking())
    token = token_in(filled(api_server, namespace))
    eventually(lambda: use(api_server, token, config_maps(namespace)).status == 200)
    assert api_server.admin.delete(f"{secrets(namespace)}/robot-token").status == 200
    eventually(lambda: use(api_server, token, config_maps(namespace)).status == 401)
    # Another Secret of its name brings it back to nobody.
    api_server.admin.made(secrets(namespace), asking())
    assert token_in(filled(api_server, namespace)) != token
    assert use(api_server, token, config_maps(namespace)).status == 401


def test_secret_and_token_go_with_the_account(api_server: Server, namespace: str, account: JsonObject) -> None:
    api_server.admin.made(secrets(namespace), asking())
    token = token_in(filled(api_server, namespace))
    assert api_server.admin.delete(f"{accounts(namespace)}/robot").status == 200
    eventually(lambda: use(api_server, token, config_maps(namespace)).status == 401)
    eventually(lambda: api_server.admin.get(f"{secrets(namespace)}/robot-token").status == 404)


def test_a_token_that_is_taken_out_is_written_anew(api_server: Server, namespace: str, account: JsonObject) -> None:
    api_server.admin.made(secrets(namespace), asking())
    before = token_in(filled(api_server, namespace))
    path = f"{secrets(namespace)}/robot-token"
    assert api_server.admin.patch(path, {"data": {"token": None}}).status == 200
    assert token_in(filled(api_server, namespace)) != before


def test_a_secret_of_no_account_goes(api_server: Server, namespace: str) -> None:
    api_server.admin.made(secrets(namespace), asking(account="nobody"))
    eventually(lambda: api_server.admin.get(f"{secrets(namespace)}/robot-token").status == 404)


def test_a_secret_that_names_no_account_is_refused(api_server: Server, namespace: str) -> None:
    answer = api_server.admin.post(secrets(namespace), {"metadata": {"name": "t"}, "type": TYPE})
    assert answer.status == 422
    assert f"metadata.annotations[{NAME}]: Required value" in answer.message
