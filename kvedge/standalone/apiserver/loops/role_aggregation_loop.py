"""Keeps ClusterRoles that gather others (`aggregationRule`) at the union of those: `admin`, `edit` and `view` grow.

Runs in the API server's event loop; started by `server_parts`. The decision is `gather_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.access.rbac_index import CLUSTER_ROLES
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.schema.selectors import label_selector_of
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Change, ObjectKey
from kvedge.standalone.apiserver.wire.json_values import compact
from kvedge.standalone.apiserver.writing.server_actor import ServerActor


class RoleAggregationLoop:
    """Looks at all gathering roles whenever a ClusterRole changes."""

    def __init__(self, hub: ObjectHub, actor: ServerActor) -> None:
        self._hub = hub
        self._actor = actor
        self._loop: WorkLoop[str] = WorkLoop("role aggregation", self._gather)

    def start(self) -> None:
        """Look once, and from then on at what changes."""
        self._hub.cache.on_change(self._notice)
        self._look_at_all()
        self._loop.start()

    def stop(self) -> None:
        """End."""
        self._loop.stop()

    def _notice(self, change: Change) -> None:
        if change.current.key.resource == CLUSTER_ROLES:
            self._look_at_all()

    def _look_at_all(self) -> None:
        for stored in self._hub.cache.in_namespace(CLUSTER_ROLES):
            # A cheap look first: few roles gather others.
            if b'"aggregationRule"' in stored.body:
                self._loop.add(stored.key.name)

    async def _gather(self, name: str) -> None:
        stored = self._hub.get(ObjectKey(CLUSTER_ROLES, "", name))
        if stored is None:
            return
        roles = [other.load() for other in self._hub.cache.in_namespace(CLUSTER_ROLES)]

        def set_rules(role: JsonObject) -> JsonObject:
            rules = gather_rules(role, roles)
            if rules is not None:
                role["rules"] = rules
            return role

        role = stored.load()
        if set_rules(role) != stored.load():
            await self._actor.change(stored, set_rules)


def gather_rules(role: JsonObject, roles: Sequence[JsonObject]) -> list[JsonObject] | None:
    """The rules that a gathering role should have, each once, in the order of the roles' names; None for another."""
    gathering = role.get("aggregationRule")
    if gathering is None:
        return None
    found: dict[str, JsonObject] = {}
    for document in gathering.get("clusterRoleSelectors") or []:
        selector = label_selector_of(document)
        for other in sorted(roles, key=lambda item: str(item["metadata"]["name"])):
            labels = other["metadata"].get("labels") or {}
            if other["metadata"]["name"] != role["metadata"]["name"] and selector.matches(labels):
                found.update({compact(rule): rule for rule in other.get("rules") or []})
    return list(found.values())
