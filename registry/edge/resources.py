"""What every request of one process shares."""

from dataclasses import dataclass, field

from registry.background import Errands, Nudge
from registry.blobs.store import BlobStore
from registry.broker import Broker
from registry.database import Database
from registry.listen import Listener
from registry.settings import Settings


@dataclass(frozen=True)
class Resources:
    settings: Settings
    database: Database
    blobs: BlobStore
    broker: Broker
    listener: Listener
    errands: Errands = field(default_factory=Errands)
    copies: Nudge = field(default_factory=Nudge)
