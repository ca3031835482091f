"""An agent's side of the protocol, as plain HTTP."""

from collections.abc import Sequence
from typing import Any

import httpx

from registry.client import nodes as calls
from registry.contract.nodes import (
    Applied,
    Assignment,
    DeploymentReport,
    Enrol,
    Enrolled,
    EnrolmentCreate,
    Hardware,
    Report,
    SlotReport,
)
from registry.contract.routes import Route
from tests.registry.conftest import Registry

HARDWARE = Hardware(cores=2, memory_bytes=1 << 30)


class Agent:
    def __init__(self, url: str, enrolled: Enrolled) -> None:
        self.id = enrolled.node
        self.token = enrolled.token
        self.http = httpx.AsyncClient(
            base_url=f"{url}/v1/nodes/{enrolled.node}/",
            headers={"authorization": f"Bearer {enrolled.token}"},
            timeout=60,
            trust_env=False,
        )
        self.seq = 0

    async def poll(self, wait: float = 0, etag: str | None = None) -> httpx.Response:
        headers = {"if-none-match": etag} if etag else {}
        return await self.http.get("assignment", params={"wait": wait}, headers=headers)

    async def assignment(self) -> Assignment:
        answer = await self.poll()
        assert answer.status_code == 200, answer.text
        return Assignment.model_validate_json(answer.content)

    async def report(
        self, incarnation: str = "first", seq: int | None = None, **values: Any
    ) -> httpx.Response:
        self.seq = self.seq + 1 if seq is None else seq
        body = Report(incarnation=incarnation, seq=self.seq, **values)
        return await self.http.post("reports", content=body.model_dump_json())

    async def serves(self, route: Route, *ready: str) -> httpx.Response:
        """Reports that it follows the route with the given arms loaded."""
        return await self.report(
            slots=tuple(
                SlotReport(
                    deployment=route.deployment, arm=arm, version="filetype@1", engine=None, phase="ready"
                )
                for arm in ready
            ),
            deployments=(
                DeploymentReport(
                    deployment=route.deployment,
                    fence=route.fence,
                    switched=True,
                    drained=True,
                    shares={arm.arm: arm.share for arm in route.arms},
                    ready=True,
                ),
            ),
        )

    async def applied(
        self, route: Route, moment: str, incarnation: str = "first", local_ms: float = 5.0
    ) -> httpx.Response:
        body = Applied(
            incarnation=incarnation,
            deployment=route.deployment,
            fence=route.fence,
            moment=moment,
            local_ms=local_ms,
        )
        return await self.http.post("applied", content=body.model_dump_json())


async def enrol(
    registry: Registry,
    name: str = "n1",
    environment: str = "prod",
    targets: Sequence[str] = ("ort.cpu",),
    **labels: str,
) -> Enrolled:
    invited = await registry.client(calls.invite(EnrolmentCreate(environment=environment)))
    body = Enrol(name=name, targets=tuple(targets), labels=labels, hardware=HARDWARE, address=f"{name}:8000")
    return await registry.with_token(invited.secret)(calls.enrol(body))
