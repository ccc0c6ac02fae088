"""The application: addresses, headers, who may look. Only GET is served; nothing here writes.

Every page is shown without script. A token, where one is set, comes as ``Authorization: Bearer`` or as the password of
basic authentication, which browsers ask for.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from attribution.model import ConfigError, RecoveryError, StoreError
from attribution.redact import redact
from attribution.report.console import visible
from attribution.report.html import attempt_report, fleet, store_report
from attribution.report.metrics import CONTENT_TYPE, exposition
from attribution.serve.openapi import document
from attribution.serve.query import CHOICES, Filter, find
from attribution.store import Store

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
REFRESH = (0, 10, 60)
Answer = Callable[[Request], Awaitable[Response]]


def create_app(store: Path, *, token: str | None = None, hosts: tuple[str, ...] = ()) -> Starlette:
    """The application over a store.

    Args:
        store: folder of the store; opened anew for each request, so that new runs are seen.
        token: what a caller must know; None lets everybody who reaches the port look.
        hosts: names that a request may address; empty takes any. Guards a loopback server against other sites' pages.
    """
    Store(store)
    routes = [
        Route(path, partial(handler, store))
        for path, handler in (
            ("/", _attempts_page),
            ("/report", _report_page),
            ("/attempts/{attempt:path}", _attempt_page),
            ("/style.css", _style),
            ("/metrics", _metrics),
            ("/healthz", _health),
            ("/api/attempts", _attempts),
            ("/api/attempts/{attempt:path}", _attempt),
            ("/api/overview", _overview),
            ("/api/openapi.json", _openapi),
        )
    ]
    guard = Middleware(BaseHTTPMiddleware, dispatch=partial(_guard, token, frozenset(hosts)))
    return Starlette(routes=routes, middleware=[guard], exception_handlers={RecoveryError: _refused})


async def _guard(token: str | None, hosts: frozenset[str], request: Request, call: Answer) -> Response:
    name = request.headers.get("host", "").rsplit(":", 1)[0]
    if hosts and name not in hosts:
        response: Response = JSONResponse({"error": "this name is not served"}, status_code=421)
    elif token is not None and not hmac.compare_digest(_shown(request).encode(), token.encode()):
        response = JSONResponse({"error": "a token is asked for"}, status_code=401)
        response.headers["WWW-Authenticate"] = 'Basic realm="recovery", Bearer'
    else:
        response = await call(request)
    response.headers.update(HEADERS)
    return response


def _shown(request: Request) -> str:
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return ""


async def _refused(_: Request, error: Exception) -> Response:
    status = 400 if isinstance(error, ConfigError) else 404 if isinstance(error, StoreError) else 500
    told = {"error": visible(redact(getattr(error, "what", "")), 300), "where": getattr(error, "where", None)}
    return JSONResponse(told if status == 400 else {"error": told["error"]}, status_code=status)


def _attempts_page(store: Path, request: Request) -> Response:
    asked = Filter.of(request.query_params)
    text = request.query_params.get("refresh", "0")
    refresh = int(text) if text in map(str, REFRESH) else 0
    found = find(Store(store), asked)
    behind = asked.offset + asked.limit
    page = _environment().get_template("attempts.html.j2")
    return HTMLResponse(
        page.render(
            asked={"q": asked.q, "outcome": asked.outcome, "domain": asked.domain, "action": asked.action},
            choices=CHOICES,
            refresh=refresh,
            found=found,
            newer=asked.address(max(0, asked.offset - asked.limit)) if asked.offset else None,
            older=asked.address(behind) if behind < found.total else None,
        )
    )


def _report_page(store: Path, _: Request) -> Response:
    return HTMLResponse(store_report(Store(store)))


def _attempt_page(store: Path, request: Request) -> Response:
    return HTMLResponse(attempt_report(Store(store), request.path_params["attempt"]))


def _attempts(store: Path, request: Request) -> Response:
    found = find(Store(store), Filter.of(request.query_params))
    return _json({"total": found.total, "attempts": list(found.attempts)})


def _attempt(store: Path, request: Request) -> Response:
    return _json(Store(store).document(request.path_params["attempt"]))


def _overview(store: Path, _: Request) -> Response:
    facts = fleet.read(Store(store))
    return _json(
        {
            "attempts": len(facts.rows),
            "outcomes": dict(facts.outcomes),
            "actions": dict(facts.actions),
            "classes": [
                {"class": x.name, "domain": x.domain, "attempts": x.attempts, "gpu_hours": x.gpu_hours}
                for x in facts.by_class
            ],
            "nodes": [{"node": n.node, "attempts": n.attempts, "blamed": n.blamed} for n in facts.nodes],
        }
    )


def _metrics(store: Path, _: Request) -> Response:
    return Response(exposition(fleet.read(Store(store)).rows), headers={"Content-Type": CONTENT_TYPE})


def _health(store: Path, _: Request) -> Response:
    return _json({"ok": True, "units": len(Store(store).manifests())})


def _openapi(_store: Path, _: Request) -> Response:
    return _json(document())


def _style(_store: Path, _: Request) -> Response:
    text = resources.files("attribution.report.html").joinpath("templates/style.css").read_text(encoding="utf-8")
    return Response(text, media_type="text/css")


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("attribution.serve"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    made.filters.update(log=lambda text: visible(redact(str(text)), 240), path=lambda text: quote(text, safe=""))
    return made
