"""Which versions the CustomResourceDefinitions of an API server have: whether ours have to be looked at again.

Called by registration_loop.py in each of its rounds. What the definitions should be is made of all types, and each is
read as a whole: a tenth of a second of a CPU, which most rounds can spare themselves. Only reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.kube.errors import Forbidden
from kvedge.kube.kube_client import KubeClient

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def read_crd_versions(client: KubeClient) -> Mapping[str, str] | None:
    """The resourceVersion of each by its name; None where the role may not list them, by rights of an earlier release.

    Raises:
        KubeError: when the API server refuses otherwise or does not answer.
    """
    try:
        found = client.request("GET", CRDS, accept=_METADATA)
    except Forbidden:
        return None
    metadata = [item["metadata"] for item in found.get("items") or ()]
    return {each["name"]: each["resourceVersion"] for each in metadata}
