"""The OpenAPI document of the web view's API, written by hand from what the API checks."""

from __future__ import annotations

from typing import Any

from attribution import __version__
from attribution.serve.query import CHOICES, COLUMNS, MOST, MOST_TEXT


def document() -> dict[str, Any]:
    """The document, version 3.1."""
    asked = [
        {"name": "q", "in": "query", "schema": {"type": "string", "maxLength": MOST_TEXT}},
        *({"name": n, "in": "query", "schema": {"type": "string", "enum": ["", *v]}} for n, v in CHOICES.items()),
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": MOST}},
        {"name": "offset", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 10**9}},
    ]
    attempt = {"type": "object", "required": list(COLUMNS), "properties": {c: {} for c in COLUMNS}}
    page = {
        "type": "object",
        "required": ["total", "attempts"],
        "properties": {"total": {"type": "integer"}, "attempts": {"type": "array", "items": attempt}},
    }
    one = [{"name": "attempt", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Recovery", "version": __version__},
        "paths": {
            "/api/attempts": {"get": _get("Attempts that fit, the latest first", page, asked, refused="400")},
            "/api/attempts/{attempt}": {
                "get": _get("A recovery.diagnosis/1 document", {"type": "object"}, one, refused="404")
            },
            "/api/overview": {"get": _get("Counts over the store", {"type": "object"}, [])},
            "/healthz": {"get": _get("Whether the store can be read", {"type": "object"}, [])},
        },
    }


def _get(summary: str, schema: dict[str, Any], parameters: list[dict[str, Any]], refused: str = "") -> dict[str, Any]:
    answers: dict[str, Any] = {"200": {"description": "done", "content": {"application/json": {"schema": schema}}}}
    for status in filter(None, (refused, "401")):
        answers[status] = {"description": "refused", "content": {"application/json": {"schema": {"type": "object"}}}}
    return {"summary": summary, "parameters": parameters, "responses": answers}
