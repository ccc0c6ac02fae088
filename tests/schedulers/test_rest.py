"""slurmrestd as a reader, on captured documents behind a small server on loopback."""

from __future__ import annotations

import http.server
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from attribution.model import ConfigError, SchedulerError
from attribution.schedulers.rest import RestReader
from attribution.schedulers.runner import ReadRunner
from attribution.schedulers.slurm import SlurmObserver

CAPTURES = Path(__file__).parent / "captures"
ANSWERS = {
    "/slurm/v0.0.38/jobs": (200, (CAPTURES / "slurm-22.05.8-squeue.json").read_bytes()),
    "/slurm/v0.0.38/nodes": (200, (CAPTURES / "slurm-22.05.8-sinfo.json").read_bytes()),
    "/slurm/v0.0.40/jobs": (500, b"Unspecified error"),
    "/slurm/v0.0.39/jobs": (200, b'{"jobs": [], "errors": [{"error": "Authentication failure"}]}'),
}


class Handler(http.server.BaseHTTPRequestHandler):
    heard: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.heard.append((self.path, self.headers.get("X-SLURM-USER-TOKEN")))
        status, body = ANSWERS.get(self.path, (404, b"no such method"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class UnixServer(socketserver.ThreadingUnixStreamServer):
    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        request, _ = super().get_request()
        return request, ("local", 0)


@pytest.fixture(params=["tcp", "unix"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    server: socketserver.BaseServer
    if request.param == "tcp":
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server, address = web, f"http://127.0.0.1:{web.server_address[1]}"
    else:
        server, address = UnixServer(str(tmp_path / "rest.sock"), Handler), f"unix:{tmp_path}/rest.sock"
    Handler.heard.clear()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield address
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_newest_version_that_the_server_knows_is_used(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", "token")
    versions = ("v0.0.43", "v0.0.38")
    observer = SlurmObserver(runner=ReadRunner(), rest=RestReader(url=url, versions=versions))
    world = observer.observe()
    assert world.whole and world.jobs["86"].state == "FAILED" and "gpu-001" in world.nodes
    observer.observe()
    paths = [path for path, _ in Handler.heard]
    jobs, nodes = "/slurm/v0.0.38/jobs", "/slurm/v0.0.38/nodes"
    assert paths == ["/slurm/v0.0.43/jobs", jobs, nodes, jobs, nodes]
    assert {token for _, token in Handler.heard} == {"token"}
    assert observer.runner.calls == {}, "no program was started"


def test_errors_in_an_answer_that_says_200_are_errors(url: str) -> None:
    world = SlurmObserver(runner=ReadRunner(), rest=RestReader(url=url, versions=("v0.0.39",))).observe()
    assert not world.whole and world.problems == ("Authentication failure",)


@pytest.mark.parametrize(
    ("version", "words"), [("v0.0.40", "HTTP 500 Unspecified error"), ("v9", "none of the versions")]
)
def test_no_answer_is_no_empty_cluster(url: str, version: str, words: str) -> None:
    world = SlurmObserver(runner=ReadRunner(), rest=RestReader(url=url, versions=(version,))).observe()
    assert not world.whole and words in world.problems[0]


def test_a_server_that_is_away_and_an_answer_without_end(url: str, tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="more than 100 bytes"):
        RestReader(url=url, versions=("v0.0.38",), max_bytes=100).rows("jobs")
    with pytest.raises(SchedulerError, match="slurmrestd"):
        RestReader(url=f"unix:{tmp_path}/nobody").rows("jobs")


@pytest.mark.parametrize("address", ["", "localhost:6820", "file:///etc/passwd", "unix:relative", "https://x"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ConfigError):
        RestReader(url=address)
