"""A cluster that has got half of what kvedge needs: roles wait, say for what, and go on when it is mended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.appliance.cluster.cluster_objects import apply_documents, control_plane_version
from kvedge.appliance.host.patient_start import PatientStart
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.role_users import API_GROUP, API_USER
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.services import NotYetError
from tests.support.edits import edit
from tests.support.either_server import lone_server
from tests.support.kube_apiserver import RealApiServer, reachable_address
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
_RIGHTS = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kvedge:api"
_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/virtualmachineinstances.kubevirt.io"


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealApiServer, KubeClient]]:
    with lone_server(tmp_path_factory.mktemp("server")) as both:
        yield both


@pytest.fixture(scope="module")
def server(lone: tuple[RealApiServer, KubeClient]) -> RealApiServer:
    return lone[0]


@pytest.fixture(scope="module")
def admin(lone: tuple[RealApiServer, KubeClient]) -> KubeClient:
    return lone[1]


def test_a_role_waits_for_rights_and_then_for_the_rest_of_them_and_works_when_they_are_there(
    server: RealApiServer, admin: KubeClient
) -> None:
    kubeconfig, listen = server.write_kubeconfig(API_USER, [API_GROUP]), f"{reachable_address()}:0"
    role = PatientStart("api", lambda: ApiRole(kubeconfig, listen), (KubeError,))
    assert control_plane_version(admin) == ""
    with pytest.raises(NotYetError, match='secrets "kvedge-ca" is forbidden: User "kvedge:api" cannot get'):
        role.start()
    # As a manifest does that was cut off in the middle.
    apply_documents(admin)
    edit(admin, _RIGHTS, lambda there: there.update(rules=there["rules"][:1]))
    with pytest.raises(NotYetError, match="forbidden"):
        role.start()
    # As `kvedge install` does again.
    apply_documents(admin)
    role.start()
    try:
        assert role.failure() is None
        comes_back_by_itself(admin)
    finally:
        role.stop()


def comes_back_by_itself(admin: KubeClient) -> None:
    """A kind that somebody takes away is named by those who follow it, and the api role writes it anew."""
    uid = admin.request("GET", _CRD)["metadata"]["uid"]
    informer = Informer(admin, VirtualMachineInstance)
    admin.request("DELETE", _CRD)
    try:
        informer.start()
        wait_until(lambda: _uid(admin) not in ("", uid), "the kind is there again", 60)
        wait_until(lambda: informer.wait_synced(0) and informer.trouble == "", "it is followed", 60)
    finally:
        informer.stop()


def _uid(admin: KubeClient) -> str:
    try:
        return str(admin.request("GET", _CRD)["metadata"]["uid"])
    except NotFound:
        return ""
