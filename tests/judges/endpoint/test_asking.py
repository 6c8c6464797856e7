# SPDX-License-Identifier: Apache-2.0
"""What is sent, what comes back, and what becomes of replies that can't be used."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import quote

import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint, JudgeReplyError
from posttrain.testing import FakeJudgeServer, JudgeReply, JudgeRequest

Opened: TypeAlias = Callable[..., JudgeEndpoint]
Calls: TypeAlias = Callable[..., list[JudgeCall[float]]]

GOOD = '{"score": 0.5}'


def test_answers_come_in_the_order_of_the_calls(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """Each call has the answer to its own question, however the replies overtake each other."""

    def reply(request: JudgeRequest) -> JudgeReply:
        number = int(request.text.rpartition(" ")[2])
        return JudgeReply(content=json.dumps({"score": number}), delay_s=0.02 * (5 - number))

    server.script(*[reply] * 6)
    assert [each.value for each in opened().ask(calls(6))] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_no_calls_have_no_answers(server: FakeJudgeServer, opened: Opened) -> None:
    """Nothing is asked for an empty list."""
    assert opened().ask([]) == []
    assert server.requests == []


SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "strict": True, "schema": SCHEMA},
                }
            },
        ),
        ({"structured_output": "json_object"}, {"response_format": {"type": "json_object"}}),
        ({"structured_output": "none"}, {}),
        ({"structured_output": "none", "seed": 10}, {"seed": 13}),
        (
            {"structured_output": "none", "temperature": None, "top_p": 0.5, "max_tokens": None},
            {"temperature": None, "top_p": 0.5, "max_tokens": None},
        ),
        (
            {
                "structured_output": "none",
                "max_tokens": None,
                "extra_body": {"max_completion_tokens": 9, "x": [1, None]},
            },
            {"max_tokens": None, "max_completion_tokens": 9, "x": [1, None]},
        ),
    ],
)
def test_the_body_of_a_request(
    server: FakeJudgeServer, opened: Opened, calls: Calls, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    """It has the model, the messages and what the config says; what is None is left out; a sample has its own seed."""
    opened(**fields).ask(calls(1, schema=SCHEMA, schema_name="n", sample=3))
    (request,) = server.requests
    whole = {
        "model": "m",
        "messages": [{"role": "user", "content": "question 0"}],
        "temperature": 0.0,
        "top_p": 1.0,
        "max_tokens": 1024,
        **expected,
    }
    assert request.body == {name: value for name, value in whole.items() if value is not None}
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")


def test_the_key_goes_along_and_nowhere_else(
    server: FakeJudgeServer, opened: Opened, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read when the endpoint is opened and sent as a bearer token; no repr or error shows it, an echo neither."""
    key = "nvapi-hunter2hunter2hunter2"
    monkeypatch.setenv("MY_KEY", f"{key}\n")
    endpoint = opened(credential="MY_KEY", max_retries=1)
    endpoint.ask(calls())
    assert server.requests[0].headers["authorization"] == f"Bearer {key}"
    assert "cookie" not in server.requests[0].headers
    server.script(
        JudgeReply.error(503, f"bad key {key}"),
        JudgeReply.error(401, f"bad key {key[:14]}***"),
        JudgeReply(content=f"your key is {key}"),
        JudgeReply(body=f"<html>{key}".encode()),
    )
    with pytest.raises(RewardConfigError, match="the key was that of MY_KEY") as refused:
        endpoint.ask(calls())
    with pytest.raises(RewardUnavailableError, match="unparsable") as unusable:
        endpoint.ask(calls())
    for text in (repr(endpoint), str(refused.value), repr(refused.value), str(unusable.value), repr(vars(endpoint))):
        assert "hunter2" not in text
    assert str(unusable.value).count("[credential]") == 2


@pytest.mark.parametrize("key", ["ab/cd+ef'gh\\i\"jkl", "short-key", "abcdefgh12345678", "sk-0123456789/abcdefghij+=="])
@pytest.mark.parametrize("at", [0, 150, 180, 185])
def test_an_echo_that_is_escaped_or_cut_shows_no_key(
    server: FakeJudgeServer, opened: Opened, calls: Calls, monkeypatch: pytest.MonkeyPatch, key: str, at: int
) -> None:
    """No four characters of the key in a row are in the error, in whatever notation, wherever the text is cut."""
    monkeypatch.setenv("MY_KEY", key)
    notations = (key, json.dumps(key), json.dumps(key).replace("/", "\\/"), repr(key), quote(key, safe=""))
    endpoint = opened(credential="MY_KEY")
    for spelled in notations:
        server.script(JudgeReply(status=401, body=f"{'.' * at}{spelled}{'.' * 300}".encode()))
        with pytest.raises(RewardConfigError, match="401") as caught:
            endpoint.ask(calls())
        said = caught.value.message.partition("\n")[0].replace("\\", "").partition(" with 401 ")[2]
        assert not any(key[start : start + 4] in said for start in range(len(key) - 3))


def test_absurd_counts_of_tokens_are_not_told(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """Neither a bool nor a negative nor a number that no file holds is a count."""
    for count in (True, -1, 10**30, 1.5, "7"):
        body = {"choices": [{"message": {"content": GOOD}}], "usage": {"prompt_tokens": count, "completion_tokens": 3}}
        server.script(JudgeReply(body=json.dumps(body).encode()))
        (answer,) = opened(tokens_per_minute=10_000).ask(calls())
        assert (answer.value, answer.prompt_tokens, answer.completion_tokens) == (0.5, None, 3)


def test_without_a_credential_no_key_is_sent(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """A server of one's own gets no Authorization header."""
    opened().ask(calls())
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (JudgeReply(content="I can't evaluate this."), "unparsable"),
        (JudgeReply(content=None, refusal="no"), "refusal"),
        (JudgeReply(content='thought\n{"score":', finish_reason="length"), "truncated"),
        (JudgeReply(content="", finish_reason="length"), "truncated"),
        (JudgeReply(content=GOOD, finish_reason="length"), "truncated"),
        (JudgeReply(content='{"score": null}'), "missing"),
        (JudgeReply(content=""), "empty"),
        (JudgeReply(content="  \n"), "empty"),
        (JudgeReply(content=None), "empty"),
        (JudgeReply(content=GOOD, finish_reason="content_filter"), "filtered"),
        (JudgeReply(content=GOOD, finish_reason="abort"), "truncated"),
        (JudgeReply(content=GOOD, finish_reason="error"), "truncated"),
        (JudgeReply(content={"score": 1}), "malformed"),
        (JudgeReply(body=b"<html>bad gateway</html>"), "malformed"),
        (JudgeReply(body=b""), "malformed"),
        (JudgeReply(body=b"[]"), "malformed"),
        (JudgeReply(body=b"{}"), "malformed"),
        (JudgeReply(body=b'{"choices": []}'), "malformed"),
        (JudgeReply(body=b'{"choices": [{}]}'), "malformed"),
        (JudgeReply(body=b'{"choices": [{"message": {"content": "1"}}, {"message": {"content": "2"}}]}'), "malformed"),
        (JudgeReply(body=b'{"error": {"message": "overloaded"}}'), "malformed"),
        (JudgeReply(body=b"\xff\xfe"), "malformed"),
        (JudgeReply(body=b"[" * 100_000), "malformed"),
        (JudgeReply(body=b" " * 100_000), "oversized"),
    ],
)
def test_a_reply_that_can_not_be_used(
    server: FakeJudgeServer, opened: Opened, calls: Calls, bad: JudgeReply, kind: str
) -> None:
    """Case judge-02 and its kin: asked again within the retries, then unavailable, never a number."""
    endpoint = opened(max_retries=2, max_response_bytes=50_000 if kind == "oversized" else 1 << 20)
    server.script(bad, bad)
    (answer,) = endpoint.ask(calls())
    assert (answer.value, answer.calls, answer.retries, answer.parse_failures) == (0.5, 3, 2, 2)
    server.script(bad, bad, bad)
    with pytest.raises(RewardUnavailableError, match=rf"(?s)max_retries is 2:\n(  \d: {kind}: [^\n]*\n?){{3}}$"):
        endpoint.ask(calls())
    assert len(server.requests) == 6


def test_content_in_parts_is_one_text(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """Some endpoints send a list of text parts."""
    server.script(JudgeReply(content=[{"type": "text", "text": '{"score"'}, {"type": "text", "text": ": 1}"}]))
    assert opened().ask(calls())[0].value == 1.0


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_status_that_may_pass_is_asked_again(
    server: FakeJudgeServer, opened: Opened, calls: Calls, status: int
) -> None:
    """It costs a retry, and is no answer of the model."""
    server.script(JudgeReply.error(status))
    (answer,) = opened().ask(calls())
    assert (answer.value, answer.calls, answer.parse_failures) == (0.5, 2, 0)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (JudgeReply.error(401), RewardConfigError),
        (JudgeReply.error(402), RewardConfigError),
        (JudgeReply.error(403), RewardConfigError),
        (JudgeReply.error(404), RewardConfigError),
        (JudgeReply.error(429, "insufficient_quota"), RewardConfigError),
        (JudgeReply(status=302, headers={"Location": "/v1/elsewhere"}), RewardConfigError),
        (JudgeReply.error(400), RewardContractError),
        (JudgeReply.error(413), RewardContractError),
        (JudgeReply.error(422), RewardContractError),
    ],
)
def test_a_status_that_only_a_person_can_mend_is_final(
    server: FakeJudgeServer, opened: Opened, calls: Calls, reply: JudgeReply, error: type[Exception]
) -> None:
    """It is not asked again, not followed, and is not called unavailable, so that no failure policy hides it."""
    server.script(reply)
    with pytest.raises(
        error, match=rf"^model 'm' at {re.escape(server.base_url)} answered trajectory 't0' with"
    ) as caught:
        opened().ask(calls())
    assert type(caught.value) is error
    assert str(reply.status) in str(caught.value)
    assert len(server.requests) == 1


def test_exhaustion_names_everything(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """Model, base URL, whom it is about, and why each attempt failed."""
    server.script(JudgeReply.error(503, "busy"), JudgeReply(content="no"), JudgeReply(drop="mid body"))
    with pytest.raises(RewardUnavailableError, match="after 3 attempts") as caught:
        opened(max_retries=2).ask(calls(1, sample=1))
    first, *attempts = str(caught.value).splitlines()
    assert first.startswith(
        f"no usable answer for trajectory 't0' (sample 1) of model 'm' at {server.base_url} after 3 attempts in "
    )
    assert attempts[0] == """  1: 503 Scripted: '{"error":{"message":"busy"}}'"""
    assert attempts[1] == "  2: unparsable: 'no'"
    assert attempts[2].startswith("  3: ClientPayloadError: ")


def test_tokens_and_cost_are_those_of_all_requests(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """Replies that could not be used were paid for too: 3 of 100 + 10 tokens at 2 and 8 a million."""
    server.script(*[JudgeReply(content="no", usage=(100, 10))] * 2, JudgeReply(content=GOOD, usage=(100, 10)))
    (answer,) = opened(prompt_price_per_million=2.0, completion_price_per_million=8).ask(calls())
    assert (answer.prompt_tokens, answer.completion_tokens) == (300, 30)
    assert answer.cost == pytest.approx((300 * 2 + 30 * 8) / 1e6)
    assert opened().ask(calls())[0].cost is None


@pytest.mark.parametrize("silent", [JudgeReply(content=GOOD, usage=None), JudgeReply(drop="mid body")])
def test_tokens_that_are_not_told_are_not_zero(
    server: FakeJudgeServer, opened: Opened, calls: Calls, silent: JudgeReply
) -> None:
    """Where a reply does not say what it took, the sum is unknown, and so is the cost."""
    server.script(silent)
    (answer,) = opened(prompt_price_per_million=2.0, completion_price_per_million=8.0).ask(calls())
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cost) == (None, None, None)


def test_a_mistake_of_the_parser_is_no_failure_of_the_judge(
    server: FakeJudgeServer, opened: Opened, calls: Calls
) -> None:
    """What it raises besides JudgeReplyError passes through as it is, and nothing is asked again."""

    def parse(text: str) -> float:
        raise ZeroDivisionError(text)

    with pytest.raises(ZeroDivisionError, match="score"):
        opened().ask(calls(1, parse=parse))
    assert len(server.requests) == 1


def test_a_question_that_is_no_json(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """It names whom it is about, and nothing is sent, not even the question beside it."""
    bad = calls(1, messages=({"role": "user", "content": "half of a pair: \ud800"},), key="trajectory 'x'")
    with pytest.raises(RewardContractError, match="the question about trajectory 'x' can't be sent as JSON"):
        opened().ask([*calls(), *bad])
    assert server.requests == []


def test_one_failure_cancels_the_others(server: FakeJudgeServer, opened: Opened, calls: Calls) -> None:
    """The first final failure ends the ask while the other replies are still on their way; the endpoint is usable."""
    server.script(JudgeReply(content=GOOD, delay_s=60.0), JudgeReply(content=GOOD, delay_s=60.0), JudgeReply.error(401))
    endpoint = opened()
    with pytest.raises(RewardConfigError, match="401"):
        endpoint.ask(calls(3))
    assert endpoint.ask(calls())[0].value == 0.5


def test_the_error_of_a_reply_says_its_kind(pickled: Callable[[Any], Any]) -> None:
    """The kind is an attribute and part of the text, and survives pickling."""
    error = pickled(JudgeReplyError("off_scale", "1.5 is above 1"))
    assert (error.kind, str(error)) == ("off_scale", "off_scale: 1.5 is above 1")


def test_a_probe_is_one_real_call(server: FakeJudgeServer, opened: Opened) -> None:
    """It says what came back on one line, and takes any answer."""
    server.script(JudgeReply(content="Ready!\nI am.", usage=(7, 3)))
    said = opened().probe()
    assert re.fullmatch(
        rf"m at {re.escape(server.base_url)} answered 'Ready!\\nI am\.' in \d\.\d\d s \(7 \+ 3 tokens\)", said
    )
    assert server.requests[0].body["response_format"]["type"] == "json_schema"
    server.script(JudgeReply.error(404, "no such model"))
    with pytest.raises(RewardConfigError, match="no such model"):
        opened().probe()
