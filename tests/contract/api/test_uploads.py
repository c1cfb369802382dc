"""Upload tokens as an aggregated API, and the proxy before a played worker, on both servers."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace  # noqa: TID251 - of dataclasses of this file
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.api.uploads.claim_reader import ClaimReader
from kvedge.api.uploads.upload_token import UploadGrant, read_token, token_key
from kvedge.api.uploads.worker_client import WorkerClient
from kvedge.kube.errors import Forbidden, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.uploads import UPLOAD_AUTHORITY_SECRET, upload_server_name
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.clocks import TurnedClock
from tests.support.played_upload import PlayedWorker, played_worker
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


IMAGE = bytes(range(256)) * 8192
PATHS = ("/v1beta1/upload", "/v1beta1/upload-async", "/v1alpha1/upload", "/v1alpha1/upload-async")
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_PODS = "/api/v1/namespaces/default/pods"
READY = {"cdi.kubevirt.io/storage.pod.ready": "true", "cdi.kubevirt.io/storage.pod.phase": "Running"}


@dataclass
class Target:
    """A claim with a played worker, and the proxy's address."""

    worker: PlayedWorker
    client: KubeClient
    port: int
    host: str

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        name: str = "disk",
    ) -> tuple[int, str, http.client.HTTPMessage]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(self.host, self.port, context=context, timeout=60)
        sent = {"Authorization": f"Bearer {ask(self.client, name)}"} if headers is None else headers
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return response.status, response.read().decode(), response.headers
        finally:
            connection.close()


@pytest.fixture
def target(admin: KubeClient, api_role: ApiRole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    claim = admin.request("POST", _CLAIMS, claim_document("disk", READY))
    authority = existing_authority(admin, UPLOAD_AUTHORITY_SECRET)
    with played_worker(authority, upload_server_name(claim["metadata"]["uid"]), tmp_path) as worker:
        # A worker's Pod has an address of its own. Here its port is another one, on loopback.
        monkeypatch.setattr(ClaimReader, "find_worker_address", played_address)
        monkeypatch.setattr(WorkerClient, "port", worker.server.port)
        yield Target(worker, admin, api_role.endpoint.port, api_role.endpoint.address)
    remove(admin, f"{_CLAIMS}/disk")


async def played_address(reader: ClaimReader, claim: PersistentVolumeClaim) -> str:
    return "127.0.0.1"


def claim_document(name: str, annotations: dict[str, str]) -> JsonObject:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize("path", PATHS)
def test_an_upload_reaches_the_worker_of_its_claim(target: Target, path: str) -> None:
    assert target.call("POST", path, IMAGE)[:2] == (200, "")
    assert target.worker.sinks[0].digest.digest() == sha256(IMAGE).digest()


@pytest.mark.parametrize("path", ["/v1beta1/upload-form", "/v1beta1/upload-form-async"])
def test_a_form_is_taken_as_well(target: Target, path: str) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="comment"\r\n\r\nhello\r\n--x\r\n'
    head += b'Content-Disposition: form-data; name="file"; filename="<script>.img"\r\n\r\n'
    token = {"Authorization": f"Bearer {ask(target.client, 'disk')}", "Content-Type": "multipart/form-data; boundary=x"}
    assert target.call("POST", path, head + IMAGE + b"\r\n--x--\r\n", token)[:2] == (200, "")
    assert target.worker.sinks[0].digest.digest() == sha256(IMAGE).digest()


def test_a_form_without_a_file_is_refused(target: Target) -> None:
    token = {"Authorization": f"Bearer {ask(target.client, 'disk')}", "Content-Type": "multipart/form-data; boundary=x"}
    body = b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\nhello\r\n--x--\r\n'
    status, text, _ = target.call("POST", "/v1beta1/upload-form", body, token)
    assert (status, text) == (400, "the form has no field `file` among its first fields\n")


def test_the_asynchronous_call_is_found_and_how_far_it_is(target: Target) -> None:
    assert target.call("HEAD", "/v1beta1/upload-async")[0] == 200
    assert target.call("HEAD", "/v1beta1/upload")[0] == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 400), ({"Authorization": "Basic YTpi"}, 400), ({"Authorization": "Bearer a.b.c"}, 401)],
    ids=["no token", "another scheme", "a token of nobody"],
)
def test_an_upload_without_a_good_token_is_refused(target: Target, headers: dict[str, str], status: int) -> None:
    for method, path in (("POST", "/v1beta1/upload-async"), ("HEAD", "/v1beta1/upload-async")):
        assert target.call(method, path, b"disk" if method == "POST" else None, headers)[0] == status
    assert not target.worker.sinks


def test_a_token_that_is_over_opens_nothing_but_an_upload_under_way_goes_on(
    target: Target, role_clock: TurnedClock
) -> None:
    token = {"Authorization": f"Bearer {ask(target.client, 'disk')}"}

    def pieces() -> Iterator[bytes]:
        yield IMAGE[:100_000]
        wait_until(lambda: target.worker.sinks and target.worker.sinks[0].size, "the upload is under way")
        role_clock.turn(timedelta(minutes=6))
        yield IMAGE[100_000:]

    assert target.call("POST", "/v1beta1/upload-async", pieces(), token)[0] == 200  # type: ignore[arg-type]
    assert target.worker.sinks[0].digest.digest() == sha256(IMAGE).digest()
    assert target.call("POST", "/v1beta1/upload-async", IMAGE, token)[0] == 401


def test_a_second_upload_into_one_claim_is_refused(target: Target) -> None:
    assert target.call("POST", "/v1beta1/upload-async", IMAGE)[0] == 200
    assert target.call("POST", "/v1beta1/upload-async", IMAGE)[0] == 409


def test_an_image_that_is_too_large_is_told_and_a_smaller_one_is_taken(target: Target) -> None:
    target.worker.room = 1000
    status, text, headers = target.call("POST", "/v1beta1/upload-async", IMAGE)
    assert status == 400
    assert text.startswith("Saving stream failed: effective image size is larger than the reported available storage")
    assert headers["Content-Type"].startswith("text/plain")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert target.call("POST", "/v1beta1/upload-async", IMAGE[:1000])[0] == 200


def test_a_claim_that_is_not_there_is_told(target: Target) -> None:
    status, text, _ = target.call("POST", "/v1beta1/upload-async", IMAGE, name="none")
    assert (status, text) == (503, "rejecting Upload Request for PVC none that doesn't exist\n")


def test_a_worker_of_another_claim_gets_nothing(target: Target, admin: KubeClient) -> None:
    admin.request("POST", _CLAIMS, claim_document("other", READY))
    try:
        status, text, _ = target.call("POST", "/v1beta1/upload-async", IMAGE, name="other")
    finally:
        remove(admin, f"{_CLAIMS}/other")
    assert status == 503
    assert "certificate" in text
    assert not target.worker.sinks


def test_pages_of_other_origins_may_upload(target: Target) -> None:
    status, _, headers = target.call("OPTIONS", "/v1beta1/upload", headers={"Origin": "https://console.example"})
    assert status == 204
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert "Authorization" in headers["Access-Control-Allow-Headers"]


def test_where_uploads_go_is_told(admin: KubeClient, api_role: ApiRole) -> None:
    found = admin.request("GET", "/api/v1/namespaces/kvedge-system/configmaps/kvedge-upload-proxy")
    assert found["data"]["url"] == f"https://{api_role.endpoint.address}:{api_role.endpoint.port}"
    assert found["data"]["ca.crt"] == existing_authority(admin).bundle.decode()


@pytest.mark.parametrize("path", ["/v1beta1/upload", "/v1beta1/upload-async"])
def test_one_box_takes_uploads_at_its_own_api(target: Target, server: ApiServerUnderTest, path: str) -> None:
    if server.name != "embedded":
        pytest.skip("a kube-apiserver hands nothing on; clients speak to the api role itself")
    port = urlsplit(target.client.host).port
    assert port is not None
    front = replace(target, host="127.0.0.1", port=port)
    assert front.call("HEAD", "/v1beta1/upload-async")[0] == 200
    assert front.call("POST", path, IMAGE, {})[0] == 400
    assert front.call("POST", path, IMAGE, {"Authorization": "Bearer a.b.c"})[0] == 401
    token = f"Bearer {ask(target.client, 'disk')}"
    assert front.call("POST", path, IMAGE, {"Authorization": token, "Expect": "100-continue"})[:2] == (200, "")
    assert target.worker.sinks[0].digest.digest() == sha256(IMAGE).digest()
    assert front.call("POST", path, IMAGE)[0] == 409
    assert front.call("POST", "/v1beta1/upload-archive", IMAGE)[0] == 401
