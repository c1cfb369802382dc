"""Certificates are renewed, and their authority succeeded, while the role serves: years go by on its clock."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Iterator
from datetime import timedelta

import pytest
from cryptography import x509

from kvedge.api.api_service import ApiRole
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.runtime.tls.authority_plan import OVERLAP, SUCCEED_BEFORE
from kvedge.runtime.tls.certificates import ends_at
from tests.contract.api.conftest import EchoNode, remove
from tests.support.builders import small_vmi, vm_of
from tests.support.clocks import TurnedClock
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
VMI = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/small"
RESET = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/small/reset"
MERGE = "application/merge-patch+json"
VERSION = "/apis/subresources.kubevirt.io/v1/version"
REGISTERED = (
    "/apis/apiregistration.k8s.io/v1/apiservices/v1.subresources.kubevirt.io",
    "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha3.subresources.kubevirt.io",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kvedge",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kvedge",
)


def until_succession(clock: TurnedClock, admin: KubeClient) -> timedelta:
    """How long until the authority needs a successor."""
    end = ends_at(existing_authority(admin).signing.certificate_pem)
    return end - SUCCEED_BEFORE - clock.now() + timedelta(hours=2)


def works(admin: KubeClient) -> bool:
    """Whether the API server still believes the role, as webhook and as aggregated API."""
    try:
        admin.request("POST", VMS, vm_of(small_vmi()), {"dryRun": "All"})
        admin.request("GET", VERSION)
    except KubeError:
        return False
    return True


def published(admin: KubeClient) -> set[bytes]:
    """The different bundles that are registered, in PEM."""
    found = set()
    for path in REGISTERED:
        document = admin.request("GET", path)
        specs = [document["spec"]] if "spec" in document else [w["clientConfig"] for w in document["webhooks"]]
        found |= {base64.b64decode(spec["caBundle"]) for spec in specs}
    return found


def issuer(role: ApiRole, bundle: bytes) -> x509.Name:
    """Who has signed what the role shows to a client that knows only this bundle; the connection is a real one."""
    context = ssl.create_default_context(cadata=bundle.decode())
    connection = http.client.HTTPSConnection(role.endpoint.address, role.endpoint.port, context=context, timeout=20)
    try:
        connection.request("GET", "/healthz")
        assert connection.sock is not None
        shown = connection.sock.getpeercert(binary_form=True)
        assert connection.getresponse().status == 200
    finally:
        connection.close()
    return x509.load_der_x509_certificate(shown).issuer


def subject(pem: bytes) -> x509.Name:
    return x509.load_pem_x509_certificate(pem).subject


def test_a_leaf_is_renewed_while_it_serves(role_clock: TurnedClock, api_role: ApiRole, admin: KubeClient) -> None:
    bundle = existing_authority(admin).bundle

    def serial() -> int:
        context = ssl.create_default_context(cadata=bundle.decode())
        connection = http.client.HTTPSConnection(api_role.endpoint.address, api_role.endpoint.port, context=context)
        connection.connect()
        assert connection.sock is not None
        shown = connection.sock.getpeercert(binary_form=True)
        connection.close()
        return x509.load_der_x509_certificate(shown).serial_number

    before = serial()
    role_clock.turn(timedelta(days=300))
    api_role.refresh()
    assert serial() != before
    assert existing_authority(admin).bundle == bundle
    assert works(admin)


def test_the_authority_is_succeeded_and_nobody_is_cut_off(
    role_clock: TurnedClock, api_role: ApiRole, admin: KubeClient
) -> None:
    first = existing_authority(admin)
    assert published(admin) == {first.bundle}

    role_clock.turn(until_succession(role_clock, admin))
    api_role.refresh()
    both = existing_authority(admin)
    assert both.successor is not None
    assert published(admin) == {both.bundle}
    old, new = subject(first.signing.certificate_pem), subject(both.successor.certificate_pem)
    # Who has not read the new bundle yet is served as well as who has.
    assert [issuer(api_role, bundle) for bundle in (first.bundle, both.bundle)] == [old, old]
    assert works(admin)

    role_clock.turn(OVERLAP)
    api_role.refresh()
    after = existing_authority(admin)
    assert published(admin) == {after.bundle}
    for bundle in (both.bundle, after.bundle, both.successor.certificate_pem):
        assert issuer(api_role, bundle) == new
    wait_until(lambda: works(admin), "the API server has followed")

    role_clock.turn(SUCCEED_BEFORE)
    api_role.refresh()
    assert published(admin) == {both.successor.certificate_pem}
    wait_until(lambda: works(admin), "the API server has followed")


@pytest.fixture
def vmi(admin: KubeClient, controller: KubeClient, echo_node: EchoNode) -> Iterator[None]:
    controller.request("POST", VMI.rpartition("/")[0], small_vmi())
    controller.request("PATCH", VMI, {"status": {"phase": "Running", "nodeName": echo_node.name}}, None, MERGE)
    yield
    remove(admin, VMI)


def test_role_and_relay_understand_each_other_whoever_has_looked_first(
    role_clock: TurnedClock, api_role: ApiRole, admin: KubeClient, echo_node: EchoNode, vmi: None
) -> None:
    def reaches_the_guest() -> bool:
        before = len(echo_node.door.calls)
        admin.request("PUT", RESET, {})
        return echo_node.door.calls[before:] == [("default", "small", "reset")]

    # Years may have gone by in other tests, in which nobody looked.
    api_role.refresh()
    echo_node.relay.refresh()
    assert reaches_the_guest()
    for ahead in (until_succession(role_clock, admin), OVERLAP, SUCCEED_BEFORE):
        role_clock.turn(ahead)
        api_role.refresh()
        wait_until(lambda: works(admin), "the API server has followed")
        assert reaches_the_guest()
        # Its own thread may have looked a moment before the role did; it does not look again at once.
        role_clock.turn(timedelta(hours=2))
        echo_node.relay.refresh()
        assert reaches_the_guest()
