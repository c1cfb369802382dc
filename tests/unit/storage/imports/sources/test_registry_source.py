"""What an image's environment says of its disk; images themselves are tested with a real registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.resources.types.import_job import RegistrySource
from kvedge.storage.images.image_manifest import ImageConfig
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.sources.registry_source import labels_of, open_image
from kvedge.storage.imports.sources.web_source import SourceFiles


def test_an_image_names_its_instancetype_and_preference() -> None:
    env = (
        "PATH=/bin",
        "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE=u1.small",
        "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE=fedora",
        "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE_KIND=not a value!",
        "_KUBEVIRT_IO_X=x",
    )
    assert labels_of(ImageConfig((), env=env)) == {
        "instancetype.kubevirt.io/default-instancetype": "u1.small",
        "instancetype.kubevirt.io/default-preference": "fedora",
    }


@pytest.mark.parametrize("url", ["http://x/y", "docker://UPPER/..", "docker:", "oci-layout:/x", "oci-archive:x.tar"])
def test_another_url_is_refused(tmp_path: Path, url: str) -> None:
    files = SourceFiles(tmp_path, tmp_path, tmp_path)
    with pytest.raises(ImportFailure, match="Illegal registry source URL"):
        open_image(RegistrySource(url=url), files, ImportDoor())
