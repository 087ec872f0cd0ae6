"""How particular tools take their credentials; and prose of errors, which stays readable."""

import json

import pytest

from rayflight.masking import Masker, masked

X = "pLanted7Xq"


def env(name, value):
    return {"env": [{"name": name, "value": value}]}


@pytest.mark.parametrize(
    "data",
    [
        env("AIRFLOW__CORE__FERNET_KEY", X),
        env("MLM_LICENSE_KEY", X),
        env("MY_KEY", X),
        {"args": ["--wandb-key", X]},
        {"command": ["curl", "-u", f"alice:{X}", "https://x"]},
        {"entrypoint": f"curl --user alice:{X} https://x"},
        {"annotations": {"azure_devops_pat": X}},
        {"note": f"hvs.{X}{X}"},
        {"note": f"pypi-{X}{X}"},
        {"note": f"glrt-{X}{X}"},
        {"note": f"SG.{X}{X}.{X}{X}"},
        {"note": f"https://acme.webhook.office.com/webhookb2/{X}@1/IncomingWebhook/{X}"},
        {"note": f"https://discord.com/api/webhooks/1/{X}{X}"},
        {"note": f"wandb login {X}{X}"},
        {"entrypoint": f"mysql -h db -uroot -p{X} < dump.sql"},
        {"note": f"Authorization: token {X}"},
    ],
)
def test_what_a_tool_takes_as_its_credential_is_hidden(data):
    assert X not in json.dumps(masked(data))


@pytest.mark.parametrize(
    "words",
    [
        "failed to fetch anonymous token: unexpected status from GET request to https://ghcr.io/token: 403 Forbidden",
        "token: invalid signature",
        'MountVolume.SetUp failed for volume "w" : secret "wandb-creds" not found',
        "tokenizer=meta-llama",
        "docker run -u 1000:1000 image",
        "mysql -h db -P 3306 -p reports",
    ],
)
def test_an_errors_own_words_stay(words):
    assert Masker().text(words) == words


def test_a_key_of_a_taint_is_no_secret():
    taint = {"taints": [{"key": "nvidia.com/gpu", "value": "present"}], "args": ["-u", "1000:1000"]}
    assert masked(taint) == taint
