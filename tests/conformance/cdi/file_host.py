"""The server from which CDI's tests import: the distribution's nginx on the node bridge.

Started by the run once its box stands. The Service, its addresses and the ConfigMap of its certificate are objects of
the box, with the names that the tests know. Touches one directory and the tests' cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kvedge.kube.kube_client import KubeClient
from tests.conformance.cdi.played_cdi import NAMESPACE
from tests.conformance.nginx import running_nginx
from tests.support.certificate_files import FileAuthority

_NAME: Final = "cdi-file-host"
# By what the tests call the ports.
_PORTS: Final = {
    "http-no-auth": 80,
    "http-auth": 81,
    "rate-limit": 82,
    "tls": 443,
    "tls-auth": 444,
}
# admin:password, as the tests have it; nginx's own scheme for words in the clear.
_PASSWORDS: Final = "admin:{PLAIN}password\n"
_SERVED: Final = """\
    access_log {directory}/access.log;
    sendfile on;
    root {images};
    autoindex on;
    autoindex_format json;
    ssl_certificate {cert};
    ssl_certificate_key {key};
    server {{ listen {address}:80; rewrite ^/gcs-bucket/(.*)$ /$1 last; }}
    server {{ listen {address}:81; auth_basic "auth test"; auth_basic_user_file {directory}/passwords; }}
    server {{ listen {address}:82; limit_rate 100k; rewrite ^/gcs-bucket/(.*)$ /$1 last; }}
    server {{ listen {address}:443 ssl; rewrite ^/gcs-bucket/(.*)$ /$1 last; }}
    server {{ listen {address}:444 ssl; auth_basic "auth test"; auth_basic_user_file {directory}/passwords; }}
"""


@contextlib.contextmanager
def file_host(directory: Path, images: Path, address: str, client: KubeClient) -> Iterator[None]:
    """Serve `images` at `address`, by the Service that the tests name, until the end of the context."""
    directory.mkdir()
    authority = FileAuthority(directory, "file-host")
    names = [_NAME, f"{_NAME}.{NAMESPACE}", f"{_NAME}.{NAMESPACE}.svc"]
    pair = authority.issue("server", hosts=names)
    (directory / "passwords").write_text(_PASSWORDS)
    served = _SERVED.format(directory=directory, images=images, cert=pair.cert, key=pair.key, address=address)
    with running_nginx(directory, served, address, _PORTS["tls-auth"]):
        make_host(client, _NAME, address, {name: (port, port) for name, port in _PORTS.items()}, authority.ca)
        yield


def make_host(
    client: KubeClient, name: str, address: str, ports: Mapping[str, tuple[int, int]], authority: Path
) -> None:
    """The Service of a server outside of the box, and the ConfigMap with the certificate that it is known by.

    `ports` are the Service's and the server's, by their names.
    """
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"cdi.kubevirt.io/testing": ""}}
    core = f"/api/v1/namespaces/{NAMESPACE}"
    served = [{"name": text, "port": port, "targetPort": target} for text, (port, target) in ports.items()]
    client.request("POST", f"{core}/services", _object("v1", "Service", metadata, spec={"ports": served}))
    labels = {"kubernetes.io/service-name": name}
    client.request(
        "POST",
        f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
        _object(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            {"name": f"{name}-played", "namespace": NAMESPACE, "labels": labels},
            addressType="IPv4",
            endpoints=[{"addresses": [address]}],
            ports=[{"name": text, "port": target} for text, (_, target) in ports.items()],
        ),
    )
    data = {"tls.crt": authority.read_text()}
    named = {"name": f"{name}-certs", "namespace": NAMESPACE}
    client.request("POST", f"{core}/configmaps", _object("v1", "ConfigMap", named, data=data))


def _object(version: str, kind: str, metadata: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
