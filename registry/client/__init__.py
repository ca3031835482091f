"""The only door to a registry for other processes: one typed description per call, two faces to send it.

client = Client("http://127.0.0.1:8080", token)
version = client(versions.get("sentiment", 7))
version = await AsyncClient(...)(versions.get("sentiment", 7))
"""

from registry.client.call import Call
from registry.client.errors import ApiError, Unreachable
from registry.client.transport import AsyncClient, Client

__all__ = ["ApiError", "AsyncClient", "Call", "Client", "Unreachable"]
