"""A kube-apiserver without ValidatingAdmissionPolicy: the api role does not register with it, and says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.appliance.host.patient_start import PatientStart
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.role_users import API_GROUP, API_USER
from kvedge.runtime.services import NotYetError, ServiceError
from tests.support.either_server import lone_server
from tests.support.kube_apiserver import RealApiServer, reachable_address
from tests.support.role_rights import give_roles_their_rights

pytestmark = pytest.mark.contract
_POLICIES = "admissionregistration.k8s.io/v1/validatingadmissionpolic"
_WITHOUT = (
    f"--runtime-config={_POLICIES}ies=false,{_POLICIES}ybindings=false",
    "--disable-admission-plugins=ValidatingAdmissionPolicy",
)
_WRITTEN = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/discovery.k8s.io/v1/namespaces/kvedge-system/endpointslices",
)


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[tuple[RealApiServer, KubeClient]]:
    with lone_server(tmp_path, *_WITHOUT) as both:
        yield both


def test_the_role_does_not_register_and_names_what_is_missing(lone: tuple[RealApiServer, KubeClient]) -> None:
    server, admin = lone
    give_roles_their_rights(admin)
    kubeconfig, listen = server.write_kubeconfig(API_USER, [API_GROUP]), f"{reachable_address()}:0"
    words = r"has no ValidatingAdmissionPolicy in admissionregistration\.k8s\.io/v1.*needs Kubernetes 1\.30 or newer"
    with pytest.raises(ServiceError, match=words):
        ApiRole(kubeconfig, listen).start()
    # In a unit of systemd it waits, and says for what, until somebody has mended that.
    with pytest.raises(NotYetError, match=words):
        PatientStart("api", lambda: ApiRole(kubeconfig, listen), (KubeError,)).start()
    assert [item for path in _WRITTEN for item in admin.request("GET", path)["items"]] == []
