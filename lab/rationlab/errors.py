"""The one exception that a person is meant to read."""


class LabError(Exception):
    """Something a person can act on; printed as one sentence, without a traceback."""
