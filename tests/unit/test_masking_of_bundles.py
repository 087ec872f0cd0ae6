"""Thirty kinds of secrets are planted in the objects and logs of a bundle, and none is found in what is written."""

import base64
import json

import pytest

from rayflight.masking import Masker, masked, secrets

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEAplanted\nabcdefghijklmnop0123\n-----END RSA PRIVATE KEY-----"


def b64(text):
    return base64.b64encode(text.encode()).decode()


def env(name, value):
    return {"pods": {"items": [{"spec": {"containers": [{"env": [{"name": name, "value": value}]}]}}]}}


def args(*words):
    return {"pods": {"items": [{"spec": {"containers": [{"args": list(words)}]}}]}}


def annotated(key, value):
    return {"rayclusters": {"items": [{"metadata": {"annotations": {key: value}}}]}}


APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SECRET = {"kind": "Secret", "metadata": {"name": "x"}, "type": "Opaque"}

# (what, where it stands, the words that must not be found)
OBJECTS = [
    (
        "data of a Secret",
        {"secrets": {"items": [{**SECRET, "data": {"a": b64("planted-data-1")}}]}},
        b64("planted-data-1"),
    ),
    ("stringData", {"secrets": {"items": [{**SECRET, "stringData": {"a": "planted-data-2"}}]}}, "planted-data-2"),
    (
        "Secret in a List",
        {"x": {"items": [{"metadata": {}, "type": "Opaque", "data": {"a": "cGxhbnRlZDM="}}]}},
        "cGxhbnRlZDM=",
    ),
    ("variable by name", env("WANDB_API_KEY", "planted4planted4"), "planted4planted4"),
    ("variable with a password", env("DB_PASSWORD", "planted5"), "planted5"),
    ("variable with a DSN", env("SENTRY_DSN", "https://planted6planted6planted6@sentry.example/1"), "planted6planted6"),
    ("variable with an URL", env("SQL_ALCHEMY_CONN", "postgresql://u:planted7@db/x"), "planted7"),
    ("variable that looks like a token", env("THING", "hf_planted8planted8planted8"), "hf_planted8"),
    ("argument", args("train", "--password", "planted9"), "planted9"),
    ("argument with =", args("--api-key=planted10"), "planted10"),
    ("command in a shell", args("sh", "-c", "login --token planted11 && train"), "planted11"),
    ("last applied", annotated(APPLIED, json.dumps(env("A_TOKEN", "planted12"))), "planted12"),
    ("JSON in an annotation", annotated("team/config", json.dumps({"password": "planted13"})), "planted13"),
    ("text in an annotation", annotated("team/note", "use token=planted14 here"), "planted14"),
    ("runtime_env", {"ray/jobs": [{"runtime_env": {"env_vars": {"HF_TOKEN": "planted15"}}}]}, "planted15"),
    ("entrypoint", {"ray/jobs": [{"entrypoint": "OPENAI_API_KEY=planted16 python train.py"}]}, "planted16"),
    ("job metadata", {"ray/jobs": [{"metadata": {"git_password": "planted17"}}]}, "planted17"),
    (
        "working_dir",
        {"ray/jobs": [{"runtime_env": {"working_dir": "https://u:planted18@git.example/x.zip"}}]},
        "planted18",
    ),
    (
        "pre-signed URL",
        {"ray/jobs": [{"entrypoint": "get https://b.example/o?X-Amz-Signature=planted19aa"}]},
        "planted19",
    ),
    ("rayStartParams", {"rayclusters": [{"rayStartParams": {"redis-password": "planted20"}}]}, "planted20"),
    (
        "gcsFaultToleranceOptions",
        {"rayclusters": [{"redisPassword": {"value": "x"}, "password": "planted21"}]},
        "planted21",
    ),
    (
        "registry login",
        {
            "x": [
                {
                    "metadata": {},
                    "type": "kubernetes.io/dockerconfigjson",
                    "data": {".dockerconfigjson": "cGxhbnRlZDIy"},
                }
            ]
        },
        "cGxhbnRlZDIy",
    ),
]
LOGS = [
    ("bearer", "Authorization: Bearer planted23planted23", "planted23"),
    ("basic", "authorization: Basic cGxhbnRlZDI0OnBsYW50ZWQ=", "cGxhbnRlZDI0"),
    ("JWT", "using eyJhbGciOiJSUzI1NiJ9.eyJwbGFudGVkIjoyNX0.c2lnbmF0dXJl now", "eyJwbGFudGVkIjoyNX0"),
    ("AWS key id", "key AKIAPLANTED26PLANTED", "AKIAPLANTED26"),
    ("AWS secret", "aws_secret_access_key = planted27/planted27", "planted27"),
    ("GitHub", "clone with ghp_planted28planted28planted28", "ghp_planted28"),
    ("private key", KEY, "MIIEpAIBAAKCAQEAplanted"),
    ("Slack", "post to https://hooks.slack.com/services/T0/B0/planted30planted", "planted30"),
    ("Azure", "AccountName=x;AccountKey=planted31planted31==;Endpoint=y", "planted31"),
    ("cookie", "Set-Cookie: session=planted32planted32; Path=/", "planted32"),
    ("OpenAI", "sk-planted33planted33planted33", "sk-planted33"),
    ("escaped JSON", r'env "{\"db_password\": \"planted34\"}"', "planted34"),
]


def test_there_are_thirty_kinds_and_more():
    assert len({what for what, *_ in OBJECTS + LOGS}) >= 30


@pytest.mark.parametrize(("what", "data", "planted"), OBJECTS, ids=[item[0] for item in OBJECTS])
def test_no_planted_secret_is_found_in_objects(what, data, planted):
    assert planted in json.dumps(data)
    assert planted not in json.dumps(masked(data))


@pytest.mark.parametrize(("what", "text", "planted"), LOGS, ids=[item[0] for item in LOGS])
def test_no_planted_secret_is_found_in_logs(what, text, planted):
    hidden = Masker().text(text)
    assert planted not in hidden
    assert len(hidden) == len(text)
    assert planted not in json.dumps(masked({"message": text}))


def test_what_stands_in_a_variable_is_masked_in_a_log_that_repeats_it():
    found = Masker(secrets(env("HF_TOKEN", "quite ordinary words")))
    assert "ordinary" not in found.text("the token is: quite ordinary words")


def test_the_decoded_value_of_a_secret_is_known_too():
    data = {"items": [{**SECRET, "data": {"a": b64("hidden-in-base64")}}]}
    assert "hidden-in-base64" not in Masker(secrets(data)).text("x hidden-in-base64 y")


@pytest.mark.parametrize(
    "data",
    [
        {"secretName": "flight-token"},
        {"secretKeyRef": {"name": "flight", "key": "auth_token"}},
        {"volumes": [{"secret": {"secretName": "x", "defaultMode": 420}}]},
        {"automountServiceAccountToken": True, "tokenExpirationSeconds": 3600},
        {"name": "RAY_AUTH_MODE", "value": "token"},
        {"authOptions": {"mode": "token"}},
        {"message": 'secret "flight-token" not found'},
        {"message": "exceeded quota: q, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=1"},
        {"message": "Unauthorized: Missing authentication token"},
        {
            "image": "registry.example/team/ray@sha256:0123456789abcdef",
            "env": [{"name": "MAX_TOKENS", "value": "4096"}],
        },
        {"message": "LocalQueue my-token doesn't exist; secret my-secret missing"},
        {"message": "12 tokens per second; secretary: Ann; epoch=3"},
        {"data": {"clusterStatus": "Usage: 0.0/4.0 CPU"}, "result": True},
    ],
)
def test_what_a_diagnosis_reads_stays_as_it_is(data):
    assert masked(data) == data
