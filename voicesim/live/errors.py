"""What can go wrong: the question (nothing is sent), or a request to the endpoint."""


class LiveError(ValueError):
    """The command asks for something that cannot be done; one line.  Exit code 2."""


class EndpointError(Exception):
    """A request failed; one line that says how.  The others go on."""
