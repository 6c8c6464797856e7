# SPDX-License-Identifier: Apache-2.0
"""The bearer token: asked for, compared, and never seen again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError
from posttrain.service.web.auth import BearerToken, taken_from
from service.driving import Served, body_of, children_of, image_line, npy

TOKEN = "tok-TEST-111-of-the-service"  # noqa: S105  # to be looked for


@pytest.fixture(scope="module")
def guarded(workplace: Path) -> object:
    """A server that asks for a token, and a scorer and a provider that would tell it if they could."""
    (workplace / "telling.py").write_text(
        "import os\n"
        "from functools import partial\n"
        "from posttrain.rewards import RewardProviderSpec, map_candidates\n"
        "def secrets():\n"
        "    return repr(dict(os.environ)) + open(f'/proc/{os.getppid()}/cmdline').read()\n"
        "def score(array, info):\n"
        "    raise ValueError(secrets() + ' end of secrets')\n"
        "def reward(candidate, context):\n"
        "    raise ValueError(secrets() + ' end of secrets')\n"
        "def catalog():\n"
        "    factory = partial(map_candidates, reward)\n"
        "    return {'telling': RewardProviderSpec(factory=factory, revision='1', terms=('t',))}\n"
    )
    flags = ("--image-scorer", "telling=telling:score", "--catalog", "telling:catalog", "--drain", "0")
    served = Served(workplace, ("--token-env", "REWARD_TOK", *flags), {"REWARD_TOK": TOKEN})
    yield served
    served.end()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/reward/ping"),
        ("POST", "/api/reward/enqueue"),
        ("POST", "/api/reward/pull"),
        ("POST", "/v1/score"),
        ("GET", "/metrics"),
        ("GET", "/nowhere"),
        ("GET", "/docs"),
        ("GET", "/healthz/"),
    ],
)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer None"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer é"},
        {"Authorization": ""},
    ],
)
def test_without_the_token_there_is_nothing(guarded: Served, method: str, path: str, headers: dict[str, str]) -> None:
    """Each path but two answers 401 and says what is needed."""
    answer = guarded.ask(method, path, body_of(image_line(), npy(1, 1, 1, 3)), **headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "Bearer <token>" in answer.json["detail"]


def test_with_the_token_everything_is_there(guarded: Served) -> None:
    """The word Bearer may be in other letters; what is open is open without it."""
    assert guarded.form("/api/reward/ping", {"info_data": "x"}, Authorization=f"bearer {TOKEN}").status == 200
    result = guarded.scored(image_line(), npy(1, 1, 1, 3), "brightness", Authorization=f"Bearer {TOKEN}")
    assert result["scores"] == {"brightness": [0.2]}
    assert guarded.ask("GET", "/healthz").status == 200
    assert guarded.ask("GET", "/openapi.json").status == 200


def test_the_token_is_nowhere(guarded: Served) -> None:
    """Not in what processes inherit, answers, metrics, OpenAPI, logs or a command line."""
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    told = guarded.scored(image_line("telling"), npy(1, 1, 1, 3), "telling", **bearer)["error"]
    group = {"provider": "telling", "group_id": "g", "candidates": [{"trajectory_id": "a", "completion": ""}]}
    failed = guarded.group(group, **bearer)
    assert "end of secrets" in told
    assert failed.status == 422
    assert "end of secrets" in failed.text
    guarded.ask("GET", f"/{TOKEN}", None, **bearer)
    guarded.ask("GET", f"/metrics?token={TOKEN}", None, Authorization=f"Bearer {TOKEN}")
    texts = [told, failed.text, guarded.ask("GET", "/metrics", None, **bearer).text]
    texts += [guarded.ask("GET", "/openapi.json").text, guarded.log]
    for pid in (guarded.process.pid, *children_of(guarded.process.pid)):
        texts.append(Path(f"/proc/{pid}/cmdline").read_text())
        if pid != guarded.process.pid:
            texts.append(Path(f"/proc/{pid}/environ").read_text())
    assert [text for text in texts if TOKEN in text or TOKEN[:16] in text] == []
    assert len(children_of(guarded.process.pid)) >= 3
    described = json.loads(guarded.ask("GET", "/openapi.json").text)
    assert described["security"] == [{"bearer": []}]
    assert described["paths"]["/healthz"]["get"]["security"] == []
    assert "401" in described["paths"]["/v1/score"]["post"]["responses"]


def test_a_large_upload_without_the_token_is_answered(guarded: Served) -> None:
    """The client gets its 401 although it is still sending."""
    answer = guarded.enqueue(image_line(), npy(1, 2000, 5000, 3))
    assert answer.status == 401


def test_the_variable_is_taken_out_of_the_environment() -> None:
    """So that nobody who is started later inherits it; white space around it is none of it."""
    environment = {"A": f" {TOKEN}\n", "B": "x"}
    assert taken_from(environment, "A") == TOKEN
    assert environment == {"B": "x"}


@pytest.mark.parametrize("value", ["", "  ", "two\nlines", "é"])
def test_a_value_that_is_no_token_is_refused(value: str) -> None:
    """The variable is named, its value is not shown."""
    with pytest.raises(RewardConfigError, match=r"the .*environment variable 'A'") as caught:
        taken_from({"A": value}, "A")
    assert not value.strip() or value not in str(caught.value)


def test_a_token_does_not_show_itself() -> None:
    """In a repr, for example of a traceback's locals."""
    assert TOKEN not in repr(BearerToken(TOKEN))
