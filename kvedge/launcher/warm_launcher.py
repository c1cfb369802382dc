"""A launcher that is a copy of a process which has loaded all that launchers need: what is loaded, and how it begins.

Called by the parent of warm launchers on one box (standalone/agent/warm/): `load` in the parent, `take_words` in the
forked child, and `become_launcher` there once it is in its container and has given up its rights. The parent has no
threads, holds nothing of any VM and has opened no libvirt. What exec(2) would have done for a launcher that starts
apart is done here by hand.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.launcher.command import launcher_command
from kvedge.launcher.launcher_process import GRPC
from kvedge.launcher.libvirt.log_settings import import_early
from kvedge.launcher.process_memory import load_grpc, load_shared
from kvedge.runtime.linux.privileges import set_dumpable
from kvedge.runtime.linux.shown_words import show_words

_LOADED: Final = (
    "kvedge.launcher.launcher_server",
    "kvedge.launcher.libvirt.libvirt_session",
    "kvedge.launcher.run.domain_run",
    "kvedge.launcher.run.run_record",
    "kvedge.launcher.run.wind_down",
    "kvedge.launcher.shares.guest_shares",
    # Of the process beside the launcher that prepares a VMI.
    "kvedge.launcher.disks.vmi_preparation",
    "kvedge.launcher.domain.domain_xml",
)
# What the interpreter itself may have set when it started, without a locale in its environment.
_COERCED: Final = "LC_CTYPE"
# A standard descriptor's successor, and more than any process may have open.
_DESCRIPTORS: Final = (3, 1 << 20)
_NEVER_RETURNED: Final = 70


class CannotWarm(Exception):
    """This process cannot be the parent of launchers; the text says why."""


def load() -> None:
    """Import what launchers need, and keep the garbage collector from touching it.

    Raises:
        CannotWarm: when something is missing here, or a library does more than load.
    """
    os.environ.update(GRPC)
    descriptors = _count("fd")
    gc.disable()
    try:
        load_shared()
        load_grpc()
        if not import_early():
            raise CannotWarm("this libvirt cannot read its log settings again")
        for name in _LOADED:
            importlib.import_module(name)
    except ImportError as error:
        raise CannotWarm(f"a launcher's modules cannot be loaded: {error}") from error
    gc.collect()
    gc.freeze()
    gc.enable()
    # A thread would be missing in the copy, and a lock that it holds would stay locked there. A descriptor would be
    # closed there, and its number soon another one's.
    if _count("task") != 1 or _count("fd") != descriptors:
        raise CannotWarm("a library has started a thread or opened a file")


def _count(what: str) -> int:
    return len(os.listdir(f"/proc/self/{what}"))


def take_words(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Have a launcher's command line and environment, here and in what the kernel shows.

    Args:
        argv: the whole command line, its options behind the word `launcher`.
        environment: the container's.

    Raises:
        OSError: when they are longer than what the parent was started with.
    """
    coerced = {_COERCED: os.environ[_COERCED]} if _COERCED in os.environ else {}
    os.environ.clear()
    show_words(argv, environment)
    os.environ.update({**coerced, **environment})
    sys.argv = list(argv)


def become_launcher() -> None:
    """Run `kvedge launcher` as if it had just been started with the words that this process has; never returns."""
    # A change of the user has made this process unreadable for its own user, which exec(2) takes back.
    set_dumpable()
    _take_signals()
    os.closerange(*_DESCRIPTORS)
    code = _NEVER_RETURNED
    try:
        code = launcher_command(sys.argv[sys.argv.index("launcher") + 1 :])
    except BaseException:  # noqa: BLE001 - reported; what is above this frame is the parent's
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _take_signals() -> None:
    """Python's own, as it sets them at its start; whoever forked this has reset them all."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
