# SPDX-License-Identifier: Apache-2.0
"""What is bounded answers so: the queue, the spool, the time of an upload, the connections' forms."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from service.conftest import OWN
from service.driving import Served, image_line, npy

ServeIt = Callable[..., Served]
PIXEL = npy(1, 1, 1, 3)


def test_a_full_queue_refuses_and_drops_nothing(serve_it: ServeIt) -> None:
    """429 with Retry-After at once and as a whole; what was accepted is scored; room that is free again is used."""
    served = serve_it(*OWN, "--max-queue", "3", "--scorer-timeout", "3", "--drain", "0")
    hanging = served.enqueue(image_line("moody", prompts=["hang"]), PIXEL).json["uuid"]
    waiting = served.enqueue(image_line("moody", prompts=["calm"]), PIXEL).json["uuid"]
    refused = served.enqueue(image_line("brightness", "contrast"), PIXEL)
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert refused.json == {"detail": "the queue is full"}
    # One more task fits, and is not held up by the scorer that hangs.
    assert served.scored(image_line(), PIXEL, "brightness")["scores"] == {"brightness": [0.2]}
    metrics = served.ask("GET", "/metrics").text
    assert "posttrain_service_queue_tasks 2.0" in metrics
    assert 'requests_total{path="/api/reward/enqueue",status="429"} 1.0' in metrics
    assert "did not answer within 3 s" in served.result(hanging, "moody")["error"]
    assert served.result(waiting, "moody")["scores"] == {"moody": [0.25]}
    assert "posttrain_service_queue_tasks 0.0" in served.ask("GET", "/metrics").text
    assert served.enqueue(image_line("brightness", "contrast"), PIXEL).status == 200


def test_a_full_spool_refuses(serve_it: ServeIt) -> None:
    """429 while another array waits, and not for good; an upload that is too slow ends with 408."""
    flags = ("--max-spool-mib", "1", "--scorer-timeout", "2", "--upload-timeout", "1", "--drain", "0")
    served = serve_it(*OWN, *flags)
    large = npy(1, 500, 600, 3)
    hanging = served.enqueue(image_line("moody", prompts=["hang"]), large).json["uuid"]
    refused = served.enqueue(image_line(), large)
    assert (refused.status, refused.json) == (429, {"detail": "the spool is full"})
    served.result(hanging, "moody")
    assert served.scored(image_line(), large, "brightness")["scores"] == {"brightness": [0.2]}
    with socket.create_connection(served.address, 60) as connection:
        connection.sendall(b"POST /api/reward/enqueue HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n{")
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the upload did not end within 1 s" in answer


def test_forms_are_small(shared: Served) -> None:
    """A form of a megabyte is refused."""
    answer = shared.form("/api/reward/pull", {"uuid": "x" * (1 << 20)})
    assert (answer.status, "longer than 65536 bytes" in answer.json["detail"]) == (413, True)


def test_room_is_given_back_and_results_expire(serve_it: ServeIt) -> None:
    """Refused uploads do not fill the queue; of too many results the oldest is as if it had never been, and counted."""
    served = serve_it("--max-queue", "1", "--max-results", "1", "--drain", "0")
    for array in (PIXEL[:-1], PIXEL + b"x", npy(1, 1, 1, 4)) * 2:
        assert served.enqueue(image_line(), array).status in {400, 422}
    first = served.enqueue(image_line(), PIXEL).json["uuid"]
    served.result(first, "brightness")
    assert served.scored(image_line(), PIXEL, "brightness")["scores"] == {"brightness": [0.2]}
    lost = served.pull(first, "brightness")
    assert (lost.status, lost.json) == (400, {"message": f"Not found scores for {first}"})
    assert "posttrain_service_results_forgotten_total 1.0" in served.ask("GET", "/metrics").text


def test_an_upload_stays_out_of_memory(serve_it: ServeIt, workplace: Path) -> None:
    """An array of 96 MiB goes through a server that grows by less than 24 MiB."""
    served = serve_it("--drain", "0")
    served.scored(image_line(), PIXEL, "brightness")

    def resident(field: str) -> int:
        lines = Path(f"/proc/{served.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))

    before = resident("VmRSS")
    array = npy(1, 8192, 4096, 3)
    assert served.scored(image_line(), array, "brightness")["scores"] == {"brightness": [0.2]}
    assert resident("VmHWM") - before < 24 << 10


@pytest.mark.parametrize("fields", [{"uuid": "x", "type": "y" * 3000}, {"uuid": "x" * 3000}, {"uuid": "\n\0é"}])
def test_any_text_may_be_asked_for(shared: Served, fields: dict[str, str]) -> None:
    """And is answered as sent."""
    answer = shared.form("/api/reward/pull", fields)
    assert (answer.status, answer.json) == (400, {"message": f"Not found scores for {fields['uuid']}"})
