"""What the aggregated API says of itself: groups, resources, version.

Served by subresource_server.py to everybody who is known to the API server. Touches nothing.
"""

from __future__ import annotations

import platform
from typing import Final

from kvedge import __version__
from kvedge.api.served_paths import SUBRESOURCE_GROUP, SUBRESOURCE_VERSIONS
from kvedge.resources.codec import JsonObject
from kvedge.resources.guest_verbs import GUEST_VERBS
from kvedge.runtime.architecture import host_architecture

# The KubeVirt release whose API kvedge serves.
CONFORMS_TO: Final = "v1.9.0"


def api_group() -> JsonObject:
    """/apis/subresources.kubevirt.io."""
    versions = [
        {"groupVersion": f"{SUBRESOURCE_GROUP}/{version}", "version": version} for version in SUBRESOURCE_VERSIONS
    ]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": SUBRESOURCE_GROUP,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def api_group_list() -> JsonObject:
    """/apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [api_group()]}


def api_resource_list(version: str) -> JsonObject:
    """/apis/subresources.kubevirt.io/<version>."""
    names = dict.fromkeys(["expand-vm-spec", *(verb.asked for verb in GUEST_VERBS if verb.listed)])
    # Without verbs, as KubeVirt lists them: none is a kind with objects, and clients would take it for one.
    resources = [{"name": name, "singularName": "", "namespaced": True, "kind": "", "verbs": []} for name in names]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{SUBRESOURCE_GROUP}/{version}",
        "resources": resources,
    }


def version_info() -> JsonObject:
    """…/version, in the shape that virtctl reads.

    virtctl warns after each failure when major and minor of `gitVersion` differ from its own: what it compares is the
    API. kvedge's own version stands beside it, in a member that other clients pass over.
    """
    return {
        "gitVersion": f"{CONFORMS_TO}+kvedge{__version__}",
        "kvedgeVersion": f"v{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{host_architecture()}",
    }


def root_paths() -> JsonObject:
    """/."""
    base = f"/apis/{SUBRESOURCE_GROUP}"
    return {"paths": ["/apis", base, *(f"{base}/{version}" for version in SUBRESOURCE_VERSIONS), "/healthz"]}
