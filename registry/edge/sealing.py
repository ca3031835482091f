"""Bytes that only the bearer of a secret can read: what is kept of answers that hold presigned URLs.

The key comes from the caller's secret (256 random bits), of which the database has only a hash.
"""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12


def _cipher(secret: str) -> ChaCha20Poly1305:
    key = HKDF(SHA256(), length=32, salt=None, info=b"slipway sealed answer").derive(secret.encode())
    return ChaCha20Poly1305(key)


def seal(secret: str, content: bytes) -> bytes:
    """Nonce, then the sealed content with its tag."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + _cipher(secret).encrypt(nonce, content, None)


def unseal(secret: str, sealed: bytes) -> bytes | None:
    """None: sealed with another secret, or changed since."""
    try:
        return _cipher(secret).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
    except (InvalidTag, ValueError):
        return None
