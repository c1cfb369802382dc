"""`kvedge create vm` against virtctl's own: the same flags make the same manifest."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kvedge.cli.group import kvedge
from tests.support.golden.manifest_cases import CREATE_CASES
from tests.support.kube_apiserver import assets

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def virtctl() -> Path:
    directory = assets()
    path = None if directory is None else directory / "virtctl"
    if path is None or not path.is_file():
        pytest.skip("needs virtctl where $KUBEBUILDER_ASSETS points to, or in /usr/local/kubebuilder/bin")
    return path


@pytest.mark.parametrize("case", CREATE_CASES)
def test_the_manifest_is_the_one_that_virtctl_makes(
    case: str, virtctl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "password").write_text("secret\n")
    arguments = CREATE_CASES[case]
    theirs = subprocess.run(
        [str(virtctl), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HOME": str(tmp_path), "KUBECONFIG": ""},
        timeout=60,
    )
    ours = CliRunner().invoke(kvedge, arguments, catch_exceptions=False)
    assert ours.exit_code == 0, ours.output
    assert yaml.safe_load(ours.stdout) == yaml.safe_load(theirs.stdout)


@pytest.mark.parametrize(
    "words",
    [
        "instancetype --name x --cpu 2 --memory 1024Mi",
        "instancetype --name x --cpu 2 --memory 256Mi --namespaced --iothreadspolicy shared",
        "instancetype --name x --cpu 1 --memory 1Gi --gpu name:g,devicename:d --hostdevice name:h,devicename:e",
        "preference --name x",
        "preference --name x --cpu-topology spread --volume-storage-class fast --machine-type q35 --namespaced",
    ],
)
def test_instance_types_and_preferences_are_those_that_virtctl_makes(words: str, virtctl: Path, tmp_path: Path) -> None:
    arguments = ["create", *words.split()]
    theirs = subprocess.run(
        [str(virtctl), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HOME": str(tmp_path), "KUBECONFIG": ""},
        timeout=60,
    )
    ours = CliRunner().invoke(kvedge, arguments, catch_exceptions=False)
    assert ours.exit_code == 0, ours.output
    assert yaml.safe_load(ours.stdout) == yaml.safe_load(theirs.stdout)
