"""Where uploads go, and when we step back for CDI."""

from __future__ import annotations

from kvedge.api.registration import upload_manifest as manifest
from kvedge.api.registration.registration_manifest import Endpoint, endpoint_slice
from kvedge.resources.codec import JsonObject

ONE, TWO = Endpoint("192.0.2.2", 8443, "one"), Endpoint("2001:db8::2", 8443, "two")


def test_the_api_of_tokens_is_registered_where_there_is_none() -> None:
    wanted = manifest.upload_api_service(b"CA").body
    assert wanted["metadata"]["name"] == "v1beta1.upload.cdi.kubevirt.io"
    assert manifest.plan_upload_api(wanted, None) == wanted
    assert manifest.plan_upload_api(wanted, wanted) is None


def test_an_api_of_tokens_that_cdi_serves_is_left_alone() -> None:
    wanted = manifest.upload_api_service(b"CA").body
    cdi: JsonObject = {
        "metadata": {"name": "v1beta1.upload.cdi.kubevirt.io"},
        "spec": {"service": {"namespace": "cdi", "name": "cdi-api"}},
    }
    assert manifest.plan_upload_api(wanted, cdi) is None


def test_ours_is_kept_true() -> None:
    old, new = manifest.upload_api_service(b"OLD").body, manifest.upload_api_service(b"NEW").body
    planned = manifest.plan_upload_api(new, old)
    assert planned is not None
    assert planned["spec"]["caBundle"] == new["spec"]["caBundle"]


def config(endpoint: Endpoint, ca: bytes = b"CA") -> JsonObject:
    return manifest.upload_proxy_config(manifest.endpoint_url(endpoint), ca).body


def test_the_url_of_an_api_role_that_serves_stays_and_two_do_not_quarrel() -> None:
    others = manifest.slice_urls([endpoint_slice(TWO).body])
    assert others == {"https://[2001:db8::2]:8443"}
    assert manifest.plan_upload_proxy(config(ONE), config(TWO), others) is None


def test_the_url_of_an_api_role_that_has_gone_is_replaced() -> None:
    planned = manifest.plan_upload_proxy(config(ONE), config(TWO), frozenset())
    assert planned is not None
    assert planned["data"]["url"] == "https://192.0.2.2:8443"


def test_a_new_authority_is_told_whoevers_url_it_is() -> None:
    others = manifest.slice_urls([endpoint_slice(TWO).body])
    planned = manifest.plan_upload_proxy(config(ONE, b"NEW"), config(TWO), others)
    assert planned is not None
    assert planned["data"] == {"url": "https://[2001:db8::2]:8443", "ca.crt": "NEW"}
