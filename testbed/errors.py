"""What can go wrong, as one sentence for a person. Imports nothing of the testbed."""


class TestbedError(Exception):
    """The testbed cannot do what was asked; the message says what, why and the next step. Exit code 1."""

    __test__ = False  # pytest would otherwise take the name for a test class
    exit_code = 1


class Unsupported(TestbedError):
    """This machine lacks something the testbed cannot install by itself (root, Linux, Go). Exit code 2."""

    exit_code = 2
