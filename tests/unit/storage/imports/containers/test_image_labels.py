"""Labels of a container disk's environment."""

from __future__ import annotations

import pytest

from kvedge.storage.images.image_manifest import ImageConfig, parse_config
from kvedge.storage.imports.containers.image_labels import labels_of


def _config(*env: str) -> ImageConfig:
    text = ",".join(f'"{line}"' for line in env)
    return parse_config(f'{{"rootfs": {{"diff_ids": []}}, "config": {{"Env": [{text}]}}}}'.encode())


def test_a_variable_of_kubevirt_s_is_the_label_that_it_stands_for() -> None:
    config = _config("PATH=/bin", "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE=u1.small")
    assert labels_of(config) == {"instancetype.kubevirt.io/default-instancetype": "u1.small"}


@pytest.mark.parametrize("line", ["A_KUBEVIRT_IO_=x", "_KUBEVIRT_IO_B=x", "A_KUBEVIRT_IO_B=-x", "A_KUBEVIRT_IO_B="])
def test_what_can_be_no_label_is_none(line: str) -> None:
    assert labels_of(_config(line)) == {}


def test_there_are_no_more_labels_than_anybody_needs() -> None:
    assert len(labels_of(_config(*(f"A_KUBEVIRT_IO_B{number}=x" for number in range(40))))) == 16
