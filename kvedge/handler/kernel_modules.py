"""Loads the kernel modules that guests profit from, where the host has them and nobody has loaded them yet.

Called when the handler starts. Runs modprobe, which knows what the operator has forbidden; what is missing then is
told by the device plugins and by the accelerator's choice.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

# Device node → module. kvm's own parts depend on the CPU, and udev loads them.
MODULES: Final = {"/dev/net/tun": "tun", "/dev/vhost-net": "vhost_net"}
_SECONDS: Final = 10


def load_missing_modules() -> list[str]:
    """Try to load what is missing; the device nodes that are still not there."""
    modprobe = shutil.which("modprobe")
    for device, module in MODULES.items():
        if modprobe is None or Path(device).exists():
            continue
        done = subprocess.run([modprobe, "-q", module], capture_output=True, text=True, timeout=_SECONDS, check=False)
        log.info("module loaded", extra={"facts": {"module": module, "exit_code": done.returncode}})
    return [device for device in MODULES if not Path(device).exists()]
