# Tests: kvedge/network/dhcp/
"""The responder lives in a launcher, where each megabyte is paid once per VM."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"pyroute2", "asyncio", "ssl", "ctypes", "kubernetes", "aiohttp", "pydantic", "cryptography", "msgspec"}


MODULES = [
    "dhcp.dhcp_server",
    "dhcp.dhcp_plan",
    "dhcp.dhcp_message",
    "dhcp.ipv6_server",
    "errors",
    "binding.bridge_binding_plan",
]


@pytest.mark.parametrize("module", MODULES)
def test_what_a_launcher_or_a_plan_imports_pulls_in_nothing_heavy(module: str) -> None:
    program = f"import sys, kvedge.network.{module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & HEAVY
