"""Events of a Node for background work that failed."""

from __future__ import annotations

from unittest.mock import MagicMock

from kvedge.kube.node_troubles import NodeTroubles
from kvedge.runtime.background import tell_trouble


def test_what_fails_while_it_listens_becomes_an_event_of_the_node() -> None:
    events = MagicMock()
    troubles = NodeTroubles(events, "box")
    tell_trouble("probes", LookupError("too early"))
    troubles.start()
    tell_trouble("probes", LookupError("on purpose"))
    troubles.stop()
    tell_trouble("probes", LookupError("too late"))
    ((node, *said),) = [call.args for call in events.record.call_args_list]
    assert (node.metadata.name, node.metadata.uid) == ("box", "box")
    assert said == ["Warning", "BackgroundWorkFailed", "probes: LookupError: on purpose; it begins anew"]


def test_one_that_never_listened_can_be_stopped() -> None:
    events = MagicMock()
    NodeTroubles(events, "box").stop()
    assert not events.record.called
