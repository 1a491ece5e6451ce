"""Names that resolve without DNS, and no broker, for the tests of the doctor."""

from tests.actions.conftest import network

__all__ = ["network"]
