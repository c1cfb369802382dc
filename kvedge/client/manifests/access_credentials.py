"""virtctl's `--access-cred`: SSH keys and passwords of a Secret, brought into the guest.

Called by `create vm`. Pure.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.client.manifests.volume_params import flag_error, parse_params
from kvedge.resources.codec import JsonObject

_FLAG: Final = "access-cred"
# How virtctl's users spell a way → how the API does.
_METHODS: Final = {"ga": "qemuGuestAgent", "nocloud": "noCloud", "configdrive": "configDrive"}


class AccessCredential(Struct, frozen=True):
    """One credential; `by_agent` when the guest must let its agent write SSH keys."""

    document: JsonObject
    by_agent: bool
    by_cloud_init: bool


def parse_access_credential(text: str, user: str, cloud_init: str) -> AccessCredential:
    """`type:ssh|password,src:SECRET,method:ga|nocloud|configdrive,user:NAME`.

    Args:
        text: the flag's value.
        user: the guest's user that gets the keys when the value names none; may be empty.
        cloud_init: the kind of cloud-init volume that the VM gets.

    Raises:
        UsageError: in virtctl's words.
    """
    params = parse_params(_FLAG, text, ("type", "src", "method", "user"))
    kind, method = params.get("type", "ssh").lower(), params.get("method", "ga").lower()
    if kind not in ("ssh", "password"):
        raise flag_error(
            _FLAG, f'invalid access credential type "{params["type"]}", supported values are: ssh, password'
        )
    allowed = ("ga",) if kind == "password" else tuple(_METHODS)
    if method not in allowed:
        known = ", ".join(allowed)
        raise flag_error(
            _FLAG, f'invalid access credentials {kind} method "{params["method"]}", supported values are: {known}'
        )
    if not params.get("src"):
        raise flag_error(_FLAG, "src must be specified")
    takes_user = kind == "ssh" and method == "ga"
    if "user" in params and not takes_user:
        raise flag_error(_FLAG, "user cannot be specified with selected access credential type and method")
    if method != "ga" and method != cloud_init:
        raise flag_error(
            _FLAG, f"method param and value passed to --cloud-init have to match: {method} vs {cloud_init}"
        )
    way: JsonObject = {}
    if takes_user:
        name = params.get("user") or user
        if not name:
            raise flag_error(
                _FLAG, 'user must be specified with access credential ssh method ga ("--user" flag or param "user")'
            )
        way = {"users": [name]}
    document = {
        "sshPublicKey" if kind == "ssh" else "userPassword": {
            "propagationMethod": {_METHODS[method]: way},
            "source": {"secret": {"secretName": params["src"]}},
        }
    }
    return AccessCredential(document, takes_user, method != "ga")
