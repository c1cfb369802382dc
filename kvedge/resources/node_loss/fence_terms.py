"""After which time the guests of a silent node are surely gone: the arithmetic of nodes that fence themselves.

Called by the handler, which ends guests by it, by the controller, which starts them elsewhere by it, and by admission.
Pure. All times are seconds; no clock of one host is ever compared with that of another.

The node. `t_ok` is the moment, on its own CLOCK_BOOTTIME, at which it *sent* the last renewal of its lease that was
answered with success. A fencer looks every `check` seconds. While `now - t_ok <= silence` it feeds the watchdog, which
resets the machine when it was not fed for `watchdog` seconds. After that it feeds no more, kills the guests, and feeds
again only once none of them is left. A handler that starts anew knows `t_ok` from its record, and looks before it opens
the watchdog.

The server. `t_seen` is the moment, on the controller's own monotonic clock, since which it has seen one version of the
lease. A controller that starts anew begins the time anew. After `gone_after` seconds it writes into the lease, on the
condition that it still has that version, that the node is fenced. A node whose renewal meets that write has lost.

Proof that no guest runs once that write has succeeded:

1. The last renewal that the server took was taken at `t_seen` or before: the condition of the write says so. The node
   sent it before that. So `t_ok <= t_seen`, if the answer came; if it did not, `t_ok` is older still.
2. Take the last look that found the lease good: it was at `t_ok + silence` at the latest. No later look feeds the
   watchdog or opens it, until no guest is left.
3. Three things can delay the end after that look, each by `watchdog` at most, as the timer ends the machine otherwise:
   the process is stopped between its look and its feeding; it is killed after that, and the kernel itself feeds once
   when it closes the device of a process that has gone; and the timer runs from there.
4. So no guest runs after `t_ok + silence + 3 * watchdog`, whether the fencer killed the guests or the timer did it.
5. `margin` is for the rates of the two clocks, for a timer that is late, and for what the machine needs to be reset.
   Where the node's clock and its timer run slow by a part `d`, the guests may run until
   `(silence + 3 * watchdog) / (1 - d)`; where the controller's clock runs fast by `d`, it waits for
   `gone_after / (1 + d)` alone. The second is not below the first where the margin is at least
   `2 * d / (1 - d)` of `silence + 3 * watchdog`. That, for one in a hundred, and a second for the reset itself is the
   `least_margin`.

What this does not cover. A machine that sleeps, or whose hypervisor stands still, has a timer that stands still, too.
When it wakes, its guests run until the first look, `check` seconds later at most: CLOCK_BOOTTIME has gone on. A
hardware watchdog that does not reset the machine, and a clock that is wrong by more than one in a hundred, are not
covered either. Locks on the images are the second line there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import fields, replace

# On the KubeVirt object.
SELF_FENCING: Final = "kvedge.io/self-fencing"
ENABLED: Final = "enabled"
DISABLED: Final = "disabled"
# The clocks of node and controller may be wrong by this part each.
CLOCK_ERROR: Final = 0.01
# What a machine needs at least from the end of its timer until nothing runs on it.
RESET_SECONDS: Final = 1.0
_DELAYS: Final = 3
# A renewal or two may be lost without harm.
_RENEWALS: Final = 3
_TERM: Final = re.compile(r"(silence|watchdog|renew|check|margin)=([0-9]{1,4})s")
_LONGEST: Final = 3600
_SHORTEST: Final = 1
_LONGEST_TEXT: Final = 200
_HOW: Final = f"use {ENABLED}, {DISABLED}, or terms such as silence=40s,watchdog=20s,renew=5s,check=2s,margin=20s"


class TermsError(ValueError):
    """The text is no terms; the message says why, and what is."""


class FenceTerms(Struct, frozen=True):
    """The terms of one node, in seconds."""

    # How long the node's guests outlive its last renewal.
    silence: int = 40
    # How long the machine runs without being fed.
    watchdog: int = 20
    # How often the lease is renewed, and how often the fencer looks.
    renew: int = 5
    check: int = 2
    margin: int = 20

    @property
    def gone_after(self) -> int:
        """For how long a lease must not have changed before its node's guests are surely gone."""
        return self.silence + _DELAYS * self.watchdog + self.margin

    @property
    def least_margin(self) -> float:
        """What the rates of two clocks may make of these terms, and the reset."""
        return 2 * CLOCK_ERROR / (1 - CLOCK_ERROR) * (self.silence + _DELAYS * self.watchdog) + (
            RESET_SECONDS * (1 + CLOCK_ERROR)
        )

    def is_over(self, t_ok: float, now: float) -> bool:
        """Whether a node must end its guests, by its own clock."""
        return now - t_ok > self.silence

    def with_watchdog(self, seconds: int) -> FenceTerms:
        """The same with what the device has really taken."""
        return replace(self, watchdog=seconds)

    def format(self) -> str:
        """As `parse_terms` reads it."""
        return ",".join(f"{field.name}={getattr(self, field.name)}s" for field in fields(self))


def parse_terms(text: str) -> FenceTerms | None:
    """The terms that the annotation asks for; None where nodes shall not fence themselves.

    Raises:
        TermsError: for a text that is neither.
    """
    if text in ("", DISABLED):
        return None
    if text == ENABLED:
        return FenceTerms()
    if len(text) > _LONGEST_TEXT:
        raise TermsError(f"it is longer than {_LONGEST_TEXT} characters; {_HOW}")
    given: dict[str, int] = {}
    for part in text.split(","):
        found = _TERM.fullmatch(part.strip())
        if found is None:
            raise TermsError(f"{part.strip()!r} is no term; {_HOW}")
        if found[1] in given:
            raise TermsError(f"{found[1]} is there twice")
        given[found[1]] = int(found[2])
    terms = replace(FenceTerms(), **given)
    _check(terms)
    return terms


def read_terms(annotations: Mapping[str, str]) -> FenceTerms | None:
    """The terms of a KubeVirt object; None where there are none, or none that can be understood."""
    try:
        return parse_terms(annotations.get(SELF_FENCING, ""))
    except TermsError:
        return None


def _check(terms: FenceTerms) -> None:
    for field in fields(terms):
        value = getattr(terms, field.name)
        if not _SHORTEST <= value <= _LONGEST:
            raise TermsError(f"{field.name} must be {_SHORTEST} to {_LONGEST} s, and is {value}")
    if terms.silence < _RENEWALS * terms.renew:
        raise TermsError(f"silence must be at least {_RENEWALS * terms.renew} s, {_RENEWALS} times renew")
    # Two looks may be late, and the feeding in time all the same.
    if terms.watchdog < 2 * terms.check:
        raise TermsError(f"watchdog must be at least {2 * terms.check} s, twice check")
    if terms.margin < terms.least_margin:
        raise TermsError(
            f"margin must be at least {math.ceil(terms.least_margin)} s: clocks may differ by two in a hundred, and a"
            " reset takes its time"
        )
