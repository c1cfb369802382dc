"""The file that remembers what a Pod's NIC was before it was bound: written whole or not at all, read strictly.

The kernel forgets routes together with addresses, so without this a handler that was killed in the middle could not
go on.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from kvedge.network.binding.binding_state import Record
from kvedge.network.errors import NetworkError
from kvedge.runtime.damaged_files import put_aside
from kvedge.runtime.durable_files import write_durably


def write_record(path: Path, record: Record) -> None:
    """Puts the record on disk under its final name only when it is complete there. Raises NetworkError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(path, json.dumps(msgspec.to_builtins(record)).encode(), mode=0o644)
    except OSError as error:
        raise NetworkError("cannot write the network record", subject=str(path), errno=error.errno or 0) from error


def read_record(path: Path) -> Record | None:
    """The record, or None when there is none or it cannot be understood.

    What a later version wrote besides is passed over, so that a handler may be downgraded under running VMs.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, IsADirectoryError) as error:
        # The binding goes on without a record, and refuses a Pod whose addresses are known from nowhere else.
        _put_aside(path, error)
        return None
    except OSError as error:
        raise NetworkError("cannot read the network record", subject=str(path), errno=error.errno or 0) from error


def forget_record(path: Path) -> None:
    """Removes the record of a NIC that is bound no more. Raises NetworkError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise NetworkError("cannot remove the network record", subject=str(path), errno=error.errno or 0) from error


def _put_aside(path: Path, why: Exception) -> None:
    try:
        put_aside(path, str(why))
    except OSError as error:
        raise NetworkError("cannot put aside the network record", subject=str(path), errno=error.errno or 0) from error
