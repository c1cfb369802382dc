"""The names under which kvedge's roles speak to an API server, and what may be concluded from them.

Used where the roles' credentials are issued, and by admission. Touches nothing. A role has a client certificate
(organization = its group, a handler's common name with its node) or, as a Pod, a service account. A handler on a node
of a cluster speaks as that node, with the kubelet's own credentials, which the cluster hands out and renews. Admission
believes the server's word on who calls, never a field of the object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from kvedge.resources.names import SYSTEM_NAMESPACE

CONTROLLER_USER: Final = "kvedge:controller"
API_USER: Final = "kvedge:api"
CONTROLLER_GROUP: Final = "kvedge:controllers"
API_GROUP: Final = "kvedge:apis"
HANDLER_GROUP: Final = "kvedge:handlers"
HANDLER_PREFIX: Final = "kvedge:handler:"
# Whoever may do all, whatever the rules say.
MASTERS: Final = "system:masters"
# Nodes, as the API server's Node authorizer knows them.
NODES_GROUP: Final = "system:nodes"
NODE_PREFIX: Final = "system:node:"
# Of the users that service accounts are: this, the namespace, and the account.
ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_OUR_ACCOUNTS: Final = f"{ACCOUNT_PREFIX}{SYSTEM_NAMESPACE}:"
CONTROLLER_ACCOUNT: Final = f"{_OUR_ACCOUNTS}kvedge-controller"
API_ACCOUNT: Final = f"{_OUR_ACCOUNTS}kvedge-api"
HANDLER_ACCOUNT: Final = f"{_OUR_ACCOUNTS}kvedge-handler"
# A bound token of a service account carries the node of its Pod here.
NODE_EXTRA: Final = "authentication.kubernetes.io/node-name"


def handler_user(node: str) -> str:
    """The user name of the handler on a node."""
    return f"{HANDLER_PREFIX}{node}"


class UserInfo(Struct, frozen=True):
    """The caller, as the API server has established it."""

    username: str = ""
    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def is_controller(self) -> bool:
        """Whether this is the controller."""
        return self.username == CONTROLLER_ACCOUNT or CONTROLLER_GROUP in self.groups

    @property
    def is_api(self) -> bool:
        """Whether this is the api role, which writes on behalf of the caller of a subresource."""
        return self.username == API_ACCOUNT or API_GROUP in self.groups

    @property
    def is_handler(self) -> bool:
        """Whether this is the handler of some node, or the node itself, as which it may speak."""
        return self.username == HANDLER_ACCOUNT or HANDLER_GROUP in self.groups or self._is_node

    @property
    def is_master(self) -> bool:
        """Whether this is somebody who may do all: a box's administrator, with whose certificate it is recovered."""
        return MASTERS in self.groups

    @property
    def is_role(self) -> bool:
        """Whether this is any of kvedge's roles."""
        return self.is_controller or self.is_api or self.is_handler

    @property
    def node(self) -> str:
        """The node whose handler this is; empty for others, and for a handler that cannot say."""
        if HANDLER_GROUP in self.groups and self.username.startswith(HANDLER_PREFIX):
            return self.username.removeprefix(HANDLER_PREFIX)
        if self._is_node:
            return self.username.removeprefix(NODE_PREFIX)
        if self.username == HANDLER_ACCOUNT:
            return next(iter(self.extra.get(NODE_EXTRA, ())), "")
        return ""

    @property
    def _is_node(self) -> bool:
        return NODES_GROUP in self.groups and self.username.startswith(NODE_PREFIX)
