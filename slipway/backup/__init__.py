"""Backup and restore of a whole registry: its database, and the bytes that its database names.

May import: slipway.stack, psycopg, boto3; nothing of the registry, which needn't run.
"""

from slipway.backup.errors import BackupError
from slipway.backup.manifest import Manifest
from slipway.backup.restore import restore
from slipway.backup.take import take

__all__ = ["BackupError", "Manifest", "restore", "take"]
