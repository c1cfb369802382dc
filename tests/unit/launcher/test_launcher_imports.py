# Tests: kvedge/launcher/command.py, kvedge/launcher/monitor.py, kvedge/launcher/disks/preparation_process.py
"""Each launcher pays for what it imports: what must never come in, and what must be gone again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import NEEDS_LIBVIRT

NEVER = {"kubernetes", "aiohttp", "pyroute2", "pydantic", "cryptography", "rich", "click"}
# Used by the process that prepares and ends, or by nobody.
NOT_KEPT = {
    *("msgspec", "pycdlib", "asyncio", "ssl", "decimal"),
    *("kvedge.launcher.domain.domain_xml", "kvedge.resources.guest_verbs", "kvedge.resources.vmi_facts"),
}

LAUNCHER = """
from kvedge.launcher.command import launcher_command
from kvedge.launcher import launcher_process
from kvedge.launcher.process_memory import load_grpc
load_grpc()
from kvedge.launcher.libvirt import libvirt_session
from kvedge.launcher import launcher_server
from kvedge.launcher.run import domain_run, run_record, wind_down
# Loaded when there is something to copy, or a guest that asks for metrics.
from kvedge.launcher.copies import copy_process
from kvedge.launcher.metrics import host_facts
"""
PREPARATION = """
from kvedge.launcher.disks import preparation_process, vmi_preparation
from kvedge.launcher.cloudinit import documents, iso
"""
MONITOR = """
import sys
sys.path.insert(0, "kvedge/launcher")
import monitor
"""


def loaded(program: str, *options: str) -> set[str]:
    """The modules that a fresh interpreter has after a program, with their parents."""
    program += "\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    return modules | {name.split(".")[0] for name in modules}


@pytest.mark.parametrize(
    "program", [pytest.param(LAUNCHER, marks=NEEDS_LIBVIRT), PREPARATION], ids=["launcher", "preparation"]
)
def test_no_process_of_a_launcher_imports_the_heavy_libraries(program: str) -> None:
    assert not loaded(program) & NEVER


@NEEDS_LIBVIRT
def test_the_launcher_keeps_nothing_that_only_the_preparation_needs() -> None:
    assert not loaded(LAUNCHER) & NOT_KEPT


def test_the_bare_monitor_has_only_what_the_interpreter_brings() -> None:
    # Each of these brings a megabyte or half of one; `signal` would bring `enum`.
    assert not loaded(MONITOR, "-I", "-S") & {
        "enum",
        "signal",
        "re",
        "typing",
        "collections",
        "json",
        "types",
        "kvedge",
    }


def test_grpc_works_without_its_asynchronous_half() -> None:
    program = """
from kvedge.launcher.process_memory import load_grpc
load_grpc()
import tempfile, grpc
from concurrent.futures import ThreadPoolExecutor
from kvedge.rpc import launcher_pb2 as m, launcher_pb2_grpc as g
class Service(g.LauncherServicer):
    def Ping(self, request, context):
        return m.PingReply(protocol=7)
path = tempfile.mkdtemp() + "/s"
server = grpc.server(ThreadPoolExecutor(1))
g.add_LauncherServicer_to_server(Service(), server)
server.add_insecure_port("unix:" + path)
server.start()
with grpc.insecure_channel("unix:" + path) as channel:
    assert g.LauncherStub(channel).Ping(m.PingRequest(), timeout=10).protocol == 7
server.stop(0).wait()
"""
    assert "asyncio" not in loaded(program)


def test_what_stood_in_for_another_module_is_gone_once_grpc_is_there() -> None:
    program = """
from kvedge.launcher.process_memory import load_grpc
load_grpc()
import asyncio
asyncio.run(asyncio.sleep(0))
"""
    assert "asyncio.runners" in loaded(program)


def test_no_other_module_is_put_in_the_place_of_another() -> None:
    touching = {path.name for path in Path("kvedge").rglob("*.py") if "sys.modules" in path.read_text()}
    # The second one only looks at where modules come from.
    assert touching == {"process_memory.py", "loaded_files.py"}
