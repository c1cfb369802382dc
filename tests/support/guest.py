"""The small guest of packaging/guest, made once and kept in a cache: for the machine tests.

Called by tests that boot a VM. Writes below the cache directory only.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

BUILDER = Path(__file__).resolve().parents[2] / "packaging" / "guest"
# For those that boot its kernel without its disk: as packaging/guest has them, for the same reasons.
_NO_TRACER = "init_kprobe_trace,trace_eval_init,tracer_init_tracefs"
_NO_BPF = "cubictcp_register,bpf_tcp_ca_kfunc_init,bpf_key_sig_kfuncs_init,kfunc_init,bpf_rstat_kfunc_init"
_SKIPPED = f"initcall_blacklist=crypto_kdf108_init,{_NO_TRACER},{_NO_BPF},bpf_prog_test_run_init"
_QUICK = f"mitigations=off cryptomgr.notests nokaslr no5lvl {_SKIPPED}"
KERNEL_ARGUMENTS = f"console=ttyS0,115200 quiet loglevel=4 {_QUICK}"


@dataclass(frozen=True)
class Guest:
    """Where the guest's files are."""

    kernel: Path
    initrd: Path
    disk: Path


def cache_directory() -> Path:
    """Where guests are kept between runs."""
    return Path(os.environ.get("KVEDGE_TEST_CACHE", "/var/cache/kvedge-tests"))


def build_guest(*, agent: bool = False, generic: bool = False, uefi: bool = False) -> Guest:
    """The guest, built when it is missing or old; by one process at a time, as all build from the same packages.

    Raises:
        RuntimeError: with what the builder said, when it cannot be made.
    """
    wanted = {"generic": generic, "agent": agent, "uefi": uefi}
    flavours = [name for name, on in wanted.items() if on]
    flavour = "-".join(["guest", *flavours])
    target = _build(flavour, [f"--{name}" for name in flavours])
    return Guest(kernel=target / "vmlinuz", initrd=target / "initrd", disk=target / "disk.qcow2")


def build_arm64_guest() -> Path:
    """Where `vmlinuz` and `initrd` of a guest of arm64 are; it has no disk that boots.

    Raises:
        RuntimeError: with what the builder said, when it cannot be made.
    """
    return _build("guest-arm64", ["--arm64"])


def _build(flavour: str, options: list[str]) -> Path:
    target = cache_directory() / flavour
    command = [str(BUILDER), str(target), "--cache", str(cache_directory() / "packages"), *options]
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "guest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return target
