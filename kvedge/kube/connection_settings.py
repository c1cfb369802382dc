"""Where an API server is and how to prove who we are: a kubeconfig, or a Pod's service account.

Called by :mod:`kvedge.kube.rest_edge`. Reads the kubeconfig and the files that it names, and notes which they were:
:mod:`kvedge.kube.live_connection` follows them. Keys embedded in a kubeconfig never touch a disk: the client library
would leave them in temporary files, which a killed process never removes, so they are handed to OpenSSL through memory
files instead.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import ipaddress
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from kubernetes.client.configuration import Configuration

from kvedge.kube.client_certificate import ShownCertificate, leaf_of
from kvedge.kube.credential_files import FileState, file_state, is_changed, states
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError, file_keys, read_kubeconfig
from kvedge.kube.kubeconfigs.plain_kubeconfig import load_plain
from kvedge.kube.service_account import ACCOUNT_DIRECTORY, CA, TOKEN, ServiceAccountError, load_service_account


class _Refused(Exception):
    """What the client library said, or OpenSSL of which file."""


@dataclass(frozen=True, slots=True)
class Source:
    """The files that a connection was made from, as they were just before they were read."""

    noted: Mapping[str, FileState | None]
    read: Callable[[], Connection]

    @property
    def is_changed(self) -> bool:
        """Whether one of them is another one now."""
        return is_changed(self.noted)

    def again(self) -> Connection:
        """The connection that they stand for now.

        Raises:
            KubeconfigError: when one that is needed has gone or is not usable.
        """
        return self.read()


@dataclass(frozen=True, slots=True)
class Connection:
    """One server: the client library's configuration (address, tokens, proxy) and one TLS context for all sockets.

    `certificate` is the client's own, if it has one; `source` is there when the files can be followed.
    """

    configuration: Configuration
    tls: ssl.SSLContext | None
    certificate: ShownCertificate | None = None
    source: Source | None = None


def from_kubeconfig(path: str | Path) -> Connection:
    """The current context of a kubeconfig; the directory of a Pod's service account will do as well.

    Raises:
        KubeconfigError: when it cannot be read or does not hold together.
    """
    if Path(path, TOKEN).is_file():
        return from_service_account(Path(path))
    # Before it is read: what is written from now on is a change.
    noted = {str(path): file_state(str(path))}
    document = read_kubeconfig(path)
    noted |= states(_named_files(document, Path(path)))
    made = from_document(document, Path(path))
    return replace(made, source=Source(noted, functools.partial(from_kubeconfig, path)))


def from_document(document: dict[str, Any], path: Path) -> Connection:
    """The current context of a kubeconfig's document; relative file names in it count from `path`.

    Raises:
        KubeconfigError: when it does not hold together.
    """
    configuration = Configuration()
    try:
        with _memory_files(document, path.parent) as embedded:
            if not load_plain(document, configuration):
                _load_any(document, configuration)
            _leave_own_host_out_of_proxies(configuration)
            shown = _shown(configuration, path, embedded)
            return Connection(configuration, _tls_context(configuration, embedded), shown)
    except (_Refused, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise KubeconfigError(f"{path}: {error}") from error


def from_service_account(directory: Path = ACCOUNT_DIRECTORY) -> Connection:
    """The API server of the cluster that this process is a Pod of; its token is read again as it is replaced.

    Raises:
        KubeconfigError: when it is none.
    """
    configuration = Configuration()
    # The token has a reader of its own.
    noted = states([str(directory / CA)])
    try:
        load_service_account(directory, os.environ, configuration)
        source = Source(noted, functools.partial(from_service_account, directory))
        return Connection(configuration, _tls_context(configuration), source=source)
    except (ServiceAccountError, _Refused, OSError) as error:
        raise KubeconfigError(f"service account: {error}") from error


def _load_any(document: dict[str, Any], configuration: Configuration) -> None:
    # It brings OAuth, requests and pydantic along: 12 MB, which the plain kubeconfigs of a node's own roles can do
    # without.
    from kubernetes.config import load_kube_config_from_dict
    from kubernetes.config.config_exception import ConfigException

    try:
        load_kube_config_from_dict(document, client_configuration=configuration, persist_config=False)
    except ConfigException as error:
        raise _Refused(str(error)) from error


@contextlib.contextmanager
def _memory_files(document: dict[str, Any], base: Path) -> Iterator[dict[str, str]]:
    """Replace embedded data by paths of memory files, and relative paths by absolute ones, in place.

    Yields what each memory file is called in the kubeconfig.
    """
    embedded = {}
    with contextlib.ExitStack() as stack:
        for values, key in file_keys(document):
            data = values.pop(f"{key}-data", None)
            if data:
                values[key] = _memory_file(stack, base64.standard_b64decode(data))
                embedded[values[key]] = f"{key}-data"
            elif values.get(key):
                values[key] = str(base / values[key])
        yield embedded


def _named_files(document: dict[str, Any], path: Path) -> list[str]:
    """The files that a kubeconfig names."""
    return [
        str(path.parent / values[key])
        for values, key in file_keys(document)
        if isinstance(values.get(key), str) and values[key] and not values.get(f"{key}-data")
    ]


def _memory_file(stack: contextlib.ExitStack, content: bytes) -> str:
    descriptor = os.memfd_create("kubeconfig", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    os.write(descriptor, content)
    return f"/proc/self/fd/{descriptor}"


def _leave_own_host_out_of_proxies(configuration: Configuration) -> None:
    """A proxy that the environment names is for the outside: kubectl never asks it for the loopback either."""
    host = urlsplit(configuration.host).hostname or ""
    try:
        is_own = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_own = False
    # One that the kubeconfig itself names stays, even for the loopback.
    if is_own and configuration.proxy in getproxies().values():
        configuration.proxy = None


def _shown(configuration: Configuration, path: Path, embedded: Mapping[str, str]) -> ShownCertificate | None:
    if not configuration.cert_file:
        return None
    pem = leaf_of(Path(configuration.cert_file).read_bytes())
    return ShownCertificate(pem, str(path) if configuration.cert_file in embedded else configuration.cert_file)


def _tls_context(configuration: Configuration, embedded: Mapping[str, str] | None = None) -> ssl.SSLContext | None:
    """One context for all sockets: made once, it costs no file and no parsing per connection."""
    if not configuration.host.startswith("https://"):
        return None
    try:
        return _made_context(configuration)
    except OSError as error:
        # OpenSSL does not say of which file it speaks.
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        names = ", ".join(dict.fromkeys((embedded or {}).get(file, file) for file in files if file))
        why = getattr(error, "reason", None) or error.strerror or error
        raise _Refused(f"{why} (of {names})") from error


def _made_context(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Python 3.13 refuses CAs without key identifiers, such as those of older k3s; the chain is still checked.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    # The pool must not load them again: the memory files are gone by then.
    configuration.ssl_ca_cert = configuration.cert_file = configuration.key_file = None
    return context
