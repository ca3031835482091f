"""A gateway worker put together, without its process: for `worker` and for tests."""

from dataclasses import dataclass

from serving.gateway.asgi import Application
from serving.gateway.attempt import Answered
from serving.gateway.call import Call
from serving.gateway.gateway import Gateway, Identity
from serving.gateway.handle import Handler
from serving.gateway.settings import GatewaySettings
from serving.gateway.table import Arm, Deployment
from serving.telemetry.access_log import AccessLog


@dataclass(frozen=True, slots=True)
class App:
    """`asgi` is what a server runs; `handle` answers without one."""

    gateway: Gateway
    handle: Handler
    asgi: Application
    access_log: AccessLog

    def close(self) -> None:
        self.gateway.close()
        self.access_log.close()


def build(identity: Identity, settings: GatewaySettings) -> App:
    """Everything of a worker but its listening socket and its line to the agent."""
    gateway = Gateway(identity, settings)
    path = identity.state / "logs" / f"requests-{identity.worker}.jsonl"
    access_log = AccessLog(path, settings.access_log_bytes)

    def finished(
        call: Call, deployment: Deployment, arm: Arm, answered: Answered | None, total_us: float
    ) -> None:
        gateway.mirror.finished(call, deployment, arm, answered)
        access_log.line(_line(call, deployment, arm, total_us))

    handler = Handler(gateway, finished)
    return App(gateway, handler, Application(handler, settings), access_log)


def _line(call: Call, deployment: Deployment, arm: Arm, total_us: float) -> dict[str, object]:
    """Layer times in µs. `arm` is the assigned one."""
    layers = call.layers
    line: dict[str, object] = {
        "id": call.request_id,
        "client": call.head.client,
        "deployment": deployment.entry.deployment,
        "version": arm.entry.version,
        "engine": arm.entry.engine,
        "generation": deployment.entry.fence.generation,
        "outcome": str(call.outcome),
        "total_us": int(total_us),
        "us": [
            int(layers.access * 1e6),
            int(layers.pre * 1e6),
            int(layers.queue * 1e6),
            int(layers.engine * 1e6),
            int(layers.post * 1e6),
        ],
    }
    if call.fallback:
        line["fallback"] = call.fallback
    if call.explicit:
        line["explicit"] = True
    return line
