"""The certificates and keys of one connection, and the TLS context that is made of them.

Called by `connection_settings`. OpenSSL reads keys from files only: what is embedded in a kubeconfig, or comes from a
credential plugin, is handed to it through memory files, and never touches a disk, where a killed process would leave
it.
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from kvedge.kube.credentials.client_certificate import ShownCertificate, leaf_of
from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault, text_of


class Renewal(Struct, frozen=True):
    """A client's certificate comes from a program; `due` is when to ask for the next one, None for never."""

    due: datetime | None


class PemFiles:
    """Files by the kubeconfig's keys for them; usable as long as the stack is open."""

    def __init__(self, stack: contextlib.ExitStack, base: Path) -> None:
        """Relative names count from `base`."""
        self._stack = stack
        self._base = base
        self._paths: dict[str, str] = {}
        # What a memory file is called in the kubeconfig.
        self._embedded: dict[str, str] = {}
        # Of a certificate that a program gave: when to run it again. Others are followed by their files.
        self.renewal: Renewal | None = None

    def take(self, values: Mapping[str, Any], *keys: str) -> None:
        """Take these keys of an entry over, embedded data before a file.

        Raises:
            KubeconfigFault: for data that is no base64, and for a file that is not there.
        """
        for key in keys:
            if data := text_of(values, f"{key}-data"):
                try:
                    self.embed(key, base64.standard_b64decode(data), f"{key}-data")
                except ValueError as error:
                    raise KubeconfigFault(f"{key}-data: {error}") from error
            elif name := text_of(values, key):
                path = self._base / name
                if not path.is_file():
                    raise KubeconfigFault(f"{key}: {path} does not exist")
                self._paths[key] = str(path)

    def embed(self, key: str, content: bytes, name: str) -> None:
        """Take content over that is in no file; `name` is what it is called."""
        descriptor = os.memfd_create("kubeconfig", os.MFD_CLOEXEC)
        self._stack.callback(os.close, descriptor)
        os.write(descriptor, content)
        path = f"/proc/self/fd/{descriptor}"
        self._paths[key], self._embedded[path] = path, name

    def read(self, key: str) -> bytes:
        """The content of a file; empty when there is none."""
        return Path(self._paths[key]).read_bytes() if key in self._paths else b""

    def show_certificate(self, kubeconfig: Path) -> ShownCertificate | None:
        """The client's certificate, if there is one."""
        path = self._paths.get("client-certificate")
        if path is None:
            return None
        return ShownCertificate(leaf_of(Path(path).read_bytes()), str(kubeconfig) if path in self._embedded else path)

    def context(self, *, verify: bool) -> ssl.SSLContext:
        """One context for all sockets: made once, it costs no file and no parsing per connection.

        Raises:
            KubeconfigFault: when OpenSSL cannot use a file.
        """
        try:
            return self._context(verify=verify)
        except OSError as error:
            # OpenSSL does not say of which file it speaks.
            names = ", ".join(dict.fromkeys(self._embedded.get(path, path) for path in self._paths.values()))
            why = getattr(error, "reason", None) or error.strerror or error
            raise KubeconfigFault(f"{why} (of {names})") from error

    def _context(self, *, verify: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._paths.get("certificate-authority"))
        # Python 3.13 refuses CAs without key identifiers, such as those of older k3s; the chain is still checked.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate := self._paths.get("client-certificate"):
            context.load_cert_chain(certificate, self._paths.get("client-key"))
        return context
