"""Reads jobs and nodes from slurmrestd instead of squeue and sinfo. Reading only: it has no requeue and, in 22.05, no node
update, so commands stay with the client programs.

slurmrestd answers many errors with HTTP 200 and a filled `errors`; `documents` reads those. Seen with v0.0.38 (22.05.8).
"""

from __future__ import annotations

import http.client
import os
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from attribution.model import ConfigError, SchedulerError
from attribution.schedulers.runner import printable
from attribution.schedulers.slurm_json import documents

#: Newest first; the first that the server knows is taken.
VERSIONS = ("v0.0.43", "v0.0.42", "v0.0.41", "v0.0.40", "v0.0.39", "v0.0.38")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(slots=True, kw_only=True)
class RestReader:
    """Rows of "jobs" or "nodes" from `url` (``http://host:port`` or ``unix:/path``).

    The token comes from the environment (SLURM_JWT), never from an argument that other users could read.
    """

    url: str
    user: str = ""
    time_limit_s: float = 30.0
    max_bytes: int = 512 << 20
    versions: tuple[str, ...] = VERSIONS
    calls: int = 0
    _version: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if not (self.url.startswith("unix:/") or (parts.scheme == "http" and parts.hostname)):
            raise ConfigError(f"{self.url!r} is no address of slurmrestd", mend="use http://host:port or unix:/path")

    def rows(self, what: str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Records and the errors that the answer reports. Raises SchedulerError when there is no answer."""
        for version in (self._version,) if self._version else self.versions:
            status, body = self._get(f"/slurm/{version}/{what}")
            if status == 404 and self._version is None:
                continue
            if status != 200:
                raise SchedulerError(f"slurmrestd: HTTP {status} {printable(body.decode('utf-8', 'replace'), 200)}")
            self._version = version
            return documents(body, what)
        raise SchedulerError("slurmrestd knows none of the versions " + ", ".join(self.versions))

    def _get(self, path: str) -> tuple[int, bytes]:
        self.calls += 1
        headers = {"Accept": "application/json"}
        token = os.environ.get("SLURM_JWT")
        if token:
            headers["X-SLURM-USER-TOKEN"] = token
            headers["X-SLURM-USER-NAME"] = self.user or os.environ.get("USER", "")
        connection = self._connection()
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read(self.max_bytes + 1)
        except (OSError, http.client.HTTPException) as error:
            raise SchedulerError(f"slurmrestd: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if len(body) > self.max_bytes:
            raise SchedulerError(f"slurmrestd: an answer of more than {self.max_bytes} bytes")
        return answer.status, body

    def _connection(self) -> http.client.HTTPConnection:
        if self.url.startswith("unix:"):
            return _UnixConnection(self.url.removeprefix("unix:"), self.time_limit_s)
        parts = urlsplit(self.url)
        return http.client.HTTPConnection(parts.hostname or "", parts.port or 6820, timeout=self.time_limit_s)
