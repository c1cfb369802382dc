# Tests: kvedge/handler/volumes/device_rules.py, kvedge/runtime/linux/cgroup_devices.py
"""Where the rules of a container's devices are, from the texts of the kernel."""

from __future__ import annotations

import os
from pathlib import Path

from kvedge.handler.volumes.device_rules import CHARACTER, devices_folder, make_rule

V1 = "24 1 0:20 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices\n"
V2 = "25 1 0:21 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"


def test_a_rule_names_the_device_by_its_numbers() -> None:
    assert make_rule(os.makedev(253, 7)) == "b 253:7 rw"
    assert make_rule(os.makedev(246, 1), CHARACTER) == "c 246:1 rw"


def test_the_cgroup_of_version_1_is_found_beneath_its_hierarchy() -> None:
    cgroups = "12:devices:/kubepods/pod1/abc\n0::/x\n"
    assert devices_folder(cgroups, V1) == (Path("/sys/fs/cgroup/devices"), "kubepods/pod1/abc")
    assert devices_folder("12:cpu,devices:/\n", V1) == (Path("/sys/fs/cgroup/devices"), ".")


def test_a_host_without_version_1_has_no_such_folder() -> None:
    assert devices_folder("0::/kubepods/pod1\n", V2) is None
    assert devices_folder("1:memory:/a\n", V1) is None
