"""`image-upload` as virtctl does it: a DataVolume, a wait for its worker, a token, the data, a DataSource.

Called by the verb. Talks to the API server and the upload proxy; prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from kvedge.client.errors import ClientError, NotFoundError, RefusedError, UsageError
from kvedge.client.session import Session, check_name
from kvedge.client.uploads.golden_image import lead_data_source
from kvedge.client.uploads.upload_source import UploadSource
from kvedge.client.uploads.upload_stream import ProxyAddress, UploadStream
from kvedge.kube.errors import AlreadyExists, NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import (
    ARCHIVE_CONTENT,
    BIND_IMMEDIATELY,
    CDI_GROUP,
    CONTENT_TYPE,
    FATAL_ERROR,
    KUBEVIRT_CONTENT,
    POD_PHASE,
    POD_READY,
    RUNNING_MESSAGE,
    UPLOAD_GROUP,
    UPLOAD_TARGET,
)
from kvedge.resources.disks.uploads import TOKEN_REQUEST_KIND, TOKEN_REQUESTS, UPLOAD_VERSION

_CDI: Final = f"/apis/{CDI_GROUP}/v1beta1"
_LOOK_SECONDS: Final = 1.0
# A conversion of a large image on a small host; virtctl waits as long.
_PROCESSING_SECONDS: Final = 24 * 3600.0
_WAITING: Final = ("WaitForFirstConsumer", "PendingPopulation")


class UploadWish(Struct, frozen=True):
    """What to upload, and into which DataVolume, or with `bare` into which claim.

    Empty texts leave the choice to the server.
    """

    name: str
    source: UploadSource
    size: str = ""
    storage_class: str = ""
    access_mode: str = ""
    volume_mode: str = ""
    archive: bool = False
    bare: bool = False
    create: bool = True
    force_bind: bool = False
    # Whether the DataVolume and a guest that uses it are on their way.
    is_expected: bool = False
    data_source: bool = False
    proxy_url: str = ""
    insecure: bool = False
    tries: int = 5
    wait_seconds: float = 300.0


class ImageUpload:
    """One upload."""

    def __init__(
        self,
        session: Session,
        wish: UploadWish,
        tell: Callable[[str], None],
        show: Callable[[int, int], None],
        pause: Callable[[float], None],
    ) -> None:
        """`tell` gets what happens, `show` how much was sent of how much, `pause` waits."""
        self._session = session
        self._wish = wish
        self._tell = tell
        self._show = show
        self._pause = pause
        self._name = check_name(wish.name)

    def run(self) -> None:
        """Do it.

        Raises:
            ClientError, KubeError: with what is in the way.
        """
        self.ensure_target()
        self._wait_ready()
        address = self.find_address()
        self._tell(f"uploading to {address.url}")
        UploadStream(address, self._wish.source, self.ask_token, self._show, self._pause).send(self._wish.tries)
        if self._wish.data_source:
            self._ensure_data_source()
        self._wait_done()

    def ensure_target(self) -> None:
        """Have the DataVolume, or the claim, there. Raises ClientError and KubeError."""
        claim = self._read(self._claim_path)
        if claim is not None:
            self._check_claim(claim)
            if self._wish.bare:
                self._mark(claim)
            return
        if self._wish.create:
            if not self._wish.size:
                raise UsageError("--size: needed for a new disk, such as 10Gi")
            path, document = self._dv_path, self._data_volume()
            if self._wish.bare:
                path, document = self._claim_path, self._claim()
            try:
                self._call("POST", path.rpartition("/")[0], document)
                self._tell(f"{document['kind']} {self._session.namespace}/{self._name} was created")
            except AlreadyExists:
                return
        elif self._wish.bare or (not self._wish.is_expected and self._read(self._dv_path) is None):
            raise NotFoundError(f"{self._session.namespace}/{self._name} is not there: leave --no-create away")

    def _mark(self, claim: JsonObject) -> None:
        """Have a claim that is there take an upload."""
        if UPLOAD_TARGET in (claim["metadata"].get("annotations") or {}):
            return
        owners = claim["metadata"].get("ownerReferences") or ()
        if any(owner.get("controller") for owner in owners):
            raise RefusedError(f"PVC {self._name} belongs to a DataVolume: use `kvedge image-upload dv {self._name}`")
        body = {"metadata": {"annotations": {UPLOAD_TARGET: ""}}}
        self._session.client.request("PATCH", self._claim_path, body, None, "application/merge-patch+json")

    def _claim(self) -> JsonObject:
        content = ARCHIVE_CONTENT if self._wish.archive else KUBEVIRT_CONTENT
        metadata = self._metadata()
        metadata["annotations"] |= {UPLOAD_TARGET: "", CONTENT_TYPE: content}
        spec = {"accessModes": ["ReadWriteOnce"], **self._spec()}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}

    def _check_claim(self, claim: JsonObject) -> None:
        annotations = claim["metadata"].get("annotations") or {}
        if annotations.get(POD_PHASE) == "Succeeded":
            raise RefusedError(f"PVC {self._name} already successfully imported/cloned/updated")
        if UPLOAD_TARGET not in annotations and self._wish.create:
            raise RefusedError(f"PVC {self._name} not available for upload: it is no upload's; choose another name")
        if self._wish.archive and annotations.get(CONTENT_TYPE) != ARCHIVE_CONTENT:
            raise RefusedError(f"PVC {self._name} doesn't have archive contentType annotation")

    def _spec(self) -> JsonObject:
        spec: JsonObject = {"resources": {"requests": {"storage": self._wish.size}}}
        if self._wish.storage_class:
            spec["storageClassName"] = self._wish.storage_class
        if self._wish.access_mode:
            spec["accessModes"] = [self._wish.access_mode]
        if self._wish.volume_mode:
            spec["volumeMode"] = self._wish.volume_mode.capitalize()
        return spec

    def _metadata(self) -> JsonObject:
        bind = {BIND_IMMEDIATELY: ""} if self._wish.force_bind else {}
        return {"name": self._name, "namespace": self._session.namespace, "annotations": bind}

    def _data_volume(self) -> JsonObject:
        content = ARCHIVE_CONTENT if self._wish.archive else "kubevirt"
        spec = {"source": {"upload": {}}, "contentType": content, "storage": self._spec()}
        kind = {"apiVersion": f"{CDI_GROUP}/v1beta1", "kind": "DataVolume"}
        return {**kind, "metadata": self._metadata(), "spec": spec}

    def _wait_ready(self) -> None:
        last = ""
        for _ in range(max(1, int(self._wish.wait_seconds / _LOOK_SECONDS))):
            is_ready, last = self.look_ready()
            if is_ready:
                return
            self._pause(_LOOK_SECONDS)
        raise ClientError(
            f"{self._name} did not become ready for the upload within {self._wish.wait_seconds:g} s: {last};"
            f" see `kvedge describe {'pvc' if self._wish.bare else 'dv'} {self._name}`"
        )

    def look_ready(self) -> tuple[bool, str]:
        """Whether data is taken now, and why not yet.

        Raises:
            RefusedError: when none will be.
        """
        if self._wish.bare:
            claim = self._read(self._claim_path) or {}
            self._check_open(claim)
            return explain_claim(claim)
        status = (self._read(self._dv_path) or {}).get("status") or {}
        last, phase = explain_status(status), status.get("phase")
        if phase in _WAITING and not (self._wish.force_bind or self._wish.is_expected):
            raise RefusedError(
                f"cannot upload to DataVolume in {phase} phase: add --force-bind, or start a VM that uses it"
            )
        if phase == "Succeeded":
            raise RefusedError(f"DataVolume {self._name} is filled already")
        if phase == "Failed":
            raise RefusedError(f"DataVolume {self._name} takes no upload: {last}")
        return phase == "UploadReady", last

    def _check_open(self, claim: JsonObject) -> None:
        """Whether the claim still can become ready: its disk may be there, or what is in it refuses one."""
        said = (claim.get("metadata") or {}).get("annotations") or {}
        if said.get(POD_PHASE) == "Succeeded":
            raise RefusedError(f"PVC {self._name} is filled already")
        if said.get(POD_PHASE) == "Failed":
            why = said.get(FATAL_ERROR) or said.get(RUNNING_MESSAGE) or f"see `kvedge describe pvc {self._name}`"
            raise RefusedError(f"PVC {self._name} takes no upload: {why}")

    def _wait_done(self) -> None:
        for _ in range(int(_PROCESSING_SECONDS / _LOOK_SECONDS)):
            if self.look_done():
                return
            self._pause(_LOOK_SECONDS)
        raise ClientError(f"the image in {self._name} was not converted within a day")

    def look_done(self) -> bool:
        """Whether what was sent is the disk by now.

        Raises:
            ClientError: when it will not be.
        """
        claim = self._read(self._claim_path)
        if claim is None:
            raise ClientError(f"PVC {self._name} was deleted before the image was in it")
        said = claim["metadata"].get("annotations") or {}
        if said.get(POD_PHASE) == "Failed":
            what = "PVC" if self._wish.bare else "DataVolume"
            why = said.get(FATAL_ERROR) or said.get(RUNNING_MESSAGE) or "see its conditions"
            raise RefusedError(
                f"what was sent cannot be the disk of {self._name}: {why}; delete the {what} and upload again"
            )
        return bool(said.get(POD_PHASE) == "Succeeded")

    def find_address(self) -> ProxyAddress:
        """Where data is taken. Raises ClientError when nothing tells it."""
        config = self._read(f"{_CDI}/cdiconfigs/config") or {}
        status, spec = config.get("status") or {}, config.get("spec") or {}
        url = self._wish.proxy_url or spec.get("uploadProxyURLOverride") or status.get("uploadProxyURL") or ""
        if not url:
            raise ClientError("uploadproxy URL not found: CDIConfig `config` tells none; name it by --uploadproxy-url")
        url = url if "://" in url else f"https://{url}"
        return ProxyAddress(url, str(status.get("uploadProxyCA") or ""), self._wish.insecure)

    def ask_token(self) -> str:
        """A new token for this claim."""
        document = {
            "apiVersion": f"{UPLOAD_GROUP}/{UPLOAD_VERSION}",
            "kind": TOKEN_REQUEST_KIND,
            "metadata": {"generateName": "token-for-kvedge-"},
            "spec": {"pvcName": self._name},
        }
        path = f"/apis/{UPLOAD_GROUP}/{UPLOAD_VERSION}/namespaces/{self._session.namespace}/{TOKEN_REQUESTS}"
        return str(self._call("POST", path, document)["status"]["token"])

    def _ensure_data_source(self) -> None:
        lead_data_source(self._session, self._name, self._name)
        self._tell(f"DataSource {self._session.namespace}/{self._name} leads to it")

    @property
    def _claim_path(self) -> str:
        return f"/api/v1/namespaces/{self._session.namespace}/persistentvolumeclaims/{self._name}"

    @property
    def _dv_path(self) -> str:
        return f"{_CDI}/namespaces/{self._session.namespace}/datavolumes/{self._name}"

    def _read(self, path: str) -> JsonObject | None:
        try:
            found: JsonObject = self._session.client.request("GET", path)
        except NotFound:
            return None
        return found

    def _call(self, method: str, path: str, body: JsonObject) -> Any:
        return self._session.client.request(method, path, body)


def explain_claim(claim: JsonObject) -> tuple[bool, str]:
    """Whether a claim without a DataVolume takes data, and why it does not yet."""
    said = (claim.get("metadata") or {}).get("annotations") or {}
    if said.get(POD_READY) == "true":
        return True, ""
    if said.get(RUNNING_MESSAGE):
        return False, str(said[RUNNING_MESSAGE])[:500]
    phase = (claim.get("status") or {}).get("phase") or "Pending"
    hint = "" if phase == "Bound" else "; add --force-bind when no VM uses it yet"
    return False, f"the PVC is {phase}{hint}"


def explain_status(status: JsonObject) -> str:
    """What a DataVolume's status says of why it is not further, for a user."""
    phase = status.get("phase") or "Pending"
    words = [
        str(item["message"])
        for item in status.get("conditions") or ()
        if item.get("status") != "True" and item.get("message")
    ]
    return f"the DataVolume is {phase}" + (f" ({'; '.join(words)[:500]})" if words else "")
