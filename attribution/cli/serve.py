"""``recovery serve``: look at a store with a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    store: Annotated[Path, typer.Argument(help="Folder of the store.", envvar="RECOVERY_STORE")] = Path(
        "recovery-store"
    ),
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on.", min=1, max=65535)] = 8642,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", help="What a caller must know; made where the address is not loopback.", envvar="RECOVERY_TOKEN"
        ),
    ] = None,
) -> None:
    """Serve a read-only view of a store. Off loopback a token is always asked for."""
    import secrets

    from attribution.model import ConfigError

    try:
        import uvicorn

        from attribution.serve.app import create_app
    except ImportError as error:
        raise ConfigError("the web view is not installed", mend="pip install 'recovery-attribution[serve]'") from error
    local = host in LOOPBACK
    if not local and token is None:
        token = secrets.token_urlsafe(24)
        typer.echo(f"token: {token}", err=True)
    app = create_app(store, token=token, hosts=(*LOOPBACK, "[::1]") if local else ())
    typer.echo(f"http://{f'[{host}]' if ':' in host else host}:{port}/", err=True)
    uvicorn.run(app, host=host, port=port, log_level="warning", server_header=False)
