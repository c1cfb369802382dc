"""Sends a claim's disk to the worker that fills a claim of another namespace, over mutual TLS.

Called by the import's run, in a Pod of the source's namespace: no Pod has claims of two namespaces. Its certificate is
good for that one worker, and the worker's name for that one claim.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvedge.resources.disks.uploads import CLONE_PATH
from kvedge.resources.types.import_job import UPLOAD_PORT, CloneTarget
from kvedge.runtime.tls.bare_contexts import new_client_context
from kvedge.storage.imports.clones.clone_stream import read_disk_stream
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress

_CONNECT_SECONDS: Final = 10.0
# The other side writes to its disk while we wait, and answers when all of it is there.
_SILENT_SECONDS: Final = 600.0
_LARGEST_ANSWER: Final = 4 << 10
_DONE: Final = 200
# The claim has been filled: our answer was lost, or the one before us was faster.
_TAKEN: Final = 409


def sender_tls(directory: Path) -> ssl.SSLContext:
    """The sender's context: it believes uploads' authority alone."""
    context = new_client_context()
    context.load_verify_locations(directory / "ca.crt")
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context


def send_disk(
    source: tuple[int, int, bool],
    target: CloneTarget,
    tls: ssl.SSLContext,
    progress: ImportProgress,
    port: int = UPLOAD_PORT,
) -> None:
    """Send a disk; `source` is its descriptor, its size in bytes, and whether it is a device.

    Raises:
        ImportFailure: the worker refuses it, or is gone.
    """
    descriptor, size, block = source
    progress.expect(size)
    try:
        with socket.create_connection((target.address, port), _CONNECT_SECONDS) as plain:
            plain.settimeout(_SILENT_SECONDS)
            with tls.wrap_socket(plain, server_hostname=target.server_name) as secured:
                status, text = _post(secured, _count(read_disk_stream(descriptor, size, block=block), progress))
    except (OSError, http.client.HTTPException) as error:
        raise ImportFailure(f"the worker of the copy does not answer: {error}") from error
    if status not in (_DONE, _TAKEN):
        raise ImportFailure(text or f"the worker of the copy answers {status}")


def _post(secured: ssl.SSLSocket, pieces: Iterator[bytes]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("worker")
    connection.sock = secured
    # Refused in the midst of it: the answer says why, if it is there.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.request("POST", CLONE_PATH, pieces, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    answer = connection.getresponse()
    return answer.status, answer.read(_LARGEST_ANSWER).decode("utf-8", "replace").strip()


def _count(pieces: Iterator[bytes], progress: ImportProgress) -> Iterator[bytes]:
    sent = 0
    for piece in pieces:
        yield piece
        sent += len(piece)
        progress.reach(sent)
