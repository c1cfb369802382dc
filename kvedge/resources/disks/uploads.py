"""What the roles, workers and clients agree on of uploads: names, paths, headers.

Read by the controller (worker Pods and their certificates), the api role (tokens and the proxy), the worker's server
and the command line. Touches nothing. Names that are clients' too are CDI's; those of DataVolumes and of their claims
are in `data_volume_names`.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.data_volume_names import name_after

UPLOAD_VERSION: Final = "v1beta1"
TOKEN_REQUESTS: Final = "uploadtokenrequests"
TOKEN_REQUEST_KIND: Final = "UploadTokenRequest"

# The Secret with the authority of workers and of the proxy that speaks to them.
UPLOAD_AUTHORITY_SECRET: Final = "kvedge-upload-ca"
# The common name of the proxy's certificate: a worker serves nobody else.
UPLOAD_CLIENT_NAME: Final = "client.upload-server.cdi.kubevirt.io"
# The ConfigMap in the system's namespace with the proxy's URL and authority, which CDIConfig tells clients.
UPLOAD_PROXY_CONFIG: Final = "kvedge-upload-proxy"
UPLOAD_PROXY_URL_KEY: Final = "url"
UPLOAD_PROXY_CA_KEY: Final = "ca.crt"

# Below each version: the call that answers when all is done, and the one that answers once the data is valid. The
# forms take the same as multipart/form-data, in the field `file`.
UPLOAD_VERSIONS: Final = ("v1beta1", "v1alpha1")
SYNC: Final = "upload"
# Where the sender of a clone brings a disk.
CLONE_PATH: Final = f"/{UPLOAD_VERSIONS[0]}/{SYNC}"
ASYNC: Final = "upload-async"
UPLOAD_CALLS: Final = (SYNC, ASYNC, "upload-form", "upload-form-async")
UPLOAD_PATHS: Final = frozenset(f"/{version}/{call}" for version in UPLOAD_VERSIONS for call in UPLOAD_CALLS)

# How an upload goes on after a broken connection. A HEAD answers how much of which upload is there; a POST with both
# headers begins at that byte. The identity is the client's, a digest of what it sends.
UPLOAD_OFFSET_HEADER: Final = "X-Kvedge-Upload-Offset"
UPLOAD_ID_HEADER: Final = "X-Kvedge-Upload-Id"
LONGEST_UPLOAD_ID: Final = 128
# Of the names of workers' Pods and of their Secrets.
UPLOAD_PREFIX: Final = "cdi-upload-"
CLONE_SENDER_PREFIX: Final = f"{UPLOAD_PREFIX}source-"


def upload_pod_name(claim: str) -> str:
    """The worker Pod of a claim, and its Secret with certificates.

    >>> upload_pod_name("disk")
    'cdi-upload-disk'
    """
    return name_after(UPLOAD_PREFIX, claim)


def upload_server_name(claim_uid: str) -> str:
    """The name that a worker's certificate is for: no worker can take what is meant for another claim."""
    return f"{claim_uid}.upload.kvedge.io"


def clone_client_name(claim_uid: str) -> str:
    """The name of the certificate by which the sender of a clone may fill this claim, and no other."""
    return f"{claim_uid}.clone.kvedge.io"


def clone_sender_name(claim_uid: str) -> str:
    """The Pod that sends a disk to the worker of the claim with that UID, and its Secret with certificates."""
    return f"{CLONE_SENDER_PREFIX}{claim_uid}"
