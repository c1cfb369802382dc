"""The `launcher` subcommand: its arguments, and which of the three programs of a launcher they ask for.

Called by the program's entry before anything else is imported. Parsed by hand: the monitor stays in memory for each
VM's whole life, and a library for options would stay with it.
"""

from __future__ import annotations

import os
import sys

from kvedge.launcher.launcher_options import LauncherOptions

_USAGE = """\
usage: kvedge launcher [--monitor] --namespace NAMESPACE --name NAME --uid UID [options]
       kvedge launcher --probe DIRECTORY [--emulation]
       kvedge launcher --disk-documents
       kvedge launcher --hook-shim --version VERSION

Runs one VM inside its launcher Pod; --monitor is what the Pod starts. --probe writes what this host's libvirt and QEMU
can do, and the seed of libvirt's capabilities cache, into an empty directory. --disk-documents is what a launcher
starts for disks that come while its guest runs. --hook-shim is a hook sidecar that runs scripts.

  --grace-period-seconds N   how long the guest gets to shut down after SIGTERM (45)
  --keep-after-failure       do not exit when the guest has failed, so that one can look
  --log-level LEVEL          debug, info, warning or error (info)
  --root DIRECTORY           put before every path of the Pod's layout
  --hook-sidecars N          how many hook sidecars are asked before the guest starts (0)
  --incoming UID             the guest comes by this migration, instead of being started here
  --guest-architecture NAME  x86_64 or aarch64, on a host of the other kind, with emulation: to try guests of it; no Pod
                             of kvedge's asks for it
  --emulation                probe QEMU's own CPU emulation instead of KVM
"""

_WITH_VALUE = frozenset(
    (
        *("namespace", "name", "uid", "grace-period-seconds", "log-level", "root", "probe", "incoming"),
        *("hook-sidecars", "guest-architecture", "version"),
    )
)
# Of a launcher that failed itself: neither of its verdicts, so the monitor starts another one, which finds the guest.
_BROKEN = 70
_FLAGS = frozenset({"disk-documents", "hook-shim", "monitor", "keep-after-failure", "emulation", "help"})


class _UsageError(Exception):
    """The arguments cannot be understood; the text names the one."""


def launcher_command(arguments: list[str]) -> int:
    """Run what the arguments ask for; the exit code."""
    try:
        values, flags = _parse(arguments)
        if "help" in flags:
            sys.stdout.write(_USAGE)
            return 0
        if "disk-documents" in flags:
            return _write_disk_documents()
        if "hook-shim" in flags:
            return _run_hook_shim(values.get("version", ""), values.get("log-level", "info"))
        if "probe" in values:
            return _probe(values["probe"], emulation="emulation" in flags)
        options = _options(values, flags)
    except (_UsageError, ValueError) as error:
        sys.stderr.write(f"kvedge launcher: {error}\n{_USAGE}")
        return 2
    if "monitor" in flags:
        from kvedge.launcher.monitor import run_monitor

        return run_monitor(options, _run_launcher, bare=True)
    return _run_launcher(options)


def _write_disk_documents() -> int:
    from kvedge.runtime.linux.memory import be_first_to_end

    # Its memory counts with the guest's: of the two QEMU must stay. Before all that this process loads.
    be_first_to_end()
    from kvedge.launcher.hotplug.disk_documents import main

    return main()


def _run_hook_shim(version: str, log_level: str) -> int:
    import logging

    from kvedge.resources.values.hook_names import HOOK_VERSIONS

    if version not in HOOK_VERSIONS:
        raise _UsageError(f"--hook-shim needs --version, one of {', '.join(HOOK_VERSIONS)}")
    from kvedge.launcher.hooks.hook_shim import run_shim
    from kvedge.runtime.logs import set_up_logs

    set_up_logs(log_level)
    code = run_shim(version)
    logging.shutdown()
    # A script that hangs holds a thread, for which Python would wait. It ends with this process, its container's first.
    os._exit(code)


def _run_launcher(options: LauncherOptions) -> int:
    try:
        # The monitor has this imported in its child only.
        from kvedge.launcher.launcher_process import run_launcher

        return run_launcher(options)
    except Exception:  # noqa: BLE001 - reported, and the exit code makes the monitor act on it
        # Python's own code for it is 1, which says that the run has failed: the monitor would end the guest.
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        # At once: Python would wait for threads that serve.
        os._exit(_BROKEN)


def _parse(arguments: list[str]) -> tuple[dict[str, str], set[str]]:
    values: dict[str, str] = {}
    flags: set[str] = set()
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") and argument != "-h":
            raise _UsageError(f"unexpected argument {argument!r}")
        if argument == "-h":
            flags.add("help")
        elif name in _FLAGS and not equals:
            flags.add(name)
        elif name in _WITH_VALUE:
            values[name] = value if equals else next(rest, "")
            if not values[name] and name != "root":
                raise _UsageError(f"--{name} needs a value")
        else:
            raise _UsageError(f"unknown option {argument!r}")
    return values, flags


def _options(values: dict[str, str], flags: set[str]) -> LauncherOptions:
    missing = [f"--{name}" for name in ("namespace", "name", "uid") if name not in values]
    if missing:
        raise _UsageError(f"{', '.join(missing)} must be given")
    grace = values.get("grace-period-seconds", "45")
    if not grace.isdecimal():
        raise _UsageError(f"--grace-period-seconds: {grace!r} is no number of seconds")
    hooks = values.get("hook-sidecars", "0")
    if not hooks.isdecimal():
        raise _UsageError(f"--hook-sidecars: {hooks!r} is no number")
    foreign = values.get("guest-architecture", "")
    if foreign not in ("", "x86_64", "aarch64"):
        raise _UsageError(f"--guest-architecture: {foreign!r} is neither x86_64 nor aarch64")
    return LauncherOptions(
        namespace=values["namespace"],
        name=values["name"],
        uid=values["uid"],
        grace_period_seconds=int(grace),
        keep_after_failure="keep-after-failure" in flags,
        root=values.get("root", ""),
        log_level=values.get("log-level", "info"),
        incoming=values.get("incoming", ""),
        hook_sidecars=int(hooks),
        guest_architecture=foreign,
    )


def _probe(directory: str, *, emulation: bool) -> int:
    from pathlib import Path

    from kvedge.launcher.capability_probe import probe
    from kvedge.launcher.launcher_errors import LauncherError

    try:
        probe(Path(directory), emulation=emulation)
    except LauncherError as error:
        sys.stderr.write(f"{error}\n")
        return 5
    return 0
