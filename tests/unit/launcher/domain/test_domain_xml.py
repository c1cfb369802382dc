"""The rendered domains, compared with their golden files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.resources.codec import decode
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.golden.domain_cases import case_names, load_case

MANIFESTS = Path(__file__).parents[3] / "support" / "manifests"


@pytest.mark.parametrize("name", case_names())
def test_a_vmi_becomes_the_domain_of_its_golden_file(name: str, request: pytest.FixtureRequest) -> None:
    case = load_case(name)
    rendered = render_domain(case.vmi, case.context)
    if request.config.getoption("--update-golden", default=False):
        case.xml_path.write_text(rendered)
    assert rendered == case.xml_path.read_text()


def test_the_manifest_of_a_real_user_becomes_the_same_domain_as_the_vmi_made_of_it() -> None:
    manifest = yaml.safe_load((MANIFESTS / "kubevirt-smoke-fedora.yaml").read_text())
    case = load_case("smoke-fedora")
    template = {"metadata": case.vmi_document["metadata"], "spec": manifest["spec"]["template"]["spec"]}
    vmi = decode(VirtualMachineInstance, template)
    assert render_domain(vmi, case.context) == case.xml_path.read_text()
