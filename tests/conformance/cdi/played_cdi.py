"""CDI's own object, its kind in discovery and its controller's Pod, as CDI's tests look for them on a server.

Asked by the played front of a run of CDI's tests. The CRD of that object would say that CDI is installed, and kvedge
would step back. What the tests write into it is what CDI's operator copies into the CDIConfig: here it goes there at
once.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final
from urllib.parse import urlsplit

from kvedge.kube.errors import Conflict
from kvedge.resources.codec import JsonObject
from tests.conformance.played_jobs import Ask, refusal

NAMESPACE: Final = "cdi"
_VERSION: Final = "/apis/cdi.kubevirt.io/v1beta1"
_CONFIG: Final = f"{_VERSION}/cdiconfigs/config"
_OBJECT: Final = re.compile(rf"{re.escape(_VERSION)}/cdis(?:/cdi)?(?:/status)?")
_RESOURCE: Final = {
    "name": "cdis",
    "singularName": "cdi",
    "namespaced": False,
    "kind": "CDI",
    "verbs": ["get", "list", "update"],
}


class PlayedCdi:
    """The one object `cdi`; it holds nothing that the CDIConfig does not hold."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def takes(self, method: str, path: str) -> bool:
        """Whether a request is about that object, or asks which kinds its group has."""
        bare = urlsplit(path).path
        return bool(_OBJECT.fullmatch(bare)) or (method == "GET" and bare == _VERSION)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Code and document of the answer."""
        bare = urlsplit(path).path
        if bare == _VERSION:
            kinds = dict(self._asked("GET", _VERSION))
            return 200, {**kinds, "resources": [*kinds["resources"], _RESOURCE]}
        config = dict(self._asked("GET", _CONFIG))
        if method == "PUT":
            given = json.loads(body)
            config["spec"] = given.get("spec", {}).get("config") or {}
            config["metadata"]["resourceVersion"] = given["metadata"].get("resourceVersion", "")
            try:
                config = dict(self._asked("PUT", _CONFIG, config))
            except Conflict as error:
                # The tests read it again, and go on.
                return 409, refusal(409, "Conflict", str(error))
        found = _played(config)
        if bare.endswith("/cdis"):
            listed = {"kind": "CDIList", "apiVersion": found["apiVersion"], "metadata": {"resourceVersion": "1"}}
            return 200, {**listed, "items": [found]}
        return 200, found

    def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        found = self._ask(method, path, body)
        assert found is not None, f"the server has no {path}"
        return found


def _played(config: dict[str, Any]) -> dict[str, Any]:
    metadata = config["metadata"]
    return {
        "kind": "CDI",
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "metadata": {
            "name": "cdi",
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"config": config.get("spec") or {}},
        "status": {"phase": "Deployed"},
    }


def controller_pod(image: str) -> JsonObject:
    """The Pod by which the tests find CDI; out of its environment they take the image of their own Pods."""
    labels = {"app": "containerized-data-importer", "cdi.kubevirt.io": "cdi-deployment"}
    container: JsonObject = {
        "name": "cdi-deployment",
        "image": image,
        "command": ["/bin/sleep", "2147483647"],
        "env": [{"name": "IMPORTER_IMAGE", "value": image}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "cdi-deployment-played", "namespace": NAMESPACE, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
