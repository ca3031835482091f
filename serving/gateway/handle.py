"""One function for every request: `handle(head, body) → response`."""

import asyncio
import importlib.metadata
from typing import assert_never

from serving.gateway.call import Call
from serving.gateway.exchange import CLOSE, Head, Response, json_response
from serving.gateway.gateway import Gateway
from serving.gateway.inference import Finished, Inference
from serving.gateway.metadata import model_document, server_document
from serving.gateway.paths import Address, Door, address_of
from serving.gateway.readiness import ReadinessProbe, retry_after
from serving.gateway.refusals import problem, unforeseen
from serving.gateway.request_ids import HEADER as REQUEST_ID_HEADER
from serving.gateway.request_ids import RequestIds
from serving.gateway.table import Arm, Deployment
from serving.telemetry.exposition import node_metrics

VERSION_HEADER = b"x-slipway-version"
_INFERENCE = (Door.INFER, Door.PREDICT)
_NOWHERE = "the inference paths are /v2/models/NAME[/versions/VERSION]/infer and …/predict"


class Handler:
    """`finished` is told of every request of an arm once it is counted."""

    def __init__(self, gateway: Gateway, finished: Finished) -> None:
        self._gateway = gateway
        self._ids = RequestIds()
        self._infer = Inference(lambda: gateway.routing, gateway.settings, gateway.sweep, finished)
        self._ready = ReadinessProbe(gateway, gateway.sweep)
        self._version = importlib.metadata.version("slipway")

    async def __call__(self, head: Head, body: bytes) -> Response:
        """An answer in any case: what nobody foresaw is told with the request's id, too."""
        request_id = self._ids.of(head.headers)
        address = address_of(head.path)
        try:
            if address is None or not address.door.takes(head.method):
                response = _misled(head, address, request_id)
            elif address.door in _INFERENCE:
                response = await self._infer(_call(head, body, address, request_id))
            else:
                response = await self._respond(address, request_id)
        except Exception as error:
            response = unforeseen(error, request_id)
        response.headers.append((REQUEST_ID_HEADER, request_id.encode()))
        if self._gateway.draining:
            response.headers.append(CLOSE)
        return response

    async def _respond(self, address: Address, request_id: str) -> Response:
        match address.door:
            case Door.READY:
                return await self._readiness(None, request_id)
            case Door.MODEL | Door.MODEL_READY:
                return await self._model(address, request_id)
            case Door.ALIVE:
                return json_response({"live": True})
            case Door.SERVER:
                return json_response(server_document(self._version))
            case Door.METRICS:
                identity = self._gateway.identity
                text = await asyncio.to_thread(node_metrics, identity.state, identity.incarnation)
                return Response(200, text, b"text/plain; version=0.0.4; charset=utf-8")
            case Door.INFER | Door.PREDICT:
                raise AssertionError("inference has a way of its own")
            case _:
                assert_never(address.door)

    async def _model(self, address: Address, request_id: str) -> Response:
        deployment = self._gateway.routing.deployments.get(address.model)
        if deployment is None:
            served = ", ".join(sorted(self._gateway.routing.deployments)) or "nothing yet"
            hint = f"this node serves {served}"
            return problem(404, f"{address.model!r} is not served by this node", hint, request_id)
        arm = _shown(deployment, address.version)
        if arm is None and address.version is not None:
            loaded = ", ".join(one.version_tail for one in deployment.arms if one.entry.socket is not None)
            hint = f"loaded are {loaded or 'none'}"
            return problem(404, f"version {address.version!r} is not loaded on this node", hint, request_id)
        if address.door is Door.MODEL_READY and address.version is None:
            return await self._readiness(deployment, request_id)
        if address.door is Door.MODEL_READY and arm is not None and arm.loaded:
            return json_response({"ready": True})
        if arm is None or address.door is Door.MODEL_READY:
            detail = f"{deployment.entry.deployment} is not ready on this node"
            return problem(503, detail, "try again", request_id)
        return json_response(model_document(deployment, arm))

    async def _readiness(self, deployment: Deployment | None, request_id: str) -> Response:
        found = await (self._ready.node() if deployment is None else self._ready.deployment(deployment))
        if found.ready:
            return json_response({"ready": True, "notes": list(found.notes)})
        response = problem(503, "; ".join(found.reasons), "try again after Retry-After seconds", request_id)
        response.headers.append((b"retry-after", retry_after(found)))
        return response


def _misled(head: Head, address: Address | None, request_id: str) -> Response:
    """404 or 405."""
    if address is None:
        return problem(404, f"there is nothing at {head.path[:200]!r}", _NOWHERE, request_id)
    detail = f"{head.method} is not taken at {head.path[:200]!r}"
    response = problem(405, detail, f"use {address.door.method}", request_id)
    response.headers.append((b"allow", address.door.method.encode()))
    return response


def _call(head: Head, body: bytes, address: Address, request_id: str) -> Call:
    version = address.version
    if version is None and VERSION_HEADER in head.headers:
        version = head.headers[VERSION_HEADER].decode("latin-1")
    return Call(head, body, request_id, address.model, version, address.door is Door.PREDICT)


def _shown(deployment: Deployment, version: str | None) -> Arm | None:
    if version is not None:
        return deployment.named(version)
    return deployment.stable or next(iter(deployment.serving), None)
