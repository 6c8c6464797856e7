# SPDX-License-Identifier: Apache-2.0
"""What counts as a secret, where it is found, and how it is masked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.runs.checks.credentials import Credentials
from posttrain.runs.checks.token_shapes import mask_tokens, token_in

VALUE = "q7-Zr2mPw9x"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "judge_token", "DB_PASSWORD", "MY_PAT",
        "GITHUBTOKEN", "API_KEY_2", "SESSION_COOKIE", "SENTRY_DSN", "BASIC_AUTH", "KEY", "TOKEN_PROD",
    ],
)  # fmt: skip
def test_a_variable_that_holds_a_credential(name: str) -> None:
    """The value of a variable whose name says credential is found wherever it stands in a text."""
    lines = list(Credentials({name: VALUE}).found_in({"a": [f"x{VALUE}y"]}, "identity"))
    assert lines == [f"identity.a[0] holds the value of {name}"]


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "KEYBOARD", "MONKEY", "SSH_AUTH_SOCK", "AUTH_PROVIDER",
        "TOKEN_URL", "API_KEY_FILE", "SECRET_NAME", "AWS_ACCESS_KEY_ID", "KEY_VAULT", "XAUTHORITY", "PASSENGERS",
    ],
)  # fmt: skip
def test_a_variable_that_holds_none(name: str) -> None:
    """Other variables, and those that only lead to a credential, may stand in an identity."""
    assert list(Credentials({name: VALUE}).found_in(VALUE, "identity")) == []


@pytest.mark.parametrize("value", ["", "short", "12345678", "changeme", "OTHER_API_KEY", "/etc/hostname", "production"])
def test_a_value_that_is_no_secret(value: str) -> None:
    """What is short, a number, a placeholder, another variable's name or a file that exists is no secret."""
    assert list(Credentials({"API_KEY": value}).found_in([value, f"a {value} b"], "identity")) == []


def test_a_short_value_counts_as_a_word() -> None:
    """Six or seven characters are a secret as a word of their own, not inside another."""
    credentials = Credentials({"DB_PASSWORD": "hunter2"})
    assert list(credentials.found_in(["hunter2", "pw=hunter2!", "hunter21", "ahunter2"], "i")) == [
        "i[0] holds the value of DB_PASSWORD",
        "i[1] holds the value of DB_PASSWORD",
    ]
    assert credentials.masked("hunter2, hunter21") == "[value of DB_PASSWORD], hunter21"


def test_every_place_is_named() -> None:
    """Each place of a value is told, keys too, and a key that is a secret is not part of its own path."""
    identity = {"a": {"b c": [1, True, None, VALUE]}, VALUE: "x", "fine": "name of a key"}
    assert list(Credentials({"API_KEY": VALUE}).found_in(identity, "identity")) == [
        "identity.a['b c'][3] holds the value of API_KEY",
        "identity['[value of API_KEY]']: the key holds the value of API_KEY",
    ]


def test_a_value_in_a_url() -> None:
    """A secret that is spelled for a URL is the same secret."""
    credentials = Credentials({"DB_PASSWORD": "p@ss/word+1"})
    assert list(credentials.found_in("db?pw=p%40ss%2Fword%2B1", "i")) == ["i holds the value of DB_PASSWORD"]


def test_each_environment_counts() -> None:
    """A variable that was taken away meanwhile still holds a secret."""
    credentials = Credentials({"A_TOKEN": "first-value-1"}, {"B_TOKEN": "second-value-2"})
    assert credentials.masked("first-value-1 second-value-2") == "[value of A_TOKEN] [value of B_TOKEN]"


def test_each_line_of_a_longer_value() -> None:
    """Of a value of several lines each one is masked by itself: tools print them one by one."""
    credentials = Credentials({"SIGNING_KEY": "line-one-of-it\nline-two-of-it\n"})
    assert credentials.masked("> line-two-of-it") == "> [value of SIGNING_KEY]"


_letters = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=16, max_size=60)


@given(_letters.filter(lambda text: not text.isdecimal()), st.data())
def test_a_beginning_is_masked_too(secret: str, data: st.DataObject) -> None:
    """However an error cuts a secret off, from its half on no part of it is left, and the text around it stays."""
    cut = data.draw(st.integers(max(8, len(secret) // 2), len(secret)))
    masked = Credentials({"MY_TOKEN": secret}).masked(f"before <{secret[:cut]}> after")
    assert masked == "before <[value of MY_TOKEN]> after"


@given(st.text(max_size=40))
def test_other_texts_stay(text: str) -> None:
    """A text without a secret comes back as it is."""
    assert Credentials({"MY_TOKEN": "0123456789abcdef-not-in-there"}).masked(text) == text


LETTERS = "Ab1" * 20


@pytest.mark.parametrize(
    ("token", "what"),
    [
        (f"sk-proj-{LETTERS[:30]}", "a key that begins with sk-"),
        (f"sk_live_{LETTERS[:20]}", "a Stripe key"),
        (f"hf_{LETTERS[:34]}", "a Hugging Face token"),
        (f"ghp_{LETTERS[:36]}", "a GitHub token"),
        (f"github_pat_{LETTERS[:40]}", "a GitHub token"),
        (f"glpat-{LETTERS[:20]}", "a GitLab token"),
        (f"nvapi-{LETTERS[:50]}", "an NVIDIA key"),
        (f"AIza{LETTERS[:35]}", "a Google key"),
        (f"ya29.{LETTERS[:30]}", "a Google token"),
        (f"gsk_{LETTERS[:40]}", "a Groq key"),
        (f"xai-{LETTERS[:40]}", "an xAI key"),
        (f"r8_{LETTERS[:37]}", "a Replicate token"),
        (f"xoxb-{LETTERS[:24]}", "a Slack token"),
        (f"npm_{LETTERS[:36]}", "an npm token"),
        (f"pypi-{LETTERS[:60]}", "a PyPI token"),
        ("AKIA" + "ABCD2345" * 2, "an AWS key id"),
        (f"eyJ{LETTERS[:20]}.eyJ{LETTERS[:20]}.{LETTERS[:20]}", "a JSON web token"),
        (f"Bearer {LETTERS[:24]}", "a bearer token"),
        (f"Basic {LETTERS[:24]}==", "basic credentials"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "a private key"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "a private key"),
    ],
)
def test_the_shape_of_a_token(token: str, what: str) -> None:
    """A text of a well-known shape is a secret whoever holds it, and nothing of it is left when it is masked."""
    assert token_in(f"key={token}") == what
    assert mask_tokens(f"key={token};") in {f"key=[{what}];", f"key=[{what}]"}
    assert list(Credentials({}).found_in({"k": token}, "i")) == [f"i.k holds {what}"]


def test_a_password_in_a_url() -> None:
    """Of a URL with a password the user and the password are masked, the rest stays; a template of one is none."""
    assert token_in("https://me:hunter@host/x") == "a URL with a password"
    assert mask_tokens("https://me:hunter@host/x") == "https://[a URL with a password]@host/x"
    for template in ("https://{user}:{password}@host", "https://$USER:$TOKEN@host", "http://host:80/a@b", "a://b"):
        assert token_in(template) is None


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn", "task-level-evaluation-of-every-model", "hf_hub", "risk-adjusted-return-of-20-assets-and-more",
        "Bearer authentication is required", "basic understanding", "ghost_writer_of_the_year_and_more_of_it",
        "5f3a9c2e" * 5, "https://host/path", "-----BEGIN PUBLIC KEY-----", "gpt-4o-2024-08-06", "pypi-packages",
    ],
)  # fmt: skip
def test_a_text_that_only_looks_like_one(text: str) -> None:
    """Words, digests and versions that begin alike are no secrets, and are not masked."""
    assert token_in(text) is None
    assert mask_tokens(text) == text


def test_a_long_text_is_quick() -> None:
    """A text that begins a token again and again is looked through in linear time."""
    text = "sk-" * 40_000 + "Bearer " * 10_000 + "eyJ" * 10_000 + "://" * 10_000
    assert token_in(text) is None
    mask_tokens(text)


def test_secrets_that_begin_alike() -> None:
    """Of two values with the same first half each is masked whole, under its own name, also where it was cut."""
    credentials = Credentials({"A_TOKEN": "judge-secret-aaaaaaaa", "B_TOKEN": "judge-secret-bbb-123"})
    assert credentials.masked("<judge-secret-bbb-123>") == "<[value of B_TOKEN]>"
    assert credentials.masked("<judge-secret-bbb>") == "<[value of B_TOKEN]>"
    assert credentials.masked("<judge-secret-aaaa>") == "<[value of A_TOKEN]>"
