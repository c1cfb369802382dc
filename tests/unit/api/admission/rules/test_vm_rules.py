"""Rules for what a VM has beside its template."""

from __future__ import annotations

import pytest

from kvedge.api.admission.rules.vm_rules import name_fits
from tests.support.builders import a_vm


@pytest.mark.parametrize(
    ("namespace", "length", "said"),
    [
        ("default", 63, []),
        ("default", 237, []),
        ("default", 238, ["metadata.name: must be no more than 237 characters in this namespace"]),
        ("n" * 63, 181, []),
        ("n" * 63, 182, ["metadata.name: must be no more than 181 characters in this namespace"]),
    ],
)
def test_a_name_fits_into_a_files_beside_its_namespace(namespace: str, length: int, said: list[str]) -> None:
    vm = a_vm()
    vm.metadata.namespace, vm.metadata.name = namespace, "x" * length
    assert [cause.message for cause in name_fits(vm)] == said
