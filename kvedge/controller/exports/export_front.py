"""What exports have in common: by whom exporters are certified, and where clients from outside come in.

Used by export_loop.py. Reads the Secret of uploads' authority, which signs for exporters too, and the ConfigMap in
which the api role says where its proxy is; neither is watched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from kvedge.controller.exports.export_view import Front
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.disks.uploads import (
    UPLOAD_AUTHORITY_SECRET,
    UPLOAD_PROXY_CA_KEY,
    UPLOAD_PROXY_CONFIG,
    UPLOAD_PROXY_URL_KEY,
)
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.core import ConfigMap
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.runtime.clock import Clock
from kvedge.runtime.tls.authority_plan import Authorities

_AUTHORITY_SECONDS: Final = 300.0
_FRONT_SECONDS: Final = 30.0
_NO_FRONT_SECONDS: Final = 3.0
# Such a name means something within the cluster alone.
_INSIDE: Final = (".svc", ".cluster.local")


class ExportFront:
    """Held by the loop's one worker."""

    def __init__(self, client: KubeClient, cdi: Callable[[], CdiConfig | None], clock: Clock) -> None:
        """`cdi` gives the configuration in which an administrator may name another way in."""
        self._client = client
        self._cdi = cdi
        self._clock = clock
        self._authority: tuple[Authorities, float] | None = None
        self._front: tuple[Front, float] | None = None

    def authority(self) -> Authorities:
        """The authority of exporters, as of the last minutes.

        Raises:
            NotFound: when no api role has made it yet.
            KubeError: when the API server refuses or does not answer.
            CertificateError: when its Secret holds something else.
        """
        now = self._clock.monotonic()
        if self._authority is None or now - self._authority[1] >= _AUTHORITY_SECONDS:
            self._authority = (existing_authority(self._client, UPLOAD_AUTHORITY_SECRET), now)
        return self._authority[0]

    def front(self) -> Front:
        """Where clients from outside come in, as of the last seconds.

        Raises:
            KubeError: when the API server refuses or does not answer.
        """
        now = self._clock.monotonic()
        if self._front is not None:
            found, read = self._front
            if now - read < (_FRONT_SECONDS if found.url else _NO_FRONT_SECONDS):
                return found
        self._front = (self._read_front(), now)
        return self._front[0]

    def _read_front(self) -> Front:
        try:
            data = self._client.get(ConfigMap, SYSTEM_NAMESPACE, UPLOAD_PROXY_CONFIG).data
        except NotFound:
            data = {}
        config = self._cdi()
        override = None if config is None else config.spec.upload_proxy_url_override
        return choose_front(data.get(UPLOAD_PROXY_URL_KEY, ""), data.get(UPLOAD_PROXY_CA_KEY, ""), override or "")


def choose_front(url: str, ca: str, override: str) -> Front:
    """The way in from outside.

    >>> choose_front("https://kvedge-api.kvedge-system.svc", "CA", "").url
    ''
    >>> choose_front("https://10.0.0.7:6443", "CA", "https://box.example").url
    'https://box.example'
    """
    chosen = override or url
    if chosen and "://" not in chosen:
        chosen = f"https://{chosen}"
    try:
        host = urlsplit(chosen).hostname or ""
    except ValueError:
        host = ""
    return Front() if not host or host.endswith(_INSIDE) else Front(chosen.rstrip("/"), ca)
