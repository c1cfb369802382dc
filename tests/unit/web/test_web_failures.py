"""What a page hears of errors."""

from __future__ import annotations

import pytest

from kvedge.client.errors import ClientError, FlagError, NotFoundError, RefusedError
from kvedge.kube.errors import (
    AlreadyExists,
    Cause,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Unavailable,
)
from kvedge.web.web_failures import failure_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound(404, "", "x"), 404),
        (Forbidden(403, "", "x"), 403),
        (Conflict(409, "", "x"), 409),
        (Invalid(422, "", "x"), 422),
        (KubeError(400, "BadRequest", "x"), 422),
        (Unavailable(0, "", "x"), 502),
        (NotFoundError("x"), 404),
        (FlagError("memory", "x", "x"), 422),
        (RefusedError("x"), 409),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_has_its_status(error: KubeError | ClientError, status: int) -> None:
    assert failure_of(error).status == status


def test_causes_are_told_with_their_fields_and_within_bounds() -> None:
    causes = tuple(Cause("spec.template.spec.domain.cpu.cores", "", "\u202e" * 10_000) for _ in range(100))
    document = failure_of(Invalid(422, "Invalid", "x" * 10_000, causes)).document
    assert len(document["message"]) == 1024
    assert len(document["causes"]) == 32
    assert document["causes"][0]["field"] == "cpus"
    assert "\u202e" not in document["causes"][0]["message"]


def test_a_taken_name_is_told_at_the_name() -> None:
    document = failure_of(AlreadyExists(409, "AlreadyExists", "web already exists")).document
    assert document["causes"] == [{"field": "name", "path": "metadata.name", "message": "web already exists"}]


def test_a_flag_is_told_at_its_field_without_the_flag() -> None:
    document = failure_of(FlagError("cpu", "too many", 'failed to parse "--cpu" flag: too many')).document
    assert document["causes"] == [{"field": "cpus", "path": "", "message": "too many"}]
