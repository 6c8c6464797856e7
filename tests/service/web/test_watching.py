# SPDX-License-Identifier: Apache-2.0
"""What a person who runs the service sees: health, metrics, log, the description of the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from service.driving import Served, image_line, npy

ServeIt = Callable[..., Served]


def test_the_log_is_one_object_a_line(serve_it: ServeIt) -> None:
    """Each request with its route, its status and its size; unknown paths are not repeated, headers never."""
    served = serve_it("--drain", "0")
    answer = served.enqueue(image_line(), npy(1, 1, 1, 3), Cookie="crumb-123")
    served.result(answer.json["uuid"], "brightness")
    served.ask("GET", "/nowhere/path-123?query-123", None)
    served.ask("BREW", "/healthz", None)
    served.end()
    lines = [json.loads(line) for line in served.log.splitlines()]
    requests = [line for line in lines if line["logger"] == "posttrain.service.access"]
    first = requests[0]
    assert (first["method"], first["path"], first["status"]) == ("POST", "/api/reward/enqueue", 200)
    assert (first["received"], first["client"]) == (189, "127.0.0.1")
    assert [(line["method"], line["path"], line["status"]) for line in requests[-2:]] == [
        *(("GET", "other", 404), ("other", "/healthz", 405)),
    ]
    assert "123" not in served.log.replace(f":{served.address[1]}", "").partition("crumb")[1]
    assert all(text not in served.log for text in ("crumb-123", "path-123", "query-123", "BREW"))


def test_metrics_count_what_happened(serve_it: ServeIt) -> None:
    """Requests by route and status, tasks by scorer and outcome, groups by provider."""
    served = serve_it("--image-scorer", "moody=my_scorers:moody", "--drain", "0")
    for mood in ("calm", "nan", "die"):
        served.scored(image_line("moody", prompts=[mood]), npy(1, 1, 1, 3), "moody")
    group = {"provider": "constant", "group_id": "g", "candidates": [{"trajectory_id": "a", "completion": "0"}]}
    assert served.group(group).status == 200
    assert served.group({**group, "provider": "../nobody"}).status == 400
    answer = served.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = set(answer.text.splitlines())
    assert {
        'posttrain_service_tasks_total{outcome="ok",scorer="moody"} 1.0',
        'posttrain_service_tasks_total{outcome="error",scorer="moody"} 1.0',
        'posttrain_service_tasks_total{outcome="lost",scorer="moody"} 1.0',
        'posttrain_service_workers_lost_total{cause="died",scorer="moody"} 1.0',
        'posttrain_service_groups_total{outcome="ok",provider="constant"} 1.0',
        'posttrain_service_requests_total{path="/v1/score",status="400"} 1.0',
    } <= lines
    assert "nobody" not in answer.text


def test_health(shared: Served) -> None:
    """Open to everybody."""
    answer = shared.ask("GET", "/healthz")
    assert (answer.status, answer.json["status"]) == (200, "ok")


@pytest.fixture(scope="module")
def described(shared: Served) -> Any:
    """What the service says of itself."""
    return shared.ask("GET", "/openapi.json").json


def test_every_route_is_described(described: Any) -> None:
    """With a summary, and a body where one is taken."""
    assert set(described["paths"]) == {
        *("/api/reward/ping", "/api/reward/enqueue", "/api/reward/pull", "/v1/score", "/healthz", "/metrics"),
    }
    for path, methods in described["paths"].items():
        (operation,) = methods.values()
        assert operation["description"], path
        assert ("requestBody" in operation) is ("post" in methods)


def test_a_group_is_described_with_an_example(described: Any) -> None:
    """Every reference leads somewhere; the example is scored as it stands."""
    schemas = described["components"]["schemas"]
    references = {part.split('"')[0] for part in json.dumps(described).split('"#/components/schemas/')[1:]}
    assert references <= set(schemas)
    assert {"GroupIn", "CandidateIn", "GroupOut", "FailureOut"} <= set(schemas)
    assert schemas["GroupIn"]["examples"]
    responses = described["paths"]["/v1/score"]["post"]["responses"]
    assert set(responses) == {"200", "400", "408", "413", "422", "429", "503"}


def test_what_is_answered_is_described(shared: Served, described: Any) -> None:
    """Status, content type and the members of real answers stand in the description."""
    accepted = shared.enqueue(image_line(), npy(1, 1, 1, 3))
    uuid = accepted.json["uuid"]
    shared.result(uuid, "brightness")
    form = "/api/reward/pull"
    for path, answer in (
        ("/api/reward/ping", shared.form("/api/reward/ping", {"info_data": "x"})),
        ("/api/reward/ping", shared.form("/api/reward/ping", {})),
        ("/api/reward/enqueue", accepted),
        ("/api/reward/enqueue", shared.enqueue(image_line("ocr"), npy(1, 1, 1, 3))),
        ("/api/reward/enqueue", shared.enqueue(image_line(), b"")),
        (form, shared.pull(uuid, "brightness")),
        (form, shared.pull("nobody", "brightness")),
        (form, shared.form(form, {})),
        (form, shared.form(form, {"uuid": "x" * 70_000})),
        ("/healthz", shared.ask("GET", "/healthz")),
        ("/metrics", shared.ask("GET", "/metrics")),
    ):
        (operation,) = described["paths"][path].values()
        content = operation["responses"][str(answer.status)]["content"]
        assert set(content) == {answer.headers["content-type"].partition(";")[0]}, (path, answer)
        if "application/json" in content:
            schema = content["application/json"]["schema"]
            shapes = schema.get("anyOf", [schema])
            assert any(set(s["required"]) <= set(answer.json) <= set(s["properties"]) for s in shapes), (path, answer)


def test_the_example_is_scored(shared: Served, described: Any) -> None:
    """As it stands in the description, with the scores of the example of the answer."""
    schemas = described["components"]["schemas"]
    answer = shared.group(schemas["GroupIn"]["examples"][0])
    assert answer.status == 200
    (shown,) = schemas["GroupOut"]["examples"]
    assert answer.json["items"] == shown["items"]
    assert set(answer.json) == set(shown)


def test_pages_that_load_scripts_from_elsewhere_are_not_served(shared: Served) -> None:
    """The description itself is."""
    assert [shared.ask("GET", path).status for path in ("/docs", "/redoc")] == [404, 404]
