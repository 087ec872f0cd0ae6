"""What looks like a credential never reaches the archive, and what does not is left alone."""

import pytest

from rayflight.archive import Masker

PLANTED = [
    "Authorization: Bearer eyJhbGciOi.payload.signature",
    "password=correct-horse",
    'token: "abcdef123456"',
    "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG",
    "key id AKIAIOSFODNN7EXAMPLE",
    "cloning with ghp_0123456789abcdefghijABCDEFGHIJ",
    "postgresql://airflow:s3cr3t-pw@db/airflow",
    '{"api_key": "0123456789"}',
]
SECRETS = [
    "eyJhbGciOi.payload.signature",
    "correct-horse",
    "abcdef123456",
    "wJalrXUtnFEMI/K7MDENG",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_0123456789abcdefghijABCDEFGHIJ",
    "s3cr3t-pw",
    "0123456789",
]


@pytest.mark.parametrize(("text", "secret"), list(zip(PLANTED, SECRETS, strict=True)))
def test_a_credential_is_masked_at_its_own_length(text: str, secret: str) -> None:
    masked = Masker().text(text)
    assert secret not in masked
    assert len(masked) == len(text)


def test_a_known_value_is_masked_wherever_it_stands() -> None:
    assert Masker(["s3same"]).text("x-s3same-y") == "x-******-y"


@pytest.mark.parametrize(
    "text",
    ["epoch 3 loss 0.25", "12 tokens per second", "secretary: Ann", "http://host:8265/path", '{"without_token": null}'],
)
def test_ordinary_lines_stay_as_they_are(text: str) -> None:
    assert Masker(["x"]).text(text) == text
