"""What a source has now, as a digest: whether a DataImportCron has to import anything.

Called by the import's run. Opens connections through the door; nothing of an image is read but a registry's manifest.
"""

from __future__ import annotations

import hashlib
import http.client

from kvedge.resources.types.import_job import ImportJob
from kvedge.storage.images.registry_door import Door
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.sources.http_download import content_mark, unreachable
from kvedge.storage.imports.sources.registry_source import image_digest
from kvedge.storage.imports.sources.web_source import SourceFiles, http_download, s3_download


def source_digest(job: ImportJob, files: SourceFiles, door: Door) -> str:
    """`sha256:` and 64 digits: a registry's digest of the image, or one of what a server says of its content.

    Raises:
        ImportFailure: the source cannot be polled, or does not answer.
        ImageError: of a registry.
    """
    if job.registry is not None:
        return image_digest(job.registry, files, door)
    if job.http is not None:
        download = http_download(job.http, files, door)
    elif job.s3 is not None:
        download = s3_download(job.s3, files, door)
    else:
        raise ImportFailure("only registry, http, s3 and gcs sources can be polled")
    try:
        mark = content_mark(download)
    except (OSError, http.client.HTTPException) as error:
        raise unreachable(error) from error
    return f"sha256:{hashlib.sha256(f'{download.url} {mark}'.encode()).hexdigest()}"
