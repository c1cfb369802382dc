"""Exports as objects: made with a token, waited for until they are served, and removed.

Used by `kvedge export`, `kvedge vmexport` and `kvedge memory-dump download`. Talks to the API server.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import secrets
import string
import time
from collections.abc import Callable
from typing import Final

from kvedge.client.errors import ClientError, NotFoundError, RefusedError, TimedOutError, UsageError
from kvedge.client.session import Session, check_name
from kvedge.client.vm_wait import Progress
from kvedge.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound, Unavailable
from kvedge.resources.codec import JsonObject

_GROUP: Final = "/apis/export.kubevirt.io"
_MERGE: Final = "application/merge-patch+json"
_LOOK_SECONDS: Final = 0.5
_LETTERS: Final = string.ascii_letters + string.digits
_TOKEN_LENGTH: Final = 20


class ExportCalls:
    """The exports of one namespace."""

    def __init__(self, session: Session, pause: Callable[[float], None] = time.sleep) -> None:
        """`pause` waits for so many seconds."""
        self._session = session
        self._pause = pause
        self._version = ""

    def find(self, name: str) -> JsonObject | None:
        """An export; None when there is none of that name."""
        try:
            return self._read(self._path(check_name(name)))
        except NotFound:
            return None

    def make(self, name: str, source: JsonObject, secret: str, ttl: str) -> tuple[JsonObject, str]:
        """Make an export, and its token in a Secret that goes with it; both.

        Raises:
            UsageError: there is one of that name.
            KubeError: when the server refuses; then nothing is left.
        """
        path, namespace = self._path(check_name(name)), self._session.namespace
        spec: JsonObject = {"source": source, "tokenSecretRef": secret}
        if ttl:
            spec["ttlDuration"] = ttl
        document = {
            "apiVersion": path.removeprefix("/apis/").partition("/namespaces/")[0],
            "kind": "VirtualMachineExport",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
        try:
            made: JsonObject = self._session.client.request("POST", path.rpartition("/")[0], document)
        except AlreadyExists as error:
            text = f"VirtualMachineExport '{namespace}/{name}' already exists: choose another name"
            raise UsageError(text) from error
        metadata = {"name": secret, "namespace": namespace, "ownerReferences": [_own(made)]}
        token = "".join(secrets.choice(_LETTERS) for _ in range(_TOKEN_LENGTH))
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": "Opaque",
            "stringData": {"token": token},
        }
        try:
            self._session.client.request("POST", f"/api/v1/namespaces/{namespace}/secrets", document)
        except BaseException:
            with contextlib.suppress(KubeError, OSError):
                self.remove(name)
            raise
        return made, token

    def hand_over(self, path: str, export: JsonObject) -> None:
        """Have an object go with an export, which ends by itself: a killed program removes neither."""
        # A role may let its user make objects, and change none.
        with contextlib.suppress(Forbidden):
            self._session.client.request("PATCH", path, {"metadata": {"ownerReferences": [_own(export)]}}, None, _MERGE)

    def remove(self, name: str) -> bool:
        """Remove an export; whether there was one."""
        try:
            self._session.client.request("DELETE", self._path(check_name(name)))
        except NotFound:
            return False
        return True

    def read_token(self, export: JsonObject) -> str:
        """The token of an export.

        Raises:
            NotFoundError: it has none.
        """
        spec, status = export.get("spec") or {}, export.get("status") or {}
        name = str(spec.get("tokenSecretRef") or status.get("tokenSecretRef") or "")
        try:
            if not name:
                raise ValueError("it names no Secret")
            found = self._read(f"/api/v1/namespaces/{self._session.namespace}/secrets/{check_name(name)}")
            return base64.b64decode((found.get("data") or {})["token"], validate=True).decode("ascii")
        except (NotFound, KeyError, ValueError, binascii.Error) as error:
            raise NotFoundError(
                f"the export {export['metadata']['name']} has no token in a Secret {name}: {str(error)[:200]}"
            ) from error

    def wait(
        self,
        name: str,
        seconds: float,
        progress: Callable[[], Progress],
        subject: str,
        is_served: Callable[[JsonObject], bool],
    ) -> JsonObject:
        """The export, once it is ready and `is_served()` finds what it needs in its links; `subject` is in messages.

        Raises:
            RefusedError: there is nothing to be exported.
            TimedOutError: it takes too long.
        """
        deadline, said = time.monotonic() + seconds, "not seen by the controller yet"
        path = self._path(check_name(name))
        with progress() as shown:
            while True:
                with contextlib.suppress(Unavailable):
                    found = self._read(path)
                    status = found.get("status") or {}
                    said = describe_status(status)
                    if status.get("phase") == "Ready" and is_served(status.get("links") or {}):
                        return found
                    if status.get("phase") == "Skipped":
                        raise RefusedError(f"{subject} has no disk that can be exported: {said}")
                if time.monotonic() > deadline:
                    raise TimedOutError(f"timed out after {seconds:g} s waiting for the export of {subject}: {said}")
                shown.show(f"{subject}: {said}")
                self._pause(_LOOK_SECONDS)

    def _path(self, name: str) -> str:
        """With the version that the server prefers: an older KubeVirt has no v1."""
        if not self._version:
            try:
                found = self._read(_GROUP)
            except NotFound as error:
                raise ClientError("this server exports no VMs: it has no API group export.kubevirt.io") from error
            self._version = str((found.get("preferredVersion") or {}).get("version") or "v1")
        return f"{_GROUP}/{self._version}/namespaces/{self._session.namespace}/virtualmachineexports/{name}"

    def _read(self, path: str) -> JsonObject:
        found: JsonObject = self._session.client.request("GET", path)
        return found


def _own(export: JsonObject) -> JsonObject:
    return {
        "apiVersion": export["apiVersion"],
        "kind": export["kind"],
        "name": export["metadata"]["name"],
        "uid": export["metadata"]["uid"],
        "blockOwnerDeletion": False,
    }


def describe_status(status: JsonObject) -> str:
    """How far an export is, and what it waits for."""
    words = [
        f"{each.get('reason') or ''}: {each.get('message')}" if each.get("message") else str(each.get("reason") or "")
        for each in status.get("conditions") or ()
        # That of the claims says who uses one.
        if each.get("status") == "False" or each.get("message")
    ]
    return f"{status.get('phase') or 'Pending'}{' - ' if words else ''}{'; '.join(words)[:500]}"
