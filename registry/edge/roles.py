"""Sets of roles that many endpoints share."""

from registry.contract.tokens import Role

PEOPLE = (Role.VIEWER, Role.PUBLISHER, Role.RELEASER, Role.APPROVER)
READERS = (*PEOPLE, Role.BUILDER)
ANYONE = (*READERS, Role.NODE)
