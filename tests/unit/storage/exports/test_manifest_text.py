"""Manifests for the way by which a client came."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import yaml

from kvedge.resources.types.protection.export_job import ExportManifests
from kvedge.storage.exports.manifest_text import Way, make_header_secret, make_manifests, read_way, render

SOURCE: dict[str, Any] = {"http": {"url": "/volumes/root/disk.img.gz"}}
DOCUMENTS = ExportManifests(
    virtual_machine={
        "kind": "VirtualMachine",
        "spec": {"dataVolumeTemplates": [{"metadata": {"name": "root"}, "spec": {"source": SOURCE}}]},
    },
    data_volumes=[{"kind": "DataVolume", "metadata": {"name": "data"}, "spec": {"source": SOURCE}}],
)
FILLED = {
    "url": "https://box/x/volumes/root/disk.img.gz",
    "certConfigMap": "export-ca-cm-e",
    "secretExtraHeaders": ["header-secret-e"],
}


def test_the_way_is_put_into_all_sources_and_the_prepared_documents_stay() -> None:
    config_map, vm, volume = make_manifests("e", DOCUMENTS, Way("https://box/x", "PEM"))
    assert config_map["data"] == {"ca.pem": "PEM"}
    assert vm["spec"]["dataVolumeTemplates"][0]["spec"]["source"]["http"] == FILLED
    assert volume["spec"]["source"]["http"] == FILLED
    assert SOURCE == {"http": {"url": "/volumes/root/disk.img.gz"}}


def test_a_source_that_is_somebody_elses_stays() -> None:
    other = {"spec": {"source": {"http": {"url": "https://images.example/a"}}}}
    made = make_manifests("e", ExportManifests(data_volumes=[other]), Way("https://box", ""))
    assert made[-1] == other


def test_it_is_a_list_or_documents_of_yaml() -> None:
    documents = [{"kind": "A"}, {"kind": "B"}]
    media, text = render(documents, "application/json")
    assert (media, json.loads(text)["items"]) == ("application/json", documents)
    media, text = render(documents, "application/yaml")
    assert (media, [each for each in yaml.safe_load_all(text) if each]) == ("application/yaml", documents)


def test_the_header_is_as_data_volumes_read_it() -> None:
    assert make_header_secret("e", "abc")["stringData"] == {"token": "x-kubevirt-export-token:abc"}


@pytest.mark.parametrize("text", ["", "no base64!", "bm8ganNvbg==", "W10=", base64.b64encode(b'{"base": 1}').decode()])
def test_a_way_that_is_none_is_none(text: str) -> None:
    assert read_way(text) is None


def test_the_proxys_way_is_read() -> None:
    text = base64.b64encode(json.dumps({"base": "https://box", "ca": "PEM"}).encode()).decode()
    assert read_way(text) == Way("https://box", "PEM")
