"""Loads the kernel modules that guests profit from, where the host has them and nobody has loaded them yet.

Called when the handler starts. Runs modprobe, which knows what the operator has forbidden; what is missing then is
told once, and by the device plugins and the accelerator's choice.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

# Device node → module. kvm's own parts depend on the CPU, and udev loads them.
_TUN: Final = "/dev/net/tun"
MODULES: Final = {_TUN: "tun", "/dev/vhost-net": "vhost_net"}
_SECONDS: Final = 10


def load_missing_modules() -> list[str]:
    """Try to load what is missing; the device nodes that are still not there."""
    modprobe = shutil.which("modprobe")
    for device, module in MODULES.items():
        if modprobe is None or Path(device).exists():
            continue
        done = subprocess.run([modprobe, "-q", module], capture_output=True, text=True, timeout=_SECONDS, check=False)
        log.info("module loaded", extra={"facts": {"module": module, "exit_code": done.returncode}})
    missing = [device for device in MODULES if not Path(device).exists()]
    if missing:
        _tell(" ".join(missing))
    return missing


@cache
def _tell(missing: str) -> None:
    """Once for this process: a role that waits for its cluster is started again and again."""
    # Without vhost-net QEMU moves packets itself; without tun no guest has a network.
    level = logging.WARNING if _TUN in missing.split() else logging.INFO
    log.log(level, "devices missing", extra={"facts": {"devices": missing}})
