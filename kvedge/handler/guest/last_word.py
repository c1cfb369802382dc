"""What a launcher that has gone left behind: how its domain ended.

Called by the sync loop when nobody answers, and when a host ends launchers over the guests' heads. Reads and replaces
one small file in the Pod's volume, which a guest that broke out may
have written: it is believed for the outcome of that very VMI and for nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from pathlib import Path
from typing import Final

from google.protobuf import json_format

from kvedge.handler.launchers.launcher_socket import NotThere, Unexpected, read_file_beneath, volume_directory
from kvedge.rpc.launcher_pb2 import (
    DOMAIN_REASON_FAILED,
    DOMAIN_REASON_MIGRATED,
    DOMAIN_STATE_SHUTOFF,
    DomainStatus,
)

log = logging.getLogger(__name__)

# As the kubelet has it (pkg/kubelet/nodeshutdown).
HOST_SHUTDOWN_MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
_FILE: Final = "final.json"
_HOST_SHUTDOWN: Final = "host-shutdown"
_LARGEST: Final = 64 * 1024


def read_last_word(kubelet: Path, pod_uid: str) -> DomainStatus | None:
    """The final status, or None when the launcher left none or something unreadable."""
    try:
        text = read_file_beneath(volume_directory(kubelet, pod_uid, "public"), _FILE, _LARGEST)
        return json_format.Parse(text, DomainStatus(), ignore_unknown_fields=True)
    except NotThere:
        return None
    except (Unexpected, json_format.ParseError, OSError) as error:
        log.warning("a launcher's last word is not readable", extra={"facts": {"pod": pod_uid, "error": str(error)}})
        return None


def announce_host_shutdown(kubelet: Path, pod_uid: str) -> None:
    """Say to a launcher that it will be asked to end because its host goes down; a Pod that is no launcher's is left.

    Its exit code, which the kubelet reports while no handler does, is that of a failure then.

    Raises:
        OSError: as the file system has it.
    """
    folder = volume_directory(kubelet, pod_uid, "public")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    if folder.is_dir():
        # A file that the launcher's user has put under that name already says the same.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(folder / _HOST_SHUTDOWN, flags, 0o644))


def overrule_last_word(kubelet: Path, pod_uid: str, message: str) -> None:
    """Say that this run was ended by somebody else than its guest: it counts as failed, whatever the launcher said.

    The launcher must have ended. A Pod that is no launcher's is left alone, and so is one whose guest has left it: that
    runs elsewhere, as soon as this is known.

    Raises:
        OSError: as the file system has it.
    """
    folder = volume_directory(kubelet, pod_uid, "public")
    if not folder.is_dir():
        return
    known = read_last_word(kubelet, pod_uid)
    if known is not None and known.reason == DOMAIN_REASON_MIGRATED:
        return
    status = DomainStatus(state=DOMAIN_STATE_SHUTOFF, reason=DOMAIN_REASON_FAILED, message=message)
    # Written beside it and renamed over it: a link that the launcher's user put there is replaced, never followed.
    staged = folder / f"{_FILE}.{secrets.token_hex(8)}"
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(json_format.MessageToJson(status))
    staged.replace(folder / _FILE)


def end_by_host(kubelet: Path, pod_uid: str) -> str:
    """Overrule the last word of a launcher because its host goes down; how that ends the line that tells of its end.

    It ends it with nothing, or with why the last word stays: the other guests are waited for all the same.
    """
    try:
        overrule_last_word(kubelet, pod_uid, HOST_SHUTDOWN_MESSAGE)
    except OSError as error:
        # A disk may be full, or the Pod may have put something in the way.
        return f", and its last word stays: {error.strerror}"
    return ""
