"""Fetches from a worker what it has read in a repository: the record of a backup.

Called by the loop of restores. Opens one connection to a Pod's address; the answer is bounded in size and time.
"""

from __future__ import annotations

import http.client
from typing import Final

from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.types.import_job import PROGRESS_PORT
from kvedge.resources.types.protection.backup_job import LARGEST_RESULT, BackupRecord

_SECONDS: Final = 3.0


def fetch_record(address: str, token: str, port: int = PROGRESS_PORT) -> BackupRecord | None:
    """The record; None while the worker has none, or does not answer.

    Raises:
        DecodeError: when what it hands out is no record.
    """
    connection = http.client.HTTPConnection(address, port, timeout=_SECONDS)
    try:
        connection.request("GET", f"/result/{token}")
        answer = connection.getresponse()
        body = answer.read(LARGEST_RESULT + 1)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if answer.status != http.client.OK:
        return None
    if len(body) > LARGEST_RESULT:
        raise DecodeError("", f"the record has more than {LARGEST_RESULT >> 20} MiB")
    return decode_json(BackupRecord, body)
