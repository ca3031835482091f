"""The sticky split: which arm a request belongs to. Pure.

bucket = first 8 bytes of blake2b(salt, 0x00, value), little-endian, mod 10 000. blake2b, because a crc's low
bits follow counters and padded numbers, which is what request ids and user ids are; the bias of the modulo
over 2^64 is below 1e-15.

Canaries own the lowest buckets, below their shares: a wider share keeps everybody who was inside. Salts are
those of a release, so that it isn't always the same callers who are tried on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from registry.contract.routes import BASIS_POINTS, ArmRole

_ORDER = {ArmRole.CANARY: 0, ArmRole.STABLE: 1}
"""Shadow and standby own no bucket whatever their share says: their answers are not used."""


def bucket(salt: str, value: bytes) -> int:
    """In [0, 10 000)."""
    digest = blake2b(salt.encode() + b"\x00" + value, digest_size=8).digest()
    return int.from_bytes(digest, "little") % BASIS_POINTS


@dataclass(frozen=True, slots=True)
class Split:
    """`bounds[i]` is the first bucket behind arm `order[i]`; `order` holds positions in the given shares."""

    salt: str
    order: tuple[int, ...]
    bounds: tuple[int, ...]

    @classmethod
    def of(cls, salt: str, shares: Sequence[tuple[ArmRole, int]]) -> "Split":
        """Arms without a share get no bucket.

        Where shares sum to less than 10 000 (an arm is not loaded here), a stable arm takes the rest; a
        canary never gets more than its share, and then the rest belongs to nobody.
        """
        having = [at for at, (role, share) in enumerate(shares) if share > 0 and role in _ORDER]
        order = sorted(having, key=lambda at: (_ORDER[shares[at][0]], at))
        bounds: list[int] = []
        for at in order:
            bounds.append((bounds[-1] if bounds else 0) + shares[at][1])
        if order and shares[order[-1]][0] is ArmRole.STABLE:
            bounds[-1] = BASIS_POINTS
        return cls(salt, tuple(order), tuple(bounds))

    def choose(self, value: bytes) -> int | None:
        """The position of the arm that owns this value's bucket; None when that is nobody's."""
        if self.bounds and self.bounds[0] == BASIS_POINTS:
            return self.order[0]
        at = bucket(self.salt, value)
        for position, bound in zip(self.order, self.bounds, strict=True):
            if at < bound:
                return position
        return None
