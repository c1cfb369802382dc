"""Where kvedge lives on a host that it is installed on.

Used by everything that installs, upgrades or removes. Pure. `root` is another directory than / only where a whole tree
is prepared from outside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

Role = Literal["standalone", "server", "agent"]

TARGET: Final = "kvedge.target"
_COMMON_UNITS: Final = ("kvedge.slice", "kvedge-failure@.service", TARGET)
RENEWAL_TIMER: Final = "kvedge-renew.timer"
# A server has the administrator's credentials, with which those of its roles are renewed.
_RENEWAL_UNITS: Final = ("kvedge-renew.service", RENEWAL_TIMER)
_ROLE_UNITS: Final[dict[Role, tuple[str, ...]]] = {
    "standalone": ("kvedge-guests.service", "kvedge.service"),
    "server": ("kvedge-guests.service", "kvedge-node.service", *_RENEWAL_UNITS),
    "agent": ("kvedge-guests.service", "kvedge-node.service"),
}
# All units that any role of any version has ever installed: `uninstall` looks for each.
ALL_UNITS: Final = (
    *_COMMON_UNITS,
    "kvedge-guests.service",
    "kvedge.service",
    "kvedge-node.service",
    *_RENEWAL_UNITS,
)


class Layout(Struct, frozen=True):
    """Paths of one installation."""

    data_dir: Path = Path("/var/lib/kvedge")
    root: Path = Path("/")

    @property
    def program(self) -> Path:
        """The one file."""
        return self.root / "usr/local/bin/kvedge"

    @property
    def units(self) -> Path:
        """Where systemd's administrators put units."""
        return self.root / "etc/systemd/system"

    @property
    def config(self) -> Path:
        """The operator's settings."""
        return self.root / "etc/kvedge/config.yaml"

    @property
    def node_settings(self) -> Path:
        """Settings of a cluster's node that `install` has found out."""
        return self.root / "etc/kvedge/config.yaml.d/10-install.yaml"

    @property
    def roles(self) -> Path:
        """The kubeconfigs with which a cluster's node speaks: one file for each role."""
        return self.root / "etc/kvedge/roles"

    @property
    def modules(self) -> Path:
        """Which modules systemd loads at boot."""
        return self.root / "etc/modules-load.d/kvedge.conf"

    @property
    def previous(self) -> Path:
        """The program and the units before the last upgrade: an upgrade that fails goes back to them."""
        return self.data_dir / "previous"

    @property
    def previous_own(self) -> Path:
        """Our other files before the last upgrade, each at its own path below."""
        return self.previous / "own"

    @property
    def pending(self) -> Path:
        """There while an upgrade is under way; holds what it goes from and to."""
        return self.data_dir / "state" / "upgrade.json"

    @property
    def lock(self) -> Path:
        """The lock of an installation, upgrade or removal."""
        return self.root / "run/kvedge-install.lock"


def role_units(role: Role) -> tuple[str, ...]:
    """The units of a role, in the order in which they are written."""
    return (*_COMMON_UNITS, *_ROLE_UNITS[role])


def list_enabled_units(role: Role) -> tuple[str, ...]:
    """The units that systemd starts at boot, without those that a timer starts."""
    names = [name for name in role_units(role) if "@" not in name and not name.endswith(".slice")]
    return tuple(name for name in names if name.removesuffix(".service") + ".timer" not in names)


def main_unit(role: Role) -> str:
    """The unit that serves."""
    return "kvedge.service" if role == "standalone" else "kvedge-node.service"
