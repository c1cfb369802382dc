"""`kvedge image-upload` into what nothing fills: refused before anything is asked of a server."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.objects.image_upload_verb import image_upload


@pytest.mark.parametrize(
    ("kind", "text"),
    [("vm", "invalid resource type vm: use dv or pvc"), ("dvs", "use dv or pvc")],
    ids=["another kind", "a plural"],
)
def test_only_a_data_volume_or_a_claim_takes_an_upload(kind: str, text: str) -> None:
    done = CliRunner().invoke(image_upload, [kind, "disk", "--image-path=/dev/null"])
    assert isinstance(done.exception, Refused)
    assert done.exception.code == Exit.USAGE
    assert text in str(done.exception)
