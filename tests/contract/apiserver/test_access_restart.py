"""What outlives a restart of the embedded API: all rights, and what an administrator has taken stays taken."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.apiserver.conftest import Server, embedded
from tests.contract.apiserver.test_account_tokens import accounts, ask, use
from tests.contract.apiserver.test_rbac import RBAC, asked, bindings, give, may, role_ref, rule, subject
from tests.support.api_client import eventually
from tests.support.widgets import config_maps

pytestmark = pytest.mark.contract
running = contextmanager(embedded)
CAN_VIEW = asked("get", "subresources.kubevirt.io", "virtualmachineinstances/guestosinfo", "default", "v")


def bind(server: Server, user: str, role: str) -> None:
    body = {"metadata": {"name": user}, "roleRef": role_ref("ClusterRole", role), "subjects": [subject("User", user)]}
    server.admin.made(bindings("default"), body)


def test_rights_tokens_and_certificates_outlive_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        bind(server, "ann", "kubevirt.io:view")
        server.admin.made(accounts("default"), {"metadata": {"name": "robot"}})
        give(
            server.admin, "default", [rule("list", "core", "configmaps")], subject("ServiceAccount", "robot", "default")
        )
        token = ask(server.admin, "default").json["status"]["token"]
        assert may(server.admin, "ann", [], CAN_VIEW)
    with running(tmp_path) as server:
        # From the first request on: nothing has to happen before stored rights count.
        assert may(server.admin, "ann", [], CAN_VIEW)
        assert use(server, token, config_maps("default")).status == 200
        eventually(lambda: may(server.admin, "ann", [], CAN_VIEW))
        roles = server.admin.get(f"{RBAC}/clusterroles/view").json["rules"]
        assert len(roles) == len({str(each) for each in roles})


def test_what_an_administrator_has_said_of_a_default_role_stays(tmp_path: Path) -> None:
    path = f"{RBAC}/clusterroles/kubevirt.io:view"
    with running(tmp_path) as server:
        admin = server.admin
        bind(server, "bob", "kubevirt.io:view")
        # Without the annotation it is the administrator's own.
        taken = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []}
        assert admin.patch(path, taken).status == 200
        assert admin.delete(f"{RBAC}/clusterroles/kubevirt.io:edit").status == 200
        eventually(lambda: not may(admin, "bob", [], CAN_VIEW))
    with running(tmp_path) as server:
        assert not may(server.admin, "bob", [], CAN_VIEW)
        assert server.admin.get(path).json["rules"] == []
        # One that is not there is made again, as Kubernetes does.
        assert server.admin.get(f"{RBAC}/clusterroles/kubevirt.io:edit").status == 200
