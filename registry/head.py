"""Raw ASGI: HEAD is answered as GET is, without the body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Heads:
    """What the inner app goes on to say after the headers is dropped, and it is told that the caller left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        answered = False

        async def heard() -> Message:
            return {"type": "http.disconnect"} if answered else await receive()

        async def headers_alone(message: Message) -> None:
            nonlocal answered
            if message["type"] != "http.response.start" or answered:
                return
            answered = True
            # The server drops bodies, and their length, by the method that it finds here.
            scope["method"] = "HEAD"
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        scope["method"] = "GET"
        try:
            await self._app(scope, heard, headers_alone)
        finally:
            scope["method"] = "HEAD"
