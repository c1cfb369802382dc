"""Api roles of two releases serve one cluster while it is upgraded: they do not write webhooks in turn.

There is one release yet, so the newer one is played: by its endpoint slice, and by what it writes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.api.registration.registration_manifest import Endpoint, endpoint_slice
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import VERSION
from tests.contract.api.conftest import judges_writes
from tests.support.api_servers import ApiServerUnderTest
from tests.support.edits import edit
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WEBHOOKS = f"{ADMISSION}/validatingwebhookconfigurations/kvedge"
POLICY = f"{ADMISSION}/validatingadmissionpolicies/kvedge-controller-restriction"
API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha3.subresources.kubevirt.io"
NEWER = "99.0.0"


@pytest.fixture
def newer(admin: KubeClient, api_role: ApiRole) -> Iterator[str]:
    """The path of a newer instance's slice; no calls go there, so that all of them are answered."""
    slice_ = endpoint_slice(Endpoint("192.0.2.9", 8443, "newer"))
    slice_.body["metadata"]["annotations"] = {VERSION: NEWER}
    slice_.body["endpoints"][0]["conditions"] = {"ready": False}
    admin.request("POST", slice_.collection, slice_.body)
    yield slice_.path
    if slice_.name in [item["metadata"]["name"] for item in admin.request("GET", slice_.collection)["items"]]:
        admin.request("DELETE", slice_.path)
    api_role.refresh()
    wait_until(lambda: judges_writes(admin), "the webhooks are called again")


def write_as_newer(admin: KubeClient, path: str) -> JsonObject:
    """Something in the document is another release's; returns what is then there."""

    def change(document: JsonObject) -> None:
        document["metadata"]["annotations"][VERSION] = NEWER
        if "webhooks" in document:
            document["webhooks"][0]["timeoutSeconds"] = 7
        elif "validations" in document["spec"]:
            document["spec"]["validations"] = document["spec"]["validations"][:1]
        else:
            document["spec"]["versionPriority"] = 14

    return edit(admin, path, change)


def paths(server: ApiServerUnderTest) -> list[str]:
    return [WEBHOOKS, API_SERVICE, *([POLICY] if server.name == "real" else [])]


def test_an_older_one_leaves_what_a_newer_one_has_written_as_long_as_that_serves(
    server: ApiServerUnderTest, admin: KubeClient, api_role: ApiRole, newer: str
) -> None:
    for path in paths(server):
        theirs = write_as_newer(admin, path)
        for _ in range(2):
            api_role.refresh()
            assert (
                admin.request("GET", path)["spec" if "spec" in theirs else "webhooks"]
                == theirs["spec" if "spec" in theirs else "webhooks"]
            )
            assert admin.request("GET", path)["metadata"]["annotations"][VERSION] == NEWER
    # The upgrade is taken back: what is left has to fit who is left.
    admin.request("DELETE", newer)
    api_role.refresh()
    for path in paths(server):
        assert admin.request("GET", path)["metadata"]["annotations"][VERSION] != NEWER
    assert admin.request("GET", WEBHOOKS)["webhooks"][0]["timeoutSeconds"] != 7


def test_an_older_one_still_says_whom_to_trust_and_brings_back_what_is_gone(
    admin: KubeClient, api_role: ApiRole, newer: str
) -> None:
    theirs = write_as_newer(admin, WEBHOOKS)
    trusted = theirs["webhooks"][0]["clientConfig"]["caBundle"]
    edit(admin, WEBHOOKS, lambda found: found["webhooks"][0]["clientConfig"].update(caBundle=""))
    api_role.refresh()
    written = admin.request("GET", WEBHOOKS)
    assert written["webhooks"][0]["clientConfig"]["caBundle"] == trusted
    assert written["webhooks"][0]["timeoutSeconds"] == 7
    admin.request("DELETE", WEBHOOKS)
    api_role.refresh()
    assert admin.request("GET", WEBHOOKS)["webhooks"][0]["timeoutSeconds"] != 7
