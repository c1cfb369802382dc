"""What a web server's content is known by."""

from __future__ import annotations

import pytest

from kvedge.resources.types.import_job import HttpSource, ImportJob
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from tests.support.image_server import PlayedServer, played_server


def digest_of(server: PlayedServer) -> str:
    job = ImportJob(name="linux", poll=True, http=HttpSource(url=f"{server.url}/disk.img"))
    outcome = run_import(job, ImportPlaces(), ImportProgress(), ImportDoor(own_host=True))
    assert outcome.message == "Poll Complete"
    return outcome.digest


def test_content_is_new_when_its_tag_is() -> None:
    with played_server(b"image") as server:
        server.etag = '"one"'
        first = digest_of(server)
        assert digest_of(server) == first
        assert first.startswith("sha256:")
        server.etag = '"two"'
        assert digest_of(server) != first


def test_a_server_that_tells_nothing_of_its_content_cannot_be_polled() -> None:
    with played_server(b"image") as server:
        server.etag = ""
        with pytest.raises(ImportFailure, match="neither ETag nor Last-Modified"):
            digest_of(server)


def test_a_server_that_is_away_is_told() -> None:
    with played_server(b"image") as server:
        gone = server
    with pytest.raises(ImportFailure, match="Unable to connect to http data source"):
        digest_of(gone)


def test_a_source_without_a_server_is_told() -> None:
    with pytest.raises(ImportFailure, match="only registry, http, s3 and gcs"):
        run_import(ImportJob(name="linux", poll=True), ImportPlaces(), ImportProgress())
