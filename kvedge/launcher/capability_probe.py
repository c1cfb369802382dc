"""Finds out, once per node, what libvirt and QEMU can do, and keeps libvirt's own record of it as a seed for launchers.

Run by the handler as a process of its own (`kvedge launcher --probe DIRECTORY`), as root; writes into that directory
only. Without a seed each launcher's libvirt starts QEMU twice to ask it the same questions: 0.3 s of CPU with
emulation, seconds with KVM.

What libvirt (9.0 to 11.3) compares before it believes the record, and throws it away when one differs: its own version
and the change time of its library; the change time of the QEMU binary and the modification time of QEMU's module
directory; whether /dev/kvm can be opened by its user; and with KVM also the kernel's version, the CPU's microcode and
signature. So the handler probes again when the host was updated, and a seed that went stale costs time, nothing else.
"""

from __future__ import annotations

import compileall
import importlib
import json
import os
import re
from pathlib import Path
from typing import Any, Final

import kvedge
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.libvirt_setup import prepare_environment, prepare_root
from kvedge.launcher.libvirt.node_capabilities import NodeCapabilities, read_capabilities
from kvedge.launcher.libvirt.qemu_record import record_path
from kvedge.launcher.probe_sandbox import SandboxError, run_in_sandbox
from kvedge.runtime.program import is_frozen

CAPABILITIES_FILE: Final = "capabilities.json"
# As `record_path` has it.
_SEED_NAME: Final = re.compile(r"[0-9a-f]{64}\.xml")
_NEEDED: Final = ("kvedge.launcher.libvirt.libvirt_session", "kvedge.launcher.monitor")


def probe(output: Path, *, emulation: bool) -> NodeCapabilities:
    """Probe the host for KVM or, with `emulation`, for QEMU's own CPU emulation.

    Writes `capabilities.json` and the seed's files, readable by everybody, into the directory `output`, which exists.

    Raises:
        LauncherError: when libvirt or QEMU is missing or does not work; the text says what to install.
    """
    _compile_program()
    _load()
    answer = run_in_sandbox(lambda: _ask(emulation=emulation), kvm=not emulation and os.path.exists("/dev/kvm"))
    facts: dict[str, Any] = answer["capabilities"]
    fields: dict[str, Any] = {key: tuple(fact) if isinstance(fact, list) else fact for key, fact in facts.items()}
    found = NodeCapabilities(**fields)
    for name, text in answer["seeds"].items():
        if _SEED_NAME.fullmatch(name) is None:
            raise SandboxError(f"libvirt left a record of an unknown kind: {name}")
        _write(output / name, text)
    _write(output / CAPABILITIES_FILE, json.dumps(found.document(), indent=2) + "\n")
    return found


def _compile_program() -> None:
    """Bytecode beside the sources, where a package manager has not put it: a launcher's user may not write it, and
    would compile everything at each start.
    """
    package = Path(kvedge.__file__).parent
    if not is_frozen() and os.access(package, os.W_OK):
        compileall.compile_dir(package, quiet=2)


def _load() -> None:
    """Import what the sandbox needs while the program can be read: its user may not reach a directory like /root."""
    try:
        for name in _NEEDED:
            importlib.import_module(name)
    except ImportError as error:
        raise SandboxError(f"libvirt is missing ({error}); install libvirt0") from error


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def _ask(*, emulation: bool) -> dict[str, Any]:
    """In the sandbox: what libvirt says, and the record it made on the way."""
    options = LauncherOptions(namespace="probe", name="probe", uid="probe")
    prepare_environment(options, os.environ)
    prepare_root(options)
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

    try:
        session = LibvirtSession(options.libvirt_root, options.domain_name)
        documents = session.host_documents(emulation=emulation)
    except LauncherError as error:
        remedy = "install qemu-system-x86 (on arm64 qemu-system-arm) and libvirt-daemon-driver-qemu"
        raise SandboxError(f"libvirt's QEMU driver does not work here: {error}; {remedy}") from error
    capabilities = read_capabilities(documents)
    # Asked for the whole host, libvirt has probed every QEMU that is installed; a launcher uses one.
    seed = Path(record_path(options.libvirt_root, capabilities.emulator))
    return {"capabilities": capabilities.document(), "seeds": {seed.name: seed.read_text()}}
