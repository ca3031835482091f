"""The embedded stack: real PostgreSQL, Valkey and SeaweedFS from pip wheels, as children of the launcher.

May import: psycopg, redis and boto3 (readiness), and of the other rooms how addresses are masked.
"""

from slipway.stack.addresses import StackAddresses
from slipway.stack.directory import default_data_dir, default_log_dir
from slipway.stack.errors import DataDirectoryInUse, DataDirectoryUnreachable, ServerFailed, StackError
from slipway.stack.stack import Stack

__all__ = [
    "DataDirectoryInUse",
    "DataDirectoryUnreachable",
    "ServerFailed",
    "Stack",
    "StackAddresses",
    "StackError",
    "default_data_dir",
    "default_log_dir",
]
