"""What the parent of warm launchers and the agent say to each other: a byte with a descriptor, and these answers."""

from __future__ import annotations

from typing import Final

# The hidden subcommand.
WARM_VERB: Final = "warm-launchers"
ORDER: Final = b"o"
YES: Final = "+"
# Followed by the reason; the parent ends then.
NO: Final = "-"
NO_LETTERS: Final = 300
# How long a launcher's command line and its environment may be, in bytes: the parent is started with as much.
ARGUMENT_ROOM: Final = 2048
ENVIRONMENT_ROOM: Final = 4096
