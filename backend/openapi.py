"""``python -m backend.openapi`` prints the OpenAPI description, from which the page's types are generated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

PROBLEM = "application/problem+json"


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the description of an application, with what the framework can't know.

    What is answered is always complete, so every member is required there; errors are problem documents; and a
    version has to be given.
    """
    found = get_openapi(title=app.title, version="v1", routes=app.routes)
    schemas = found["components"]["schemas"]
    operations = [operation for path in found["paths"].values() for operation in path.values()]
    asked = set(_reached([operation.get("requestBody") for operation in operations], schemas))
    for name, schema in schemas.items():
        if name not in asked and "properties" in schema:
            schema["required"] = list(schema["properties"])
    for operation in operations:
        for parameter in operation.get("parameters", ()):
            parameter["required"] = parameter["required"] or parameter["name"] == "If-Match"
        for response in operation["responses"].values():
            content = response.get("content", {})
            if PROBLEM in content:
                response["content"] = {PROBLEM: content.pop("application/json")}
    return found


def _reached(value: object, schemas: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the schemas that a part of the description refers to."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref" and isinstance(item, str):
                name = item.rpartition("/")[2]
                yield name
                yield from _reached(schemas[name], schemas)
            else:
                yield from _reached(item, schemas)
    elif isinstance(value, list):
        for item in value:
            yield from _reached(item, schemas)


def text(app: FastAPI) -> str:
    """Return the description as the text of `frontend/openapi.json`."""
    return json.dumps(describe(app), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    from .app import create_app

    print(text(create_app()), end="")
