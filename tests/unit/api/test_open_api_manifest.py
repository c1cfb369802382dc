"""The documents that an API server merges into its own: a path for each call that is answered."""

from __future__ import annotations

from kvedge.api.open_api_manifest import open_api_index, open_api_v2, open_api_v3
from kvedge.api.served_paths import SUBRESOURCE_VERSIONS
from kvedge.resources.guest_verbs import GUEST_VERBS

BASE = "/apis/subresources.kubevirt.io/v1"
GUEST = f"{BASE}/namespaces/{{namespace}}"


def test_each_verb_that_is_answered_has_its_path_and_method() -> None:
    paths = open_api_v2()["paths"]
    for verb in GUEST_VERBS:
        path = f"{GUEST}/{verb.resource}/{{name}}/{verb.route}"
        assert (verb.method.lower() in paths.get(path, {})) == (verb.way != "later"), path
    assert set(paths[f"{GUEST}/virtualmachines/{{name}}/start"]) == {"put", "parameters"}


def test_each_operation_has_a_name_of_its_own_and_names_all_of_its_path() -> None:
    seen = set()
    for path, item in open_api_v2()["paths"].items():
        named = {parameter["name"] for parameter in item["parameters"]}
        assert all(f"{{{name}}}" in path for name in named)
        assert path.count("{") == len(named)
        for method in item.keys() - {"parameters"}:
            assert item[method]["operationId"] not in seen
            seen.add(item[method]["operationId"])


def test_each_version_has_an_openapi_3_document_of_the_same_paths() -> None:
    index = open_api_index()["paths"]
    for version in SUBRESOURCE_VERSIONS:
        root = f"apis/subresources.kubevirt.io/{version}"
        assert index[root]["serverRelativeURL"].startswith(f"/openapi/v3/{root}?hash=")
        paths = open_api_v3(version)["paths"]
        assert paths.keys() == {path for path in open_api_v2()["paths"] if path.startswith(f"/{root}/")}
    body = open_api_v3("v1")["paths"][f"{GUEST}/virtualmachines/{{name}}/stop"]["put"]["requestBody"]
    assert body["content"]["*/*"]["schema"] == {"type": "object"}
