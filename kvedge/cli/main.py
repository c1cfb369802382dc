"""Entry of the program: everything but the launcher goes to the group, which turns failures into words and exit codes.

Called by the installed script and by `python -m kvedge`. The only place that exits. Verbs are listed in `verbs`.
"""

from __future__ import annotations

import sys
from typing import Final, NoReturn

from kvedge.cli.garbage import collect_seldom

# The exit code that a shell reports for a program ended by Ctrl-C.
_INTERRUPTED: Final = 130


def main() -> NoReturn:
    """Run one verb and exit with the code that `kvedge.cli.exits` documents."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["launcher"]:
        # Each VM pays for what its launcher imports: no click on that way.
        from kvedge.launcher.command import launcher_command

        sys.exit(launcher_command(arguments[1:]))
    collect_seldom()
    try:
        from kvedge.cli.group import run

        code = run(arguments)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)
