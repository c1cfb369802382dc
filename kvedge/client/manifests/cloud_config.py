"""The cloud-config that `create vm` and `launch` write for a user, a password and SSH keys.

Pure. Values that YAML would read as something else are quoted; all others stand as virtctl writes them.
"""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct

_HEAD: Final = "#cloud-config"
_MANAGE_SSH: Final = ["runcmd:", "  - [ setsebool, -P, 'virt_qemu_ga_manage_ssh', 'on' ]"]


class Login(Struct, frozen=True):
    """A guest's user and the ways to log in as it; empty for what was not given."""

    user: str = ""
    password: str = ""
    ssh_keys: tuple[str, ...] = ()
    manage_ssh: bool = False

    @property
    def is_given(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.user or self.password or self.ssh_keys or self.manage_ssh)


def cloud_config(login: Login) -> str:
    """The user data."""
    lines = [_HEAD]
    if login.user:
        lines.append(f"user: {_scalar(login.user)}")
    if login.password:
        lines += [f"password: {_scalar(login.password)}", "chpasswd: { expire: False }"]
    if login.ssh_keys:
        lines += ["ssh_authorized_keys:", *(f"  - {_scalar(key)}" for key in login.ssh_keys)]
    if login.manage_ssh:
        lines += _MANAGE_SSH
    return "\n".join(lines)


def _scalar(text: str) -> str:
    import yaml

    try:
        is_plain = yaml.safe_load(f"key: {text}") == {"key": text}
    except yaml.YAMLError:
        is_plain = False
    # A JSON string is a YAML one.
    return text if is_plain else json.dumps(text, ensure_ascii=False)
