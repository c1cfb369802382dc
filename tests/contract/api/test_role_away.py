"""What works while the api role is away: deletes and roles' writes do, what would have to be judged does not."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.api.registration.registration_manifest import Endpoint
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.role_users import API_GROUP, API_USER, HANDLER_GROUP, handler_user
from kvedge.runtime.services import ServiceError
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
MERGE = "application/merge-patch+json"


@pytest.fixture
def away(api_role: ApiRole, admin: KubeClient, controller: KubeClient) -> Iterator[Endpoint]:
    """A VM and its VMI from before, and no api role; where it was."""
    vm = vm_of(small_vmi(), runStrategy="Manual")
    admin.request("POST", VMS, vm)
    admin.request("POST", VMIS, small_vmi())
    merge(controller, VMIS, {"status": {"phase": "Scheduled", "nodeName": "node1"}})
    endpoint = api_role.endpoint
    api_role.stop()
    yield endpoint
    api_role.start()
    wait_until(lambda: judges_again(admin), "the webhooks are called again")


def judges_again(admin: KubeClient) -> bool:
    try:
        admin.request("POST", VMS, vm_of(small_vmi(), runStrategy="Halted"), {"dryRun": "All"})
    except KubeError:
        return False
    return True


def merge(client: KubeClient, collection: str, body: object) -> None:
    client.request("PATCH", f"{collection}/small", body, None, MERGE)


def gone(client: KubeClient, collection: str) -> bool:
    try:
        client.request("GET", f"{collection}/small")
    except NotFound:
        return True
    return False


def test_deletes_and_status_do_not_depend_on_it(
    away: Endpoint, server: ApiServerUnderTest, admin: KubeClient, controller: KubeClient
) -> None:
    handler = KubeClient.from_kubeconfig(server.write_kubeconfig(handler_user("node1"), [HANDLER_GROUP]))
    # The handler reports, the controller reports, a user deletes, the controller lets go: the life of a VM's end.
    merge(handler, VMIS, {"status": {"phase": "Running"}})
    controller.request("PATCH", f"{VMS}/small/status", {"status": {"ready": True}}, None, MERGE)
    admin.request("DELETE", f"{VMS}/small")
    admin.request("DELETE", f"{VMIS}/small")
    merge(handler, VMIS, {"status": {"phase": "Succeeded"}})
    merge(controller, VMIS, {"metadata": {"finalizers": None}})
    merge(controller, VMS, {"metadata": {"finalizers": None}})
    assert gone(admin, VMIS)
    assert gone(admin, VMS)
    # What would have to be judged is refused meanwhile, not let by.
    with pytest.raises(KubeError, match="failed calling webhook"):
        admin.request("POST", VMS, vm_of(small_vmi(), runStrategy="Manual"))
    with pytest.raises(KubeError, match="failed calling webhook"):
        controller.request("POST", VMIS, small_vmi())


def test_a_user_can_clear_away_what_nobody_lets_go_of(away: Endpoint, kubectl: Kubectl, admin: KubeClient) -> None:
    for kind in ("vmi", "vm"):
        kubectl.run("delete", kind, "small", "--wait=false")
        if kind == "vmi":
            # Roles act on its status until it is gone, so that a user's word about it is judged first.
            with pytest.raises(KubeError, match="failed calling webhook"):
                merge(admin, VMIS, {"status": {"phase": "Failed"}})
        kubectl.run("patch", kind, "small", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    assert gone(admin, VMIS)
    assert gone(admin, VMS)


def test_a_role_that_hangs_holds_up_neither_reports_nor_deletes(
    away: Endpoint, server: ApiServerUnderTest, admin: KubeClient, controller: KubeClient
) -> None:
    handler = KubeClient.from_kubeconfig(server.write_kubeconfig(handler_user("node1"), [HANDLER_GROUP]))
    # It takes connections and never says a word.
    with socket.create_server((away.address, away.port)):
        merge(handler, VMIS, {"status": {"phase": "Running"}})
        assert admin.request("GET", f"{VMIS}/small")["status"]["phase"] == "Running"
        controller.request("PATCH", f"{VMS}/small/status", {"status": {"ready": True}}, None, MERGE)
        for collection in (VMIS, VMS):
            admin.request("DELETE", f"{collection}/small")
            merge(controller, collection, {"metadata": {"finalizers": None}})
            assert gone(admin, collection)
    handler.close()


def test_a_role_that_comes_back_on_another_port_is_found(api_role: ApiRole, admin: KubeClient) -> None:
    before = api_role.endpoint.port
    api_role.stop()
    api_role.start()
    assert api_role.endpoint.port != before
    wait_until(lambda: judges_again(admin), "the webhooks are called at the new port")


def test_a_loopback_address_is_refused_with_a_remedy_where_the_server_needs_another(
    server: ApiServerUnderTest, api_role: ApiRole
) -> None:
    if server.name != "real":
        pytest.skip("one box reaches everything over its loopback")
    kubeconfig = server.write_kubeconfig(API_USER, [API_GROUP])
    with pytest.raises(ServiceError, match="let api-address name an address of this node"):
        ApiRole(kubeconfig, "127.0.0.1:0").start()
    api_role.refresh()
