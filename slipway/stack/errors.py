"""What can go wrong with the embedded stack, in words for the person who started it."""


class StackError(Exception):
    """The stack can't run as asked; the message says what is wrong, with what, and how to mend it."""


class DataDirectoryInUse(StackError):
    """Another launcher is running on the same data directory."""


class DataDirectoryUnreachable(StackError):
    """The account that must run PostgreSQL can't reach the data directory."""


class ServerFailed(StackError):
    """A server ended, or did not answer in time, while it was being started."""
