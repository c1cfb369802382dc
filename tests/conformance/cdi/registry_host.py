"""The registry from which CDI's tests import: Debian's docker-registry on the node bridge, with the tests' images.

Started by the run once its box stands. Its Service has the name that the tests know, and its images the variables that
become labels of a claim.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvedge.kube.kube_client import KubeClient
from tests.conformance.cdi.file_host import make_host
from tests.conformance.cdi.images import CIRROS
from tests.conformance.cdi.played_cdi import NAMESPACE
from tests.conformance.guests import TAG
from tests.conformance.tier_registry import push_archive, running_registry
from tests.support.small_images import directory, file, layer, oci_archive

_NAME: Final = "cdi-docker-registry-host"
# Where the images are, as the tests ask for it.
REGISTRY: Final = f"{_NAME}.{NAMESPACE}"
# The file host has the port of TLS at the same address.
_PORT: Final = 5443
# By their names in the registry: each with the file that it holds.
_IMAGES: Final = {
    "tinycoreqcow2:latest": "tinyCore.qcow2",
    f"cdi-func-test-tinycore:{TAG}": "tinyCore.qcow2",
    "cdi-func-test-tinycore:latest": "tinyCore.qcow2",
    f"cdi-func-test-cirros-qcow2:{TAG}": CIRROS,
}
_VARIABLES: Final = {
    "TEST_KUBEVIRT_IO_TEST": "testvalue",
    "TEST_KUBEVIRT_IO_EXISTING": "somethingelse",
    "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE": "test-instancetype",
    "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE_KIND": "VirtualMachineClusterInstancetype",
    "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE": "test-preference",
    "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE_KIND": "VirtualMachineClusterPreference",
}


@contextlib.contextmanager
def registry_host(folder: Path, images: Path, address: str, client: KubeClient) -> Iterator[None]:
    """Serve the images at `address`, by the Service that the tests name, until the end of the context."""
    with running_registry(folder, address, _PORT, [_NAME, REGISTRY, f"{REGISTRY}.svc"]) as authority:
        environment = {"Env": [f"{name}={value}" for name, value in _VARIABLES.items()]}
        archive = folder / "image.tar"
        for name, disk in _IMAGES.items():
            content = layer([directory("disk"), file(f"disk/{disk}", (images / disk).read_bytes())])
            oci_archive(archive, [content], environment, zipped=False)
            push_archive(archive, f"{address}:{_PORT}/{name}")
        make_host(client, _NAME, address, {"tls": (443, _PORT), "other-tls": (5000, _PORT)}, authority)
        yield
