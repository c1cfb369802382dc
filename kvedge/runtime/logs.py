"""Structured logs: one line per record, logfmt, with the key of the object it is about.

Called once by each subcommand; every module then uses `logging.getLogger(__name__)` and passes facts as
`extra={"facts": {...}}`. Writes to standard error. Values that look like secrets never reach a formatter: pass keys
and names, not documents.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class LogfmtFormatter(logging.Formatter):
    """`time=… level=… logger=… msg="…" vmi=default/web`."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as one line; a traceback is appended in quotes."""
        moment = datetime.fromtimestamp(record.created, UTC)
        pairs: dict[str, Any] = {
            "time": moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("kvedge."),
            "msg": record.getMessage(),
        }
        facts = getattr(record, "facts", None)
        if isinstance(facts, dict):
            pairs |= facts
        if record.exc_info:
            pairs["error"] = self.formatException(record.exc_info)
        return " ".join(f"{key}={_quote(value)}" for key, value in pairs.items())


def _quote(value: object) -> str:
    text = str(value)
    if text and not any(character in text for character in ' "=\n\r\t\\'):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def set_up_logs(level: str = "info") -> None:
    """Send all records of `level` (debug, info, warning, error) and above to standard error.

    Raises:
        ValueError: for another level, naming those there are.
    """
    if level not in _LEVELS:
        raise ValueError(f"log level {level!r} is not one of {', '.join(_LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogfmtFormatter())
    handler.addFilter(_is_wanted)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])


def _is_wanted(record: logging.LogRecord) -> bool:
    """All of ours, and what is serious of others: some log each packet and set their own level when loaded."""
    return record.name.startswith("kvedge") or record.levelno >= logging.WARNING


def set_verbosity(role: str, verbosity: int | None) -> None:
    """Let a role's own modules log by a verbosity of KubeVirt's, from 0 to 9; None: as everything else does.

    KubeVirt's usual 2 is our info; its debugging begins at 4.
    """
    logger = logging.getLogger(f"kvedge.{role}")
    if verbosity is None:
        logger.setLevel(logging.NOTSET)
    elif verbosity < 2:
        logger.setLevel(logging.WARNING)
    else:
        logger.setLevel(logging.INFO if verbosity < 4 else logging.DEBUG)
