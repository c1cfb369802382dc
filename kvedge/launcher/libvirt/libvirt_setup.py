"""What libvirt must find before it is opened: its configuration, its environment, and what the node knows of QEMU.

Called once by `launcher_process`. Touches this process's environment and the Pod's private volume.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import MutableMapping
from typing import Final

from kvedge.launcher.launcher_options import LauncherOptions

log = logging.getLogger(__name__)

# libvirt's own seeds are 100 to 200 KB each.
LARGEST_SEED: Final = 4 << 20
_MOST_SEEDS: Final = 16
# Below libvirt's root.
SEED_DIRECTORY: Final = "cache/qemu/capabilities"


def qemu_conf(uid: int, gid: int) -> str:
    """The text of qemu.conf for an embedded driver that runs as this user."""
    settings = [
        f'user = "+{uid}"',
        f'group = "+{gid}"',
        # No virtlogd: QEMU writes its log itself.
        'stdio_handler = "file"',
        # The Pod's files belong to the right user already, and an unprivileged process could not change that.
        "dynamic_ownership = 0",
        "remember_owner = 0",
        # The Pod is the confinement: its namespaces, its device list, its security context.
        "namespaces = []",
        'security_driver = "none"',
        "seccomp_sandbox = 1",
        # A guest's memory is nobody's business.
        "max_core = 0",
        "vnc_auto_unix_socket = 0",
        "vnc_tls = 0",
        "spice_tls = 0",
    ]
    return "".join(f"{line}\n" for line in settings)


def prepare_environment(options: LauncherOptions, environment: MutableMapping[str, str]) -> None:
    """Make libvirt, and the QEMU that inherits it all, look only into the Pod's volumes."""
    # A program built as one file sets it for its own libraries; QEMU must load the host's.
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
        environment.pop(name, None)
    private = options.private_directory
    environment.update(
        {
            "HOME": private,
            "XDG_CACHE_HOME": private,
            "XDG_CONFIG_HOME": private,
            "XDG_DATA_HOME": private,
            "XDG_RUNTIME_DIR": f"{options.root}/var/run",
            # libvirt's messages arrive as errors of its calls, and are logged as such; its log of all else
            # goes to a file that dies with the Pod.
            "LIBVIRT_LOG_OUTPUTS": f"4:file:{options.libvirt_root}/log/libvirt.log",
        }
    )


def prepare_root(options: LauncherOptions) -> None:
    """Write the configuration and plant the node's seed.

    Raises:
        OSError: when the private volume cannot be written.
    """
    etc = f"{options.libvirt_root}/etc"
    for directory in (etc, f"{options.libvirt_root}/log"):
        os.makedirs(directory, mode=0o700, exist_ok=True)
    with open(f"{etc}/qemu.conf", "w") as file:
        file.write(qemu_conf(os.getuid(), os.getgid()))
    plant_seed(options.capabilities_directory, f"{options.libvirt_root}/{SEED_DIRECTORY}")


def plant_seed(source: str, target: str) -> int:
    """Copy the node's capabilities cache; returns how many files were planted. What is there already stays.

    A seed that does not fit this QEMU is thrown away by libvirt, which then probes by itself: a missing or odd file
    costs time, nothing else, so it is left out.
    """
    try:
        directory = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    planted = 0
    try:
        os.makedirs(target, mode=0o700, exist_ok=True)
        for name in sorted(os.listdir(directory))[:_MOST_SEEDS]:
            if name.endswith(".xml") and not os.path.exists(f"{target}/{name}"):
                planted += _copy_seed(directory, name, f"{target}/{name}")
    finally:
        os.close(directory)
    return planted


def _copy_seed(directory: int, name: str, target: str) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        opened = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        log.warning("left out a seed", extra={"facts": {"file": name, "why": error.strerror}})
        return 0
    facts = os.fstat(opened)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST_SEED:
        os.close(opened)
        log.warning("left out a seed", extra={"facts": {"file": name, "why": "no regular file of a sane size"}})
        return 0
    with os.fdopen(opened, "rb") as file:
        content = file.read(LARGEST_SEED)
    staged = f"{target}.new"
    with open(staged, "wb") as out:
        out.write(content)
    os.rename(staged, target)
    return 1
