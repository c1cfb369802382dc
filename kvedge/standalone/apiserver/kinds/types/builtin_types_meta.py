"""The types that every kind shares: metadata, selectors, conditions, references. Notation: see `builtin_schemas`."""

from __future__ import annotations

from typing import Final

META: Final = """
ObjectMeta: What every stored object has: its name, who owns it, and what the server notes about it.
  name string: Name, unique within the namespace for one kind. Cannot be changed.
  generateName string: Prefix from which the server makes a unique name when no name is given.
  namespace string: Namespace in which the name is unique. Empty for objects of the whole cluster.
  selfLink string: Not used any more.
  uid string: Identity of the object in time and space. Set by the server.
  resourceVersion string: Changes with every write. A write that carries an older one is refused.
  generation integer: Counts the changes of the wanted state. Set by the server.
  creationTimestamp time: When the object was created. Set by the server.
  deletionTimestamp time: When the object will be, or was asked to be, deleted. Set by the server.
  deletionGracePeriodSeconds integer: Seconds the object may take to end.
  labels {string}: Short keys and values by which objects are selected.
  annotations {string}: Keys and values for tools; nothing is selected by them.
  ownerReferences [OwnerReference] by uid: Objects that this one depends on. It is deleted once all of them are gone.
  finalizers [string] set: Who must agree before the object is removed. Each removes its own entry.
  managedFields [ManagedFieldsEntry]: Which manager set which fields. Kept by the server.

OwnerReference atomic: An object that owns another one.
  apiVersion! string: API version of the owner.
  kind! string: Kind of the owner.
  name! string: Name of the owner.
  uid! string: UID of the owner.
  controller boolean: Whether this owner manages the object.
  blockOwnerDeletion boolean: Whether the owner stays, when deleted in the foreground, until this object is gone.

ManagedFieldsEntry: The fields that one manager set with one operation.
  manager string: Name of the manager.
  operation string: Apply or Update.
  apiVersion string: API version in which the fields are named.
  time time: When the set of fields last changed.
  fieldsType string: Format of the fields; FieldsV1.
  fieldsV1 object: The fields.
  subresource string: Subresource through which the fields were set.

ListMeta: What lists have instead of metadata of an object.
  selfLink string: Not used any more.
  resourceVersion string: Version of the list, from which a watch can go on.
  continue string: Token for the next part of the list.
  remainingItemCount integer: How many items come after this part.
  shardInfo object: Which part of the objects a sharded list has.

LabelSelector atomic: Selects objects by their labels; all of its conditions must hold.
  matchLabels {string}: Labels and the values they must have.
  matchExpressions [LabelSelectorRequirement]: Conditions on labels.

LabelSelectorRequirement: A condition on one label.
  key! string: The label.
  operator! string: In, NotIn, Exists or DoesNotExist.
  values [string]: Values, for In and NotIn.

Condition: One aspect of an object's state.
  type! string: The aspect.
  status! string: True, False or Unknown.
  observedGeneration integer: The generation that this was found for.
  lastTransitionTime! time: When the status last changed.
  reason! string: Why, in one word.
  message! string: Why, for people.
"""
