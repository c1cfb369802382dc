"""How a link is held to its bandwidth."""

from __future__ import annotations

import pytest

from kvedge.network.pods.rate_plan import rate_limit
from kvedge.network.steps import LimitRate


def test_a_pod_without_a_limit_gets_no_bucket() -> None:
    assert rate_limit("eth0", 0) == []


def test_bits_become_bytes() -> None:
    assert rate_limit("eth0", 10_000_000) == [LimitRate("eth0", 1_250_000, 66_000, 66_000 + 62_500)]


@pytest.mark.parametrize("bits", [1000, 10**6, 10**9, 10**10, 10**15])
def test_a_large_frame_fits_and_the_kernel_can_count_it(bits: int) -> None:
    (limit,) = rate_limit("eth0", bits)
    assert 0 < limit.rate < 2**32
    assert limit.bucket > 9000
    assert limit.bucket / limit.rate * 10**9 < 2**32
    assert limit.bucket <= limit.queue < 2**32
    # The slowest kernels fill a bucket every ten milliseconds.
    assert limit.bucket * 100 >= limit.rate
