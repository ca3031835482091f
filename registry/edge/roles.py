"""Sets of roles that many endpoints share."""

from registry.contract.tokens import Role

# Whom a deployment's policy may name as the people who approve its releases.
APPROVERS = (Role.APPROVER, Role.RELEASER)
PEOPLE = (Role.VIEWER, Role.PUBLISHER, Role.RELEASER, Role.APPROVER)
READERS = (*PEOPLE, Role.BUILDER)
ANYONE = (*READERS, Role.NODE)
