from __future__ import annotations

from kvedge.resources.codec import decode_json, encode_json
from kvedge.resources.types.import_job import HttpSource, ImportJob, ImportOutcome


def test_a_job_arrives_as_it_was_sent() -> None:
    job = ImportJob(name="ns/disk", size=1 << 30, http=HttpSource(url="https://a/b.qcow2", extra_headers=["A: b"]))
    assert decode_json(ImportJob, encode_json(job)) == job


def test_an_outcome_arrives_as_it_was_left() -> None:
    outcome = ImportOutcome(message="no such file", reason="Error", fatal=True, labels={"a": "b"})
    assert decode_json(ImportOutcome, encode_json(outcome)) == outcome
