"""What keeps a function of a card from being a guest's, in words for its user."""

from __future__ import annotations

import pytest

from kvedge.launcher.launcher_errors import DeviceUnusable
from kvedge.launcher.passthrough.function_rules import FunctionFacts, check_function
from tests.support.values import replace

NIC = ("spec.domain.devices.interfaces[1].sriov", "the device plugin of vendor.com/fast", "0000:65:02.0")
GOOD = FunctionFacts(driver="vfio-pci", group="42", has_node=True, is_usable=True, has_vfio=True)


def test_a_function_of_vfio_that_the_pod_has_is_good() -> None:
    check_function(*NIC, GOOD)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (replace(GOOD, is_there=False), "is not on this node; see that its card is there"),
        (replace(GOOD, group=""), "is in no IOMMU group; turn the IOMMU on"),
        (replace(GOOD, driver="iavf"), "has the driver iavf; bind it to vfio-pci"),
        (replace(GOOD, driver=""), "has no driver; bind it to vfio-pci"),
        (replace(GOOD, has_node=False), "lacks /dev/vfio/42; the device plugin of vendor.com/fast gives it to a Pod"),
        (replace(GOOD, has_vfio=False), "lacks /dev/vfio/vfio; the device plugin of vendor.com/fast"),
        (replace(GOOD, is_usable=False), "/dev/vfio/42 may not be opened; see that the node's handler runs"),
    ],
    ids=["gone", "no IOMMU", "the card's driver", "no driver", "no group", "no VFIO", "not ours"],
)
def test_what_libvirt_would_refuse_is_told_before_with_its_remedy(facts: FunctionFacts, words: str) -> None:
    with pytest.raises(DeviceUnusable, match=r"^spec\.domain\.devices\.interfaces\[1\]\.sriov: function 0000:65") as no:
        check_function(*NIC, facts)
    assert words in str(no.value)
