"""Credentials from a program that a kubeconfig names: `exec`, by the protocol of client.authentication.k8s.io.

Called by `identity`; `renewed_token` has the program run again shortly before its token ends. The program is the user's
own choice: it gets the environment and, where it may ask its user, the terminal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from kvedge.kube.credentials.renewed_token import Token
from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault, list_of, map_of, text_of
from kvedge.runtime.clock import parse_rfc3339

_GROUP: Final = "client.authentication.k8s.io/"
# A cluster's own settings for the program stand among its extensions under this name.
_SETTINGS: Final = "client.authentication.k8s.io/exec"
_INFO: Final = "KUBERNETES_EXEC_INFO"
# Where nobody can be asked for anything.
_SECONDS: Final = 60.0
_OF_CLUSTER: Final = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")


class Credential(Struct, frozen=True):
    """What a program has answered: a token, a certificate with its key, or both."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    ends: datetime | None = None


class ExecPlugin:
    """One program with its arguments, ready to be run."""

    def __init__(self, entry: Mapping[str, Any], cluster: Mapping[str, Any], authority: str, base: Path) -> None:
        """`entry` is a user's `exec`; `authority` is the cluster's CA in base64; `base` the kubeconfig's directory.

        Raises:
            KubeconfigFault: when the entry does not hold together.
        """
        self._version = text_of(entry, "apiVersion")
        self._command = text_of(entry, "command")
        if not self._command or not self._version.startswith(_GROUP):
            raise KubeconfigFault(f"exec: it needs a command, and an apiVersion of {_GROUP}v1 or v1beta1")
        self._arguments = [str(word) for word in list_of(entry, "args")]
        self._environment = {str(item["name"]): str(item["value"]) for item in list_of(entry, "env")}
        self._mode = text_of(entry, "interactiveMode")
        self._hint = text_of(entry, "installHint")
        self._cluster = _cluster_info(cluster, authority) if entry.get("provideClusterInfo") else None
        self._base = base

    def run(self) -> Credential:
        """Run it to its end.

        Raises:
            KubeconfigFault: when it fails, or what it prints makes no sense.
        """
        is_interactive = self._mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if self._mode == "Always" and not is_interactive:
            raise KubeconfigFault(f"exec: {self._command} needs a terminal, and there is none")
        # The user at the terminal reads there how to log in, and may take a while, also with a pipe as the input.
        is_watched = is_interactive or (sys.stderr is not None and sys.stderr.isatty())
        try:
            done = subprocess.run(
                [self._program(), *self._arguments],
                env={**os.environ, **self._environment, _INFO: json.dumps(self._info(is_interactive=is_interactive))},
                stdin=None if is_interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if is_watched else subprocess.PIPE,
                timeout=None if is_watched else _SECONDS,
                check=False,
            )
        except FileNotFoundError as error:
            raise KubeconfigFault(f"exec: there is no program {self._command}; {self._hint}".rstrip("; ")) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KubeconfigFault(f"exec: {self._command} cannot be run: {error}") from error
        if done.returncode != 0:
            said = (done.stderr or b"").decode(errors="replace").strip()[-500:]
            raise KubeconfigFault(f"exec: {self._command} ended with {done.returncode}. {said}".rstrip(". "))
        return self._read(done.stdout)

    def _program(self) -> str:
        """A name is looked for in the PATH; a relative path counts from the kubeconfig."""
        return str((self._base / self._command).absolute()) if "/" in self._command else self._command

    def _info(self, *, is_interactive: bool) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        return {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}

    def _read(self, printed: bytes) -> Credential:
        try:
            answer = json.loads(printed)
        except ValueError as error:
            raise KubeconfigFault(f"exec: {self._command} has not printed JSON: {error}") from error
        if not isinstance(answer, dict) or answer.get("apiVersion") != self._version:
            raise KubeconfigFault(f"exec: {self._command} has not answered by {self._version}")
        status = map_of(answer, "status")
        token, ends = text_of(status, "token"), text_of(status, "expirationTimestamp")
        certificate, key = text_of(status, "clientCertificateData"), text_of(status, "clientKeyData")
        if bool(certificate) != bool(key) or not (token or certificate):
            raise KubeconfigFault(f"exec: {self._command} gives neither a token nor a certificate with its key")
        return Credential(token, certificate.encode(), key.encode(), self._moment(ends) if ends else None)

    def _moment(self, text: str) -> datetime:
        try:
            moment = parse_rfc3339(text)
        except ValueError as error:
            raise KubeconfigFault(f"exec: {self._command}: expirationTimestamp: {error}") from error
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def renew(self) -> Token:
        """The next token.

        Raises:
            KubeconfigFault: as :meth:`run`, or when the program gives none any more.
        """
        made = self.run()
        if not made.token:
            raise KubeconfigFault(f"exec: {self._command} gives no token any more")
        return Token(made.token, made.ends)


def _cluster_info(cluster: Mapping[str, Any], authority: str) -> dict[str, Any]:
    told = {key: cluster[key] for key in _OF_CLUSTER if cluster.get(key)}
    if authority:
        told["certificate-authority-data"] = authority
    for extension in list_of(cluster, "extensions"):
        if isinstance(extension, dict) and extension.get("name") == _SETTINGS:
            told["config"] = extension.get("extension")
    return told
