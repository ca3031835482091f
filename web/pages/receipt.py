"""`/rollbacks/{id}`: the permanent record of a rollback, told while it happens and for ever after."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from registry.client import nodes, releases
from registry.contract.nodes import Node
from registry.contract.releases import Receipt, ReceiptNote
from web.origin import require_own
from web.registry import Asker, Failure
from web.render import CALM_MS, URGENT_MS, Frame, page
from web.revision import revision
from web.views.offer import forbidden
from web.views.receipt import ReceiptView, reason, summary, view
from web.visitor import Present

router = APIRouter()

REFRESH_S = 1
MOST_SILENT = 8


@router.get("/rollbacks/{rollback}")
async def show(request: Request, visitor: Present, rollback: str, pressed: str = "") -> Response:
    receipt = await visitor.ask.must(releases.receipt(rollback))
    made = view(receipt)
    silent = await _silent(visitor.ask, made)
    frame = Frame(
        made.title,
        visitor.who,
        _revision(receipt, silent),
        URGENT_MS if not made.over else CALM_MS,
        refresh_s=None if made.over else REFRESH_S,
    )
    return page(
        request,
        "receipt.html",
        frame,
        receipt=receipt,
        view=made,
        draining={node.id: node.draining for node in silent if isinstance(node, Node)},
        failures=tuple(node for node in silent if isinstance(node, Failure)),
        pressed=_in_vain(receipt, visitor.who.name) if pressed == "already" else "",
        reason=reason(receipt),
        against=forbidden(visitor.who),
        summary=summary(receipt, f"{request.url.scheme}://{request.url.netloc}/rollbacks/{receipt.id}"),
    )


@router.get("/rev/rollbacks/{rollback}")
async def rev(visitor: Present, rollback: str) -> Response:
    receipt = await visitor.ask.must(releases.receipt(rollback))
    silent = await _silent(visitor.ask, view(receipt))
    every_ms = CALM_MS if receipt.final else URGENT_MS
    return JSONResponse({"rev": _revision(receipt, silent), "every_ms": every_ms})


@router.post("/rollbacks/{rollback}/notes", dependencies=[Depends(require_own)])
async def note(visitor: Present, rollback: str, text: Annotated[str, Form()] = "") -> Response:
    """An empty text adds nothing."""
    if text.strip():
        await visitor.ask.must(releases.note(rollback, ReceiptNote(text=text.strip()[:4096])))
    return RedirectResponse(f"/rollbacks/{rollback}#notes", 303)


@router.post("/rollbacks/{rollback}/drain", dependencies=[Depends(require_own)])
async def drain(visitor: Present, rollback: str, node: Annotated[str, Form()]) -> Response:
    """Takes a node out of service: no new requests are sent to it, even when it comes back."""
    await visitor.ask.must(nodes.drain(node))
    return RedirectResponse(f"/rollbacks/{rollback}#nodes", 303)


async def _silent(ask: Asker, made: ReceiptView) -> list[Node | Failure]:
    found: list[Node | Failure] = []
    for row in made.silent[:MOST_SILENT]:
        asked = ask.panel(f"the state of node {row.name}", nodes.get(row.node))
        found.append(await asked)
    return found


def _revision(receipt: Receipt, silent: list[Node | Failure]) -> str:
    drained = [f"{node.id} {node.draining}" if isinstance(node, Node) else node for node in silent]
    return revision(receipt, *drained)


def _in_vain(receipt: Receipt, me: str) -> str:
    """To whom pressed second."""
    if receipt.automatic:
        return "Already rolled back automatically. Your press changed nothing."
    if receipt.asked_by == me:
        return "You had rolled back already. This second press changed nothing."
    return f"Already rolled back by {receipt.asked_by}. Your press changed nothing."
