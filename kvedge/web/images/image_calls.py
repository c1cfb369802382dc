"""What the page of images asks of the API server, and the steps of an upload besides its data.

Called by `page_calls` in threads of their own, with the user's own rights. Raises what the client raises. An upload's
steps are `kvedge image-upload`'s, each by itself: the page goes from one to the next, and begins again where its
connection broke.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.client.errors import FlagError, RefusedError
from kvedge.client.session import Session, check_name
from kvedge.client.uploads.golden_image import lead_data_source
from kvedge.client.uploads.image_upload import ImageUpload, UploadWish
from kvedge.client.uploads.upload_relay import RelayedSource
from kvedge.client.uploads.upload_stream import ProxyAddress, UploadStream
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import UPLOAD_GROUP
from kvedge.resources.disks.uploads import TOKEN_REQUESTS
from kvedge.resources.types.data_volumes import DataSource, DataVolume
from kvedge.web.images.image_view import images_view
from kvedge.web.own_rights import may
from kvedge.web.texts.shown_text import showable

_SECONDS: Final = 20.0
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_KIND: Final = DataVolume.KIND
# What an upload makes: the disk, and the tokens that open it.
_NEEDED: Final = ((_KIND.group, _KIND.plural), (UPLOAD_GROUP, TOKEN_REQUESTS))


class UploadTarget(Struct, frozen=True):
    """Where data is taken now, and what opens it."""

    address: ProxyAddress
    token: str


def read_images(session: Session, place: str | None) -> JsonObject:
    """DataVolumes and DataSources; where there is no CDI and none of its kinds yet, none."""
    client = session.client.hurry(_SECONDS)
    try:
        return images_view(client.list(DataVolume, place), client.list(DataSource, place))
    except NotFound:
        return images_view([], [])


def read_upload_right(session: Session, namespace: str) -> JsonObject:
    """Whether the user may upload there."""
    check_name(namespace, "namespace")
    return {"mayUpload": all(may(session, namespace, ("create", group, kind, "")) for group, kind in _NEEDED)}


def begin_upload(session: Session, namespace: str, name: str, body: JsonObject) -> JsonObject:
    """Have a DataVolume that waits for data: a new one of `size`, or the one that is there."""
    size, storage_class = (body.get(key) or "" for key in ("size", "storageClass"))
    if not isinstance(size, str) or not isinstance(storage_class, str):
        raise FlagError("size", "must be a text", "size: must be a text")
    # No VM will use it yet, so that its claim is bound at once.
    wish = UploadWish(name, RelayedSource(), size=size, storage_class=storage_class, force_bind=True)
    _upload(session, namespace, wish).ensure_target()
    return {}


def read_ready(session: Session, namespace: str, name: str) -> JsonObject:
    """Whether data is taken now, and why not yet."""
    is_ready, why = _present(session, namespace, name).look_ready()
    return {"ready": is_ready, "message": showable(why)}


def read_offset(session: Session, namespace: str, name: str, identity: str) -> JsonObject:
    """The byte at which this upload goes on."""
    if not _DIGEST.fullmatch(identity):
        raise FlagError("identity", "must be 64 hexadecimal digits", "identity: must be 64 hexadecimal digits")
    upload = _present(session, namespace, name)
    stream = UploadStream(
        upload.find_address(), RelayedSource(), upload.ask_token, lambda sent, size: None, lambda seconds: None
    )
    call, offset = stream.find_offset(identity)
    return {"call": call, "offset": offset}


def open_target(session: Session, namespace: str, name: str) -> UploadTarget:
    """Where a page's data goes."""
    upload = _present(session, namespace, name)
    return UploadTarget(upload.find_address(), upload.ask_token())


def read_done(session: Session, namespace: str, name: str) -> JsonObject:
    """Whether what was sent is the disk by now."""
    return {"done": _present(session, namespace, name).look_done()}


def offer_image(session: Session, namespace: str, name: str) -> JsonObject:
    """Have a DataSource of that name lead to the claim, so that new VMs may clone it."""
    lead_data_source(_in(session, namespace), check_name(name), name)
    return {}


def cancel_upload(session: Session, namespace: str, name: str) -> JsonObject:
    """Delete a DataVolume that waits for an upload, or has begun one.

    Raises:
        RefusedError: when it is filled, or is no upload's.
    """
    path = _KIND.path(check_name(namespace, "namespace"), check_name(name))
    client = session.client.hurry(_SECONDS)
    found: Any = client.request("GET", path)
    source = (found.get("spec") or {}).get("source") or {}
    if "upload" not in source or (found.get("status") or {}).get("phase") == "Succeeded":
        raise RefusedError(f"DataVolume {namespace}/{name} is no upload that is under way: delete it with kubectl")
    # Not its version: its progress is written meanwhile.
    client.request("DELETE", path, {"preconditions": {"uid": found["metadata"]["uid"]}})
    return {}


def _present(session: Session, namespace: str, name: str) -> ImageUpload:
    return _upload(session, namespace, UploadWish(name, RelayedSource(), create=False, force_bind=True))


def _upload(session: Session, namespace: str, wish: UploadWish) -> ImageUpload:
    return ImageUpload(_in(session, namespace), wish, lambda text: None, lambda sent, size: None, lambda seconds: None)


def _in(session: Session, namespace: str) -> Session:
    return replace(session, client=session.client.hurry(_SECONDS), namespace=check_name(namespace, "namespace"))
