"""Names by which alarms are found: their ConfigMap, and what says who is told of them. Touches nothing."""

from __future__ import annotations

from typing import Final

# Both in the system's namespace.
ALARMS_CONFIG: Final = "kvedge-alarms"
RECEIVERS_SECRET: Final = "kvedge-alarm-receivers"
# The Secret's key, and beside the kubeconfig of a host the name of the file.
RECEIVERS_FILE: Final = "alarm-receivers.yaml"
# The site's own program that is told, beside that file.
ALERT_HOOK: Final = "alert-hook"
