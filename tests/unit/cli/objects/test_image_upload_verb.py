"""`kvedge image-upload` into what nothing fills: refused before anything is asked of a server."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.objects.image_upload_verb import image_upload


@pytest.mark.parametrize(
    ("kind", "text"),
    [("pvc", "use `kvedge image-upload dv disk`"), ("PVC", "bare PersistentVolumeClaim"), ("vm", "use dv")],
    ids=["a bare claim", "in capitals", "another kind"],
)
def test_only_a_data_volume_takes_an_upload(kind: str, text: str) -> None:
    done = CliRunner().invoke(image_upload, [kind, "disk", "--image-path=/dev/null"])
    assert isinstance(done.exception, Refused)
    assert done.exception.code == Exit.USAGE
    assert text in str(done.exception)
