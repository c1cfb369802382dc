"""Sizes of huge pages, and how Kubernetes calls them."""

from __future__ import annotations

import pytest

from kvedge.resources.values.huge_pages import can_be_page, page_resource


@pytest.mark.parametrize(
    ("size", "name"),
    [(64 << 10, "64Ki"), (2 << 20, "2Mi"), (32 << 20, "32Mi"), (1 << 30, "1Gi")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_size_of_a_processor_has_kubernetes_name(size: int, name: str) -> None:
    assert page_resource(size) == f"hugepages-{name}"
    assert can_be_page(size)


@pytest.mark.parametrize("size", [0, 4096, 3 << 20, -(2 << 20)])
def test_other_sizes_are_none(size: int) -> None:
    assert not can_be_page(size)
