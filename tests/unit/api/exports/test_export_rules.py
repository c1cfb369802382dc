# Tests: kvedge/api/transfer_slots.py
"""What the proxy of exports hands on."""

from __future__ import annotations

import base64
import json

import pytest

from kvedge.api.exports.export_rules import (
    download_slots,
    external_base,
    returned_headers,
    sent_headers,
)
from kvedge.api.transfer_slots import TransferRefused
from kvedge.resources.codec import decode
from kvedge.resources.types.protection.exports import VirtualMachineExport

BASE = "https://box:6443/api/export.kubevirt.io/v1/namespaces/a/virtualmachineexports/b"
VOLUME = {"name": "c", "formats": [{"format": "raw", "url": f"{BASE}/volumes/c/disk.img"}]}
EXPORT = decode(
    VirtualMachineExport,
    {
        "metadata": {"name": "b", "namespace": "a"},
        "status": {"links": {"external": {"cert": "PEM", "volumes": [VOLUME]}}},
    },
)


def test_an_exporter_gets_the_token_and_the_way_and_nothing_that_is_not_its_own() -> None:
    given = {"x-kubevirt-export-token": "t", "range": "bytes=0-1", "cookie": "c", "authorization": "Bearer x"}
    made = sent_headers(given, EXPORT)
    assert set(made) == {"x-kubevirt-export-token", "range", "X-Kvedge-Export-Way"}
    assert json.loads(base64.b64decode(made["X-Kvedge-Export-Way"])) == {"base": BASE, "ca": "PEM"}


def test_a_client_cannot_say_by_which_way_it_came() -> None:
    forged = {"x-kvedge-export-way": "forged", "X-Kvedge-Export-Way": "forged"}
    assert sent_headers(forged, EXPORT)["X-Kvedge-Export-Way"] != "forged"
    without = decode(VirtualMachineExport, {"metadata": {"name": "b", "namespace": "a"}})
    assert sent_headers(forged, without) == {}


def test_the_base_is_the_controllers() -> None:
    assert external_base(EXPORT) == BASE


def test_cookies_of_an_exporter_do_not_reach_the_client() -> None:
    found = returned_headers([("Content-Length", "5"), ("Set-Cookie", "x"), ("ETag", '"t"'), ("Connection", "close")])
    assert found == [("Content-Length", "5"), ("ETag", '"t"')]


def test_one_namespace_leaves_room_for_others() -> None:
    slots = download_slots(most=3, of_one=2)
    with slots.take("a"), slots.take("a"):
        with pytest.raises(TransferRefused) as refused, slots.take("a"):
            pass
        assert refused.value.status == 503
        with slots.take("b"), pytest.raises(TransferRefused), slots.take("c"):
            pass
    with slots.take("a"), slots.take("c"):
        pass
