"""Where an API server is and how to prove who we are: a kubeconfig, or a Pod's service account.

Called by :mod:`kvedge.kube.rest_edge`. Reads the kubeconfig and the files that it names, and notes which they were:
:mod:`kvedge.kube.live_connection` follows them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import getproxies

from msgspec import Struct
from msgspec.structs import replace

from kvedge.kube.credentials.client_certificate import ShownCertificate
from kvedge.kube.credentials.credential_files import FileState, is_changed, read_file_state, states
from kvedge.kube.credentials.identity import Authorization, identify, nobody
from kvedge.kube.credentials.pem_files import PemFiles, Renewal
from kvedge.kube.credentials.proxy_rules import proxy_for
from kvedge.kube.credentials.service_account import (
    ACCOUNT_DIRECTORY,
    CA,
    TOKEN,
    ServiceAccountError,
    read_service_account,
)
from kvedge.kube.inner_door import InnerDoor
from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault, current_entries, text_of
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError, file_keys, read_kubeconfig


class Source(Struct, frozen=True):
    """The files that a connection was made from, as they were just before they were read, and what else it may need
    anew: a certificate that a program gave.
    """

    noted: Mapping[str, FileState | None]
    read: Callable[[], Connection]
    renewal: Renewal | None = None

    def is_changed(self, now: datetime) -> bool:
        """Whether one of the files is another one now, or a certificate is about to end."""
        due = None if self.renewal is None else self.renewal.due
        return is_changed(self.noted) or (due is not None and now >= due)

    def again(self) -> Connection:
        """The connection that they stand for now.

        Raises:
            KubeconfigError: when one that is needed has gone or is not usable.
        """
        return self.read()


class Connection(Struct, frozen=True):
    """One server: its address, one TLS context for all sockets, and what proves who we are.

    `proxy` and `server_name` (the name in the server's certificate) are empty where there is none. `certificate` is the
    client's own, if it has one, and `renewal` says when a program gives the next; `source` is there when the files can
    be followed. A `door` leads to a server of this process, which knows us by it.
    """

    host: str
    tls: ssl.SSLContext | None = None
    authorization: Authorization = nobody
    proxy: str = ""
    server_name: str = ""
    certificate: ShownCertificate | None = None
    source: Source | None = None
    renewal: Renewal | None = None
    door: InnerDoor | None = None


def from_kubeconfig(path: str | Path) -> Connection:
    """The current context of a kubeconfig; the directory of a Pod's service account will do as well.

    Raises:
        KubeconfigError: when it cannot be read or does not hold together.
    """
    if Path(path, TOKEN).is_file():
        return from_service_account(Path(path))
    # Before it is read: any write from now on is a change.
    noted = {str(path): read_file_state(str(path))}
    document = read_kubeconfig(path)
    noted |= states(_find_named_files(document, Path(path)))
    made = from_document(document, Path(path))
    return replace(made, source=Source(noted, functools.partial(from_kubeconfig, path), made.renewal))


def from_document(document: dict[str, Any], path: Path) -> Connection:
    """The current context of a kubeconfig's document; relative file names in it count from `path`.

    Raises:
        KubeconfigError: when it does not hold together.
    """
    try:
        cluster, user = current_entries(document)
        server = text_of(cluster, "server").rstrip("/")
        if not server:
            raise KubeconfigFault("its cluster has no server")
        with contextlib.ExitStack() as stack:
            pems = PemFiles(stack, path.parent)
            if is_tls := server.startswith("https://"):
                pems.take(cluster, "certificate-authority")
                pems.take(user, "client-certificate", "client-key")
            authorization = identify(user, cluster, pems, path.parent)
            return Connection(
                server,
                pems.context(verify=not cluster.get("insecure-skip-tls-verify")) if is_tls else None,
                authorization,
                proxy=proxy_for(server, text_of(cluster, "proxy-url"), getproxies()),
                server_name=text_of(cluster, "tls-server-name"),
                certificate=pems.show_certificate(path) if is_tls else None,
                renewal=pems.renewal if is_tls else None,
            )
    except (KubeconfigFault, OSError, ValueError, KeyError, TypeError) as error:
        raise KubeconfigError(f"{path}: {error}") from error


def from_door(door: InnerDoor) -> Connection:
    """A server of this process: it knows us by the door, so that nothing has to be proved or followed."""
    return Connection(door.host, door=door)


def from_service_account(directory: Path = ACCOUNT_DIRECTORY) -> Connection:
    """The API server of the cluster that this process is a Pod of; its token is read again as it is replaced.

    Raises:
        KubeconfigError: when it is none.
    """
    # The token has a reader of its own.
    noted = states([str(directory / CA)])
    try:
        account = read_service_account(directory, os.environ)
        with contextlib.ExitStack() as stack:
            pems = PemFiles(stack, directory)
            pems.take({"certificate-authority": CA}, "certificate-authority")
            tls = pems.context(verify=True)
        return Connection(
            account.host,
            tls,
            account.authorization,
            proxy=proxy_for(account.host, "", getproxies()),
            source=Source(noted, functools.partial(from_service_account, directory)),
        )
    except (ServiceAccountError, KubeconfigFault, OSError) as error:
        raise KubeconfigError(f"service account: {error}") from error


def _find_named_files(document: dict[str, Any], path: Path) -> list[str]:
    """The files that a kubeconfig names."""
    return [
        str(path.parent / values[key])
        for values, key in file_keys(document)
        if isinstance(values.get(key), str) and values[key] and not values.get(f"{key}-data")
    ]
