"""Upload tokens as an aggregated API, and the proxy before a played worker, on both servers."""

from __future__ import annotations

import json

import pytest

from kvedge.api.uploads.upload_token import UploadGrant, read_token, token_key
from kvedge.kube.errors import Forbidden, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.uploads import UPLOAD_AUTHORITY_SECRET
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.clocks import TurnedClock
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("tokens_answer")]
TOKENS = "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/default/uploadtokenrequests"


@pytest.fixture(scope="module")
def tokens_answer(admin: KubeClient, subresources_answer: None) -> None:
    """A server needs a moment until it forwards to an aggregated API."""

    def answers() -> bool:
        try:
            admin.request("GET", "/apis/upload.cdi.kubevirt.io/v1beta1")
        except KubeError:
            return False
        return True

    wait_until(answers, "the API of upload tokens answers")


def ask(client: KubeClient, name: str) -> str:
    kind = {"kind": "UploadTokenRequest", "apiVersion": "upload.cdi.kubevirt.io/v1beta1"}
    document = {**kind, "metadata": {"generateName": "token-for-"}, "spec": {"pvcName": name}}
    return str(client.request("POST", TOKENS, document)["status"]["token"])


def test_a_token_is_for_the_claim_that_was_named(admin: KubeClient, role_clock: TurnedClock) -> None:
    keys = [token_key(existing_authority(admin, UPLOAD_AUTHORITY_SECRET).signing.key_pem)]
    assert read_token(keys, ask(admin, "disk"), role_clock.now()) == UploadGrant("default", "disk")


def test_a_request_without_a_claim_is_told_the_field(admin: KubeClient) -> None:
    with pytest.raises(KubeError, match=r"spec\.pvcName"):
        admin.request("POST", TOKENS, {"spec": {}})


def test_tokens_are_for_those_who_may_create_them(server: ApiServerUnderTest, admin: KubeClient) -> None:
    nobody = KubeClient.from_kubeconfig(server.write_kubeconfig("nobody", ["nobodies"]))
    try:
        with pytest.raises(Forbidden):
            ask(nobody, "disk")
    finally:
        nobody.close()


def test_kubectl_finds_the_kind_and_applies_it(kubectl: Kubectl) -> None:
    assert "uploadtokenrequests" in kubectl.run("api-resources", "--api-group=upload.cdi.kubevirt.io")
    document = {
        "kind": "UploadTokenRequest",
        "apiVersion": "upload.cdi.kubevirt.io/v1beta1",
        "metadata": {"name": "mine", "namespace": "default"},
        "spec": {"pvcName": "disk"},
    }
    told = kubectl.run("create", "-f", "-", "-o", "json", text=json.dumps(document))
    assert json.loads(told)["status"]["token"].count(".") == 2


def test_uploads_have_an_authority_of_their_own(admin: KubeClient) -> None:
    uploads = existing_authority(admin, UPLOAD_AUTHORITY_SECRET)
    assert uploads.bundle != existing_authority(admin).bundle
