"""How a link is held to so many bits per second: the size of its bucket and of its queue.

Pure; `pod_network` puts the step into what it does for a Pod. A token bucket stands at the sending end of a link: the
host's for what the Pod is sent, the Pod's own for what it sends, where no process of the Pod has the right to remove
it. It needs no classifier of the kernel, as policing would.
"""

from __future__ import annotations

from typing import Final

from kvedge.network.steps import LimitRate

# A guest hands over segments of 64 KiB, which the kernel cuts when the bucket is smaller, and some of their headers.
_SMALLEST_BUCKET: Final = 66_000
# The coarsest clock of a kernel refills the bucket a hundred times a second; twice that much hides its jitter.
_REFILLS_PER_SECOND: Final = 50
# The kernel measures a bucket by the time that filling it takes, in nanoseconds of 32 bits: 4.29 seconds.
_SECONDS_TO_FILL: Final = 4
# 20 kbit/s: into the bucket of a slower link no large frame (9000 bytes) would fit, and none would ever pass.
_SLOWEST: Final = 2500
# A packet that would have to wait longer is dropped, so that senders slow down.
_MILLISECONDS_OF_QUEUE: Final = 50
# The kernel's number is one of 32 bits: 34 Gbit/s, which is no limit for a link that only copies.
_FASTEST: Final = 2**32 - 1


def rate_limit(link: str, bits_per_second: int) -> list[LimitRate]:
    """The step that holds a link to it; none when there is no limit."""
    if not bits_per_second:
        return []
    rate = min(max(bits_per_second // 8, _SLOWEST), _FASTEST)
    bucket = min(max(_SMALLEST_BUCKET, rate // _REFILLS_PER_SECOND), rate * _SECONDS_TO_FILL)
    return [LimitRate(link, rate, bucket, bucket + rate * _MILLISECONDS_OF_QUEUE // 1000)]
