"""Which status code says what."""

from __future__ import annotations

import errno

import grpc
import pytest

from kvedge.launcher.launcher_errors import (
    BadRequest,
    DiskFull,
    DomainMissing,
    LibvirtFailed,
    Unanswered,
    WrongState,
)
from kvedge.launcher.launcher_server import status_code

CASES = {
    "the domain is in the wrong state": (WrongState("x"), grpc.StatusCode.FAILED_PRECONDITION),
    "there is no domain": (DomainMissing("x"), grpc.StatusCode.FAILED_PRECONDITION),
    "the VMI makes no domain": (BadRequest("spec", "x"), grpc.StatusCode.INVALID_ARGUMENT),
    "the disk is full": (DiskFull("/x", "y"), grpc.StatusCode.RESOURCE_EXHAUSTED),
    "the file system says so itself": (OSError(errno.ENOSPC, "x"), grpc.StatusCode.RESOURCE_EXHAUSTED),
    "the quota is used up": (OSError(errno.EDQUOT, "x"), grpc.StatusCode.RESOURCE_EXHAUSTED),
    "nobody answered": (Unanswered("x"), grpc.StatusCode.UNAVAILABLE),
    "libvirt failed": (LibvirtFailed("x", 1, 2, "y"), grpc.StatusCode.INTERNAL),
    "a file is not readable": (OSError(errno.EACCES, "x"), grpc.StatusCode.INTERNAL),
}


@pytest.mark.parametrize(("error", "code"), CASES.values(), ids=CASES)
def test_each_kind_of_error_has_its_code(error: Exception, code: grpc.StatusCode) -> None:
    assert status_code(error) is code
