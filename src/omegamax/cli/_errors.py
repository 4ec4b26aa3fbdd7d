"""What goes wrong on the command line without being a fault of the library."""


class CommandError(Exception):
    """A request that cannot be met; the user sees its message and no traceback."""
