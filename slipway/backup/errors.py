"""What goes wrong with backups."""


class BackupError(Exception):
    """A backup could not be taken or restored; the message says what to do."""
