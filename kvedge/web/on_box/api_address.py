"""Where the API server is that a console asks, and whom it trusts to be it: of a role's kubeconfig, or of a Pod.

Called by `box_console` at its start. Of the credentials beside it nothing is read.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kvedge.kube.credentials.service_account import CA, ServiceAccountError, read_service_account
from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault, current_entries, text_of
from kvedge.kube.kubeconfigs.kubeconfig_reader import read_kubeconfig
from kvedge.resources.codec import JsonObject

_DATA: Final = "certificate-authority-data"
_FILE: Final = "certificate-authority"
_AS_THEY_ARE: Final = ("tls-server-name", "proxy-url")


def read_api_address(place: Path, environment: Mapping[str, str] = os.environ) -> JsonObject:
    """The entry of a cluster in a kubeconfig: `server`, how it is reached, and `certificate-authority-data` where an
    authority is named.

    `place` is a kubeconfig, or the directory with the service account of a Pod.

    Raises:
        KubeconfigError: when the kubeconfig cannot be read.
        KubeconfigFault: when it, or the account, does not hold together.
    """
    if place.is_dir():
        return _of_pod(place, environment)
    cluster, _ = current_entries(read_kubeconfig(place))
    found: JsonObject = {"server": text_of(cluster, "server")}
    found |= {key: value for key in _AS_THEY_ARE if (value := text_of(cluster, key))}
    if data := text_of(cluster, _DATA):
        found[_DATA] = data
    elif name := text_of(cluster, _FILE):
        found[_DATA] = _encode(place.parent / name)
    return found


def _of_pod(directory: Path, environment: Mapping[str, str]) -> JsonObject:
    try:
        return {"server": read_service_account(directory, environment).host, _DATA: _encode(directory / CA)}
    except ServiceAccountError as error:
        raise KubeconfigFault(str(error)) from error


def _encode(path: Path) -> str:
    try:
        return base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise KubeconfigFault(f"{path}: cannot be read: {error.strerror}") from error
