"""The server as a deployment of Ray Serve: each replica runs ``pullquote serve`` on its assigned resources.

::

    serve run pullquote.ray:app
    serve run pullquote.ray:build model=/models/e5 dtype=bfloat16 max_replicas=8 num_cpus=4

Requests of a replica share its batches. Ray Serve sends each request to the replica with the fewest, adds replicas while they
have more than `target_ongoing_requests`, and replaces a replica whose `/health` fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import ray.util
from ray import serve

from pullquote import _cli
from pullquote._engine.ray_resources import assigned_resources
from pullquote.errors import InvalidArgumentError, NotFoundError, UnavailableError
from pullquote.ray._proxy import Message, Proxy, Receive, Send, send_error

__all__ = ["app", "build"]

# Default settings of Ray Serve.
SERVE_SETTINGS: dict[str, float] = {
    "min_replicas": 1,
    "max_replicas": 4,
    # Half of a replica's concurrency; with more, Ray Serve adds a replica.
    "target_ongoing_requests": 32,
    # The server's `--max-concurrent`; more would wait there.
    "max_ongoing_requests": 64,
    # For each proxy of Ray Serve; excess requests get 503.
    "max_queued_requests": 512,
    "num_cpus": 1,
    "num_gpus": 0,
}
# Options that Ray determines.
RAY_OPTIONS = {"host", "port", "uds", "uds_mode", "json", "device", "threads"}
HEALTH_PERIOD = 5.0
HEALTH_TIMEOUT = 20.0
SHUTDOWN_TIMEOUT = 20.0


@serve.deployment
@serve.ingress()
class PullquoteServer:
    """A replica: a server process on a Unix socket, and a proxy to it."""

    def __init__(self, options: list[str], *, has_store: bool) -> None:
        """Start the server, and wait until it listens."""
        self._has_store = has_store
        self._folder = tempfile.mkdtemp(prefix="pullquote-")
        socket = f"{self._folder}/socket"
        has_encoder = any(option.startswith("--encoder") for option in options)
        resources = assigned_resources(True if has_encoder else None)
        arguments = ["--uds", socket, "--json", "--threads", str(resources["threads"])]
        for device in resources.get("devices", []):
            arguments += ["--device", device]
        command = [sys.executable, "-m", "pullquote._cli.supervised", "serve", *options, *arguments]
        # So that the server can import what this process can, for example an encoder.
        paths = os.pathsep.join(str(Path(path).resolve()) for path in sys.path)
        self._server = subprocess.Popen(  # noqa: S603 - our own command line
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
        )
        assert self._server.stdout is not None  # noqa: S101 - it is a pipe
        line = self._server.stdout.readline()
        if not line:
            message = f"the replica's server did not start: exit code {self._server.wait()}"
            raise UnavailableError(message)
        self._model: str = json.loads(line)["model"]
        self._proxy = Proxy(socket)

    def __serve_build_asgi_app__(self) -> Any:
        """The ASGI application; a function, from which uvicorn sees that it is ASGI 3."""

        async def answer(scope: Message, receive: Receive, send: Send) -> None:
            await self._answer(scope, receive, send)

        return answer

    async def check_health(self) -> None:
        """Raise if the server cannot encode; Ray Serve then replaces the replica."""
        if (code := self._server.poll()) is not None:
            message = f"the replica's server has ended: exit code {code}"
            raise UnavailableError(message)
        timeout = aiohttp.ClientTimeout(total=HEALTH_TIMEOUT / 2)
        async with self._proxy.session().get("http://localhost/health", timeout=timeout) as answer:
            if answer.status != 200:
                message = f"the replica is not healthy: {await answer.text()}"
                raise UnavailableError(message)

    async def processes(self) -> dict[str, Any]:
        """Ids of the replica's `node`, of the processes `replica` and `server`, and the `model`."""
        node = ray.get_runtime_context().get_node_id()
        return {"node": node, "replica": os.getpid(), "server": self._server.pid, "model": self._model}

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
        elif not self._has_store and scope["path"].removeprefix(scope.get("root_path", "")).startswith("/documents/"):
            message = "replicas do not share stored documents; send texts, or deploy with max_replicas=1"
            await send_error(send, NotFoundError(message), "not_found")
        else:
            await self._proxy(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await self._proxy.close()
        await asyncio.to_thread(self._stop_server)
        await send({"type": "lifespan.shutdown.complete"})

    def _stop_server(self) -> None:
        """Stop the server, which also stops if this process dies (see `pullquote._cli.supervised`)."""
        self._server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(SHUTDOWN_TIMEOUT)
        self._server.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def build(options: dict[str, Any] | None = None) -> serve.Application:
    """The server's application, for ``serve run pullquote.ray:build name=value …``, a configuration file or `serve.run`.

    `options` are those of `SERVE_SETTINGS`, and of ``pullquote serve`` by name (`model`, `dtype`, `api_key`, `max_body_bytes`, …)
    except its address, devices and threads, which Ray determines. Documents can be stored with `max_replicas` 1 only.

    Raises `InvalidArgumentError` for an unknown option or a bad value.
    """
    server_options = dict(options or {})
    settings = {name: float(server_options.pop(name, value)) for name, value in SERVE_SETTINGS.items()}
    arguments = _command_line(server_options)
    if settings["min_replicas"] > settings["max_replicas"]:
        message = "min_replicas must be at most max_replicas"
        raise InvalidArgumentError(message)
    deployment = PullquoteServer.options(  # type: ignore[attr-defined] # made by the decorator
        ray_actor_options={"num_cpus": settings["num_cpus"], "num_gpus": settings["num_gpus"]},
        max_ongoing_requests=int(settings["max_ongoing_requests"]),
        max_queued_requests=int(settings["max_queued_requests"]),
        autoscaling_config={
            "min_replicas": int(settings["min_replicas"]),
            "initial_replicas": int(settings["min_replicas"]),
            "max_replicas": int(settings["max_replicas"]),
            "target_ongoing_requests": settings["target_ongoing_requests"],
        },
        health_check_period_s=HEALTH_PERIOD,
        health_check_timeout_s=HEALTH_TIMEOUT,
    )
    application: serve.Application = deployment.bind(arguments, has_store=settings["max_replicas"] == 1)
    return application


def _command_line(options: dict[str, Any]) -> list[str]:
    """Arguments of ``pullquote serve``, checked once instead of in each replica."""
    arguments: list[str] = []
    for name, value in options.items():
        if name in RAY_OPTIONS:
            message = f"Ray determines {name}; leave it out"
            raise InvalidArgumentError(message)
        option = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list) else [value]
        arguments += [option] * bool(value) if isinstance(value, bool) else [f"{option}={one}" for one in values]
    _cli.check_arguments(["serve", *arguments])
    return arguments


app = build()
