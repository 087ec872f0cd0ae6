"""An explicit way to write the golden manifests anew."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate", action="store_true", help="write tests/unit/manifests/golden anew instead of comparing"
    )
