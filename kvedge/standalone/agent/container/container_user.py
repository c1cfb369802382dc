"""Which user a container runs as: its security context, the Pod's, or the image's own.

Called when a container is planned. Reads passwd and group of the image's tree, which may be hostile.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.resources.types.core import Container, Pod, PodSecurityContext, SecurityContext
from kvedge.storage.beneath import hold_directory, open_regular

# An honest passwd file is much smaller.
_MOST: Final = 1 << 20
_HIGHEST_ID: Final = 2**31 - 1


class UserError(Exception):
    """The container's user cannot be known or is not allowed: CreateContainerConfigError, with this text."""


class ContainerUser(Struct, frozen=True):
    """A user, its group, and all its supplementary groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def container_user(pod: Pod, container: Container, image_user: str, tree: Path) -> ContainerUser:
    """The user of a container; `image_user` is the image's `User`, such as `107:107`, `nginx` or empty for root.

    Raises:
        UserError: when the image has no such user, or runAsNonRoot forbids it.
    """
    context = container.security_context or SecurityContext()
    pod_context = pod.spec.security_context or PodSecurityContext()
    uid = _choose_first(context.run_as_user, pod_context.run_as_user)
    gid = _choose_first(context.run_as_group, pod_context.run_as_group)
    non_root = _choose_first(context.run_as_non_root, pod_context.run_as_non_root)
    name, _, group = image_user.partition(":")
    if uid is None:
        if non_root and name and not name.isdigit():
            raise UserError(
                f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root "
                f'(pod: "{pod.metadata.namespace}/{pod.metadata.name}", container: {container.name})'
            )
        uid, image_gid = _image_user(name, tree)
        if gid is None:
            gid = _image_group(group, tree) if group else image_gid
    if non_root and uid == 0:
        raise UserError(
            f"container has runAsNonRoot and image will run as root "
            f'(pod: "{pod.metadata.namespace}/{pod.metadata.name}", container: {container.name})'
        )
    gid = gid or 0
    extra = [*pod_context.supplemental_groups]
    if pod_context.fs_group is not None:
        extra.append(pod_context.fs_group)
    return ContainerUser(uid, gid, tuple(dict.fromkeys([gid, *extra])))


def _choose_first(*values: int | bool | None) -> int | None:
    return next((int(value) for value in values if value is not None), None)


def _image_user(name: str, tree: Path) -> tuple[int, int]:
    if not name:
        return 0, 0
    if name.isdigit():
        uid = _number(name)
        found = next((entry for entry in _read_entries(tree, "etc/passwd") if entry[2] == name), None)
        return uid, _number(found[3]) if found else 0
    found = next((entry for entry in _read_entries(tree, "etc/passwd") if entry[0] == name), None)
    if found is None:
        raise UserError(f"the image has no user {name!r} in its /etc/passwd")
    return _number(found[2]), _number(found[3])


def _image_group(group: str, tree: Path) -> int:
    if group.isdigit():
        return _number(group)
    found = next((entry for entry in _read_entries(tree, "etc/group") if entry[0] == group), None)
    if found is None:
        raise UserError(f"the image has no group {group!r} in its /etc/group")
    return _number(found[2])


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > _HIGHEST_ID:
        raise UserError(f"{text[:40]!r} is no user or group id")
    return int(text)


def _read_entries(tree: Path, path: str) -> list[list[str]]:
    try:
        with hold_directory(tree) as root:
            descriptor = open_regular(root, path)
    except OSError:
        # No such file, or one behind a link: then there are no names.
        return []
    with os.fdopen(descriptor, "rb") as stream:
        text = stream.read(_MOST).decode(errors="replace")
    return [line.split(":") for line in text.splitlines() if line.count(":") >= 3]
