"""Who calls: kvedge's roles are known by what the API server says of them."""

from __future__ import annotations

import pytest

from kvedge.resources.role_users import HANDLER_ACCOUNT, HANDLER_GROUP, NODE_EXTRA, NODES_GROUP, UserInfo


@pytest.mark.parametrize(
    "user",
    [
        UserInfo("kvedge:handler:n1", [HANDLER_GROUP]),
        UserInfo("system:node:n1", ["system:authenticated", NODES_GROUP]),
        UserInfo(HANDLER_ACCOUNT, ["system:serviceaccounts"], extra={NODE_EXTRA: ["n1"]}),
    ],
    ids=["its own name", "its node", "its Pod's account"],
)
def test_a_handler_speaks_for_its_node(user: UserInfo) -> None:
    assert user.is_handler
    assert user.is_role
    assert user.node == "n1"
    assert not user.is_controller
    assert not user.is_api


@pytest.mark.parametrize(
    "user",
    [
        UserInfo("system:node:n1", ["system:authenticated"]),
        UserInfo("n1", [NODES_GROUP]),
        UserInfo("kvedge:handler:n1", ["system:authenticated"]),
        UserInfo("system:serviceaccount:default:kvedge-handler", extra={NODE_EXTRA: ["n1"]}),
    ],
    ids=["a name without the group", "the group without a name", "our name without our group", "another account"],
)
def test_whoever_only_looks_like_one_is_none(user: UserInfo) -> None:
    assert not user.is_handler
    assert user.node == ""
