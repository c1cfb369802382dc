"""What a worker Pod is told that fills a claim: where data comes from, where it goes, and how it is judged.

Rendered by the controller into the worker's environment, read by the worker; both roles meet here alone. Sizes are
bytes. Credentials are never part of it: they are files in the Pod. Touches nothing.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import KubeStruct

# The environment variable with the job, as JSON.
JOB_VARIABLE: Final = "KVEDGE_IMPORT_JOB"
# Where things are in a worker's Pod. A claim with a file system, a claim of mode Block, and the same for a clone's
# source; an image of the node's is where a clone's source is.
TARGET_DIRECTORY: Final = "/data"
TARGET_DEVICE: Final = "/dev/kvedge-target"
SOURCE_DIRECTORY: Final = "/source"
SOURCE_DEVICE: Final = "/dev/kvedge-source"
# Keys of mounted Secrets and ConfigMaps as files: accessKeyId and secretKey; certificates; one header in each file.
CREDENTIALS_DIRECTORY: Final = "/var/run/kvedge/import/credentials"
CERTIFICATES_DIRECTORY: Final = "/var/run/kvedge/import/certificates"
HEADERS_DIRECTORY: Final = "/var/run/kvedge/import/headers"
# The certificates of an upload's server: tls.crt, tls.key, and ca.crt, by which it knows the proxy.
UPLOAD_CERTIFICATES_DIRECTORY: Final = "/var/run/kvedge/import/upload"
# The worker answers `GET /progress` there, by plain HTTP: {"progress": "12.34%"}.
PROGRESS_PORT: Final = 8080
# An upload's worker takes data there, by HTTPS, from the proxy alone.
UPLOAD_PORT: Final = 8443


class HttpSource(KubeStruct, kw_only=True):
    """An image or an archive at a URL; `checksum` is `algorithm:hex` over the bytes as they are sent.

    `is_archive` says that there must be an archive of a container disk: oci-archive of a registry source.
    """

    url: str
    checksum: str = ""
    extra_headers: list[str] = []
    insecure_skip_verify: bool = False
    is_archive: bool = False


class RegistrySource(KubeStruct, kw_only=True):
    """A container disk by docker://; insecure registries are spoken to by HTTP."""

    url: str
    architecture: str = ""
    insecure: bool = False


class ImageSource(KubeStruct, kw_only=True):
    """A container disk that the node has pulled, or had already, mounted read-only beside the target."""

    name: str


class S3Source(KubeStruct, kw_only=True):
    """An object of an S3-compatible store, or of Google's with `gcs`."""

    url: str
    gcs: bool = False


class CloneSource(KubeStruct, kw_only=True):
    """Another claim, mounted read-only beside the target; a remote one is sent by a worker in its own namespace."""

    block: bool = False
    remote: bool = False
    # It keeps the state of a VM's TPM and UEFI firmware: while it is empty, so is that state.
    state: bool = False


class CloneTarget(KubeStruct, kw_only=True):
    """The worker that takes a claim's disk for another namespace: its address, and the name of its certificate."""

    address: str
    server_name: str


class ImportJob(KubeStruct, kw_only=True):
    """One claim to fill; exactly one source is set, and none of them for a blank disk.

    With `poll` the job fills nothing either: it only tells the digest of what the source has now.
    With `send` the job fills nothing: it sends the source's disk to the worker that does.
    `uid` is the claim's: by it the sender of a remote clone is known, and the disk of an earlier worker.
    `size` is what the guest's disk shall have: a larger image is refused, a smaller one grows to it; 0 leaves a block
    device as large as it is. `archive` unpacks a tar into the claim's file system.
    """

    name: str
    uid: str = ""
    size: int = 0
    block: bool = False
    preallocate: bool = False
    archive: bool = False
    http: HttpSource | None = None
    registry: RegistrySource | None = None
    image: ImageSource | None = None
    s3: S3Source | None = None
    clone: CloneSource | None = None
    send: CloneTarget | None = None
    upload: bool = False
    poll: bool = False

    @property
    def listens(self) -> bool:
        """Whether data is brought to the worker, and not fetched by it."""
        return self.upload or (self.clone is not None and self.clone.remote and self.send is None)


class ImportOutcome(KubeStruct, kw_only=True):
    """What the worker leaves as its container's termination message, as JSON.

    `fatal` says that trying again cannot help (a wrong checksum). `reason` is one word for a condition, `message` is
    for the user. `labels` are what a container disk says of itself (KUBEVIRT_IO_…), for the claim.
    """

    message: str = ""
    reason: str = ""
    fatal: bool = False
    virtual_size: int = 0
    preallocated: bool = False
    labels: dict[str, str] = {}
    digest: str = ""
