"""Use cases of nodes: invite, enrol, look, drain."""

from datetime import datetime, timedelta

from sqlalchemy import func
from sqlalchemy.exc import IntegrityError

from registry.contract.nodes import Enrol, Enrolled, Enrolment, EnrolmentCreate, Hardware, Node
from registry.contract.pages import Page
from registry.contract.tokens import Role
from registry.edge.pages import page
from registry.edge.principal import Principal, hash_secret, new_secret, secret_of
from registry.edge.unit import Unit
from registry.errors import Conflict, Forbidden, NotFound, Unauthenticated
from registry.nodes import repository
from registry.nodes.states import seen
from registry.tables.access import EnrolmentRow, TokenRow
from registry.tables.base import new_id
from registry.tables.nodes import NodeRow


async def invite(unit: Unit, body: EnrolmentCreate) -> Enrolment:
    """A one-time token. Only its hash is kept."""
    unit.principal.require_environment(body.environment)
    secret = new_secret()
    row = EnrolmentRow(
        id=new_id("enr"),
        hash=hash_secret(secret),
        environment=body.environment,
        expires_at=func.now() + timedelta(seconds=body.expires_in_s),
        created_by=unit.actor,
    )
    unit.session.add(row)
    await unit.session.flush()
    await unit.session.refresh(row, ["expires_at"])
    shown = Enrolment(environment=row.environment, secret="", expires_at=row.expires_at, id=row.id)
    unit.audit("node.invite", f"enrolment:{row.id}", None, shown)
    return shown.model_copy(update={"secret": secret})


async def enrol(unit: Unit, authorization: str | None, body: Enrol) -> Enrolled:
    """Swaps the one-time token for the node's own one.

    A name that is taken by a node in contact answers 409; of one that is not, the new machine takes over
    identity and history, and the old token ends. Raises Unauthenticated for the one-time token.
    """
    invited = await _invitation(unit, authorization)
    if body.environment not in (None, invited.environment):
        raise Forbidden(
            f"the one-time token is for {invited.environment}, not for {body.environment}",
            f"ask a releaser for one: slipway node invite {body.environment}",
        )
    unit.caller = Principal(
        invited.id,
        f"node {body.name}",
        frozenset({Role.NODE}),
        frozenset(),
        frozenset({invited.environment}),
    )
    row = await _node(unit, invited.environment, body)
    secret = new_secret()
    unit.session.add(
        TokenRow(
            id=new_id("tok"),
            name=f"node {row.environment}/{row.name}",
            hash=hash_secret(secret),
            roles=[Role.NODE],
            models=[],
            environments=[row.environment],
            node_id=row.id,
            created_by=invited.created_by,
        )
    )
    invited.used_at, invited.used_by = func.now(), row.id
    await unit.session.flush()
    await repository.notify(unit.session, row.id)
    return Enrolled(
        node=row.id, environment=row.environment, registry_id=unit.identity.registry_id, token=secret
    )


async def _invitation(unit: Unit, authorization: str | None) -> EnrolmentRow:
    found = await repository.enrolment(unit.session, hash_secret(secret_of(authorization)))
    hint = "ask a releaser for a new one: slipway node invite ENVIRONMENT"
    if found is None:
        raise Unauthenticated("the one-time token is not known here", hint)
    row, expired = found
    if row.used_at is not None:
        raise Unauthenticated(f"the one-time token was used at {row.used_at:%Y-%m-%dT%H:%M:%SZ}", hint)
    if expired:
        raise Unauthenticated(f"the one-time token expired at {row.expires_at:%Y-%m-%dT%H:%M:%SZ}", hint)
    return row


async def _node(unit: Unit, environment: str, body: Enrol) -> NodeRow:
    """The new node, or the one whose place it takes."""
    now = await repository.now(unit.session)
    row = await repository.node_named(unit.session, environment, body.name)
    before = None
    if row is None:
        row = NodeRow(id=new_id("nod"), name=body.name, environment=environment)
        unit.session.add(row)
    else:
        stale_s = unit.resources.settings.node_stale_s
        if row.last_seen_at is not None and now - row.last_seen_at < timedelta(seconds=stale_s):
            raise Conflict(
                f"{environment} has a node {body.name} already ({row.id}), in contact at "
                f"{row.last_seen_at:%Y-%m-%dT%H:%M:%SZ}",
                f"choose another name, or stop that node and enrol again after {stale_s:g} s",
            )
        before = represent(row, now, stale_s)
        await repository.revoke_tokens(unit.session, row.id)
    row.targets, row.labels = list(body.targets), body.labels
    row.hardware, row.address = body.hardware.model_dump(mode="json"), body.address
    try:
        await unit.session.flush()
    except IntegrityError as error:
        raise Conflict(
            f"{environment} has just got a node {body.name} from someone else", "choose another name"
        ) from error
    await unit.session.refresh(row)
    after = represent(row, now, unit.resources.settings.node_stale_s)
    unit.audit("node.enrol", f"node:{row.id}", before, after)
    return row


def represent(row: NodeRow, now: datetime, stale_s: float) -> Node:
    """The resource as list and get give it."""
    node = seen(row, now, stale_s)
    return Node(
        id=row.id,
        name=row.name,
        environment=row.environment,
        targets=tuple(row.targets),
        labels=row.labels,
        hardware=Hardware.model_validate(row.hardware),
        address=row.address,
        state=node.state,
        draining=row.draining,
        last_seen_at=row.last_seen_at,
        incarnation=row.incarnation,
        slots=node.report.slots if node.report else (),
        deployments=node.report.deployments if node.report else (),
        memory_free_bytes=node.report.memory_free_bytes if node.report else None,
        says=node.report.says if node.report else "",
        revision=row.revision,
        enrolled_at=row.enrolled_at,
    )


async def listing(unit: Unit, environment: str | None, after: str | None, limit: int) -> Page[Node]:
    """In order of enrolment; only of environments that the caller may see."""
    wanted = unit.principal.environments
    if environment is not None:
        unit.principal.require_environment(environment)
        wanted = frozenset({environment})
    rows = await repository.nodes(unit.session, wanted, after, limit)
    now, stale_s = await repository.now(unit.session), unit.resources.settings.node_stale_s
    return page(rows, limit, lambda row: represent(row, now, stale_s), lambda row: row.id)


async def get(unit: Unit, node_id: str) -> Node:
    """Raises NotFound."""
    row = await _row(unit, node_id)
    return represent(row, await repository.now(unit.session), unit.resources.settings.node_stale_s)


async def set_draining(unit: Unit, node_id: str, draining: bool) -> Node:
    """Takes a node out of service, or back. What is under way there ends first. Raises NotFound."""
    row = await _row(unit, node_id, lock=True)
    now, stale_s = await repository.now(unit.session), unit.resources.settings.node_stale_s
    before = represent(row, now, stale_s)
    if row.draining == draining:
        return before
    row.draining = draining
    await unit.session.flush()
    after = represent(row, now, stale_s)
    unit.audit("node.drain" if draining else "node.undrain", f"node:{row.id}", before, after)
    await repository.notify(unit.session, row.id)
    return after


async def _row(unit: Unit, node_id: str, *, lock: bool = False) -> NodeRow:
    row = await repository.node(unit.session, node_id, lock=lock)
    if row is None:
        raise NotFound(f"there is no node {node_id}", "list them: slipway node list")
    unit.principal.require_environment(row.environment)
    return row
