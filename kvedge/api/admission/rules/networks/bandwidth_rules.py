"""Rules for how fast a VM may speak and be spoken to, which its Pod's annotations say.

Called by admission_plan.py; touches nothing. A kubelet refuses such a Pod only when it is to run; here the author is
told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.values.bandwidth import EGRESS, INGRESS, BandwidthError, bits_of


def bandwidths_are_possible(subject: Subject) -> Iterator[Cause]:
    """Each annotation is a number of bits per second that a link can be held to."""
    for name in (INGRESS, EGRESS):
        try:
            bits_of(subject.metadata.annotations, name)
        except BandwidthError as error:
            at = subject.metadata_at.at("annotations").key(name)
            yield Cause(at, f"{at}: {error.why}")


RULES: Final[tuple[Rule, ...]] = (bandwidths_are_possible,)
