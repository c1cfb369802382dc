"""The file that remembers what a Pod's NIC was before it was bound: written whole or not at all, read strictly.

The kernel forgets routes together with addresses, so without this a handler that was killed in the middle could not
go on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from kvedge.network.binding_state import Record
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Address, Route
from kvedge.runtime.durable_files import write_durably

T = TypeVar("T", Record, Address, Route)


def write_record(path: Path, record: Record) -> None:
    """Puts the record on disk under its final name only when it is complete there. Raises NetworkError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(path, json.dumps(asdict(record)).encode(), mode=0o644)
    except OSError as error:
        raise NetworkError("cannot write the network record", subject=str(path), errno=error.errno or 0) from error


def read_record(path: Path) -> Record | None:
    """The record, or None when there is none or it cannot be understood.

    What a later version wrote besides is passed over, so that a handler may be downgraded under running VMs.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found["addresses"] = tuple(_known(Address, each) for each in found["addresses"])
        found["routes"] = tuple(_known(Route, each) for each in found["routes"])
        return _known(Record, found)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NetworkError("cannot read the network record", subject=str(path), errno=error.errno or 0) from error
    except (ValueError, TypeError, KeyError):
        # Its absence is noticed, and said, where it is missed.
        return None


def _known(kind: type[T], mapping: dict[str, Any]) -> T:
    return kind(**{each.name: mapping[each.name] for each in fields(kind) if each.name in mapping})


def remove_record(path: Path) -> None:
    """Deletes it; nothing when it is gone already."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise NetworkError("cannot delete the network record", subject=str(path), errno=error.errno or 0) from error
