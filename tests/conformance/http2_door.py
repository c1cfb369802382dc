"""HTTP/2 with TLS in front of the played front, by the distribution's nginx.

Started by the conformance run. client-go prefers HTTP/2, and KubeVirt's tests know a watch that they end themselves by
the words of Go's HTTP/2 client: on HTTP/1.1 a spec fails now and then. Touches one directory and the tests' cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from tests.conformance.nginx import running_nginx
from tests.conformance.played_front import PlayedFront
from tests.support.certificate_files import FileAuthority, PairFiles
from tests.support.ports import free_port

_HOST: Final = "127.0.0.1"
# Nothing is kept back or cut off: a watch tells one line an hour, and a connection carries a whole run.
_SERVED: Final = """\
    access_log off;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    server {{
        listen {host}:{port} ssl http2;
        ssl_certificate {cert};
        ssl_certificate_key {key};
        keepalive_requests 100000000;
        http2_max_concurrent_streams 4096;
        client_max_body_size 0;
        location / {{
            proxy_pass http://{host}:{upstream};
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            proxy_buffering off;
            proxy_read_timeout 6h;
            proxy_send_timeout 6h;
        }}
    }}
"""


@contextlib.contextmanager
def http2_door(directory: Path, front: PlayedFront) -> Iterator[Path]:
    """The kubeconfig that leads to the front by HTTP/2; it serves until the end of the context."""
    directory.mkdir()
    port = free_port()
    authority = FileAuthority(directory, "conformance")
    pair = authority.issue("door", hosts=[_HOST])
    served = _SERVED.format(host=_HOST, port=port, cert=pair.cert, key=pair.key, upstream=front.port)
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(port, authority.ca, authority.issue("user"))))
    with running_nginx(directory, served, _HOST, port):
        yield kubeconfig


def _kubeconfig(port: int, authority: Path, user: PairFiles) -> dict[str, object]:
    """The door asks for no certificate; a user without one is asked for a name and a password by `virtctl`."""
    cluster = {"server": f"https://{_HOST}:{port}", "certificate-authority": str(authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "box", "cluster": cluster}],
        "users": [
            {"name": "administrator", "user": {"client-certificate": str(user.cert), "client-key": str(user.key)}}
        ],
        "contexts": [{"name": "box", "context": {"cluster": "box", "user": "administrator"}}],
        "current-context": "box",
    }
