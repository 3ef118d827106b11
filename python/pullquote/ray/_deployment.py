"""The server as a deployment of Ray Serve: each replica is a ``pullquote serve`` of its own, with what Ray gave the replica.

::

    serve run pullquote.ray:app
    serve run pullquote.ray:build model=/models/e5 dtype=bfloat16 max_replicas=8 num_cpus=4

Requests of a replica share its batches, which the engine fills by tokens; nothing waits to be batched before. Ray Serve spreads
requests over replicas by how many each has, adds replicas while those have more than `target_ongoing_requests`, and replaces one
whose `/health` says that no text can be encoded.
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
from pullquote.errors import InvalidArgumentError, NotFoundError, UnavailableError
from pullquote.ray._proxy import Forwarding, Message, Receive, Send, refuse
from pullquote.ray._resources import given

__all__ = ["app", "build"]

# How Ray Serve runs replicas, where nobody says.
PLACES: dict[str, float] = {
    "min_replicas": 1,
    "max_replicas": 4,
    # Half of what a replica works on at once: above, another one is wanted.
    "target_ongoing_requests": 32,
    # The server's `--max-concurrent`: more would only wait there.
    "max_ongoing_requests": 64,
    # Of one of Ray Serve's proxies; more are answered 503.
    "max_queued_requests": 512,
    "num_cpus": 1,
    "num_gpus": 0,
}
# Which Ray decides.
NOT_TO_SAY = {"host", "port", "uds", "uds_mode", "json", "device", "threads"}
HEALTH_PERIOD = 5.0
HEALTH_PATIENCE = 20.0
END_PATIENCE = 20.0


@serve.deployment
@serve.ingress()
class PullquoteServer:
    """One replica: a server in a process of its own, on a Unix socket, and what hands requests on to it."""

    def __init__(self, options: list[str], *, keeps_documents: bool) -> None:
        """Start the server; done when it can answer."""
        self._keeps_documents = keeps_documents
        self._folder = tempfile.mkdtemp(prefix="pullquote-")
        socket = f"{self._folder}/socket"
        has_encoder = any(option.startswith("--encoder") for option in options)
        share = given(True if has_encoder else None)
        told = ["--uds", socket, "--json", "--threads", str(share["threads"])]
        for device in share.get("devices", []):
            told += ["--device", device]
        command = [sys.executable, "-m", "pullquote._supervised", "serve", *options, *told]
        # What this process may import, an encoder may be in.
        paths = os.pathsep.join(str(Path(path).resolve()) for path in sys.path)
        self._server = subprocess.Popen(  # noqa: S603 - our own command line
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
        )
        assert self._server.stdout is not None  # noqa: S101 - it was asked for
        line = self._server.stdout.readline()
        if not line:
            message = f"the replica's server did not start: exit code {self._server.wait()}"
            raise UnavailableError(message)
        self._model: str = json.loads(line)["model"]
        self._forwarding = Forwarding(socket)

    def __serve_build_asgi_app__(self) -> Any:
        """What Ray Serve calls for each request; a function, by which uvicorn knows that it is of ASGI 3."""

        async def answer(scope: Message, receive: Receive, send: Send) -> None:
            await self._answer(scope, receive, send)

        return answer

    async def check_health(self) -> None:
        """Raise where the server cannot encode; then Ray Serve begins another replica."""
        if (code := self._server.poll()) is not None:
            message = f"the replica's server has ended: exit code {code}"
            raise UnavailableError(message)
        timeout = aiohttp.ClientTimeout(total=HEALTH_PATIENCE / 2)
        async with self._forwarding.session().get("http://localhost/health", timeout=timeout) as answer:
            if answer.status != 200:
                message = f"the replica is not healthy: {await answer.text()}"
                raise UnavailableError(message)

    async def processes(self) -> dict[str, Any]:
        """Which replica this is: `node`, its process `replica` and its `server`'s, and the `model`."""
        node = ray.get_runtime_context().get_node_id()
        return {"node": node, "replica": os.getpid(), "server": self._server.pid, "model": self._model}

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
        elif not self._keeps_documents and scope["path"].removeprefix(scope.get("root_path", "")).startswith(
            "/documents/"
        ):
            message = "each replica would keep documents for itself; send texts, or deploy with max_replicas=1"
            await refuse(send, NotFoundError(message), "not_found")
        else:
            await self._forwarding(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await self._forwarding.close()
        await asyncio.to_thread(self._end)
        await send({"type": "lifespan.shutdown.complete"})

    def _end(self) -> None:
        """End the server, which Ray Serve asks nothing any more; and, whatever becomes of this process, it ends with it."""
        self._server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(END_PATIENCE)
        self._server.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def build(options: dict[str, Any] | None = None) -> serve.Application:
    """The server's application, for ``serve run pullquote.ray:build name=value …``, a configuration file or `serve.run`.

    `options` are those of `PLACES`, and of ``pullquote serve`` by their names (`model`, `dtype`, `api_key`, `max_body_bytes`, …)
    but where it listens and its devices and threads, which are Ray's to give. Documents can be stored where there is one replica
    only. Raises `InvalidArgumentError` for what there is not.
    """
    wanted = dict(options or {})
    places = {name: float(wanted.pop(name, value)) for name, value in PLACES.items()}
    told = _told(wanted)
    if places["min_replicas"] > places["max_replicas"]:
        message = "min_replicas must be at most max_replicas"
        raise InvalidArgumentError(message)
    deployment = PullquoteServer.options(  # type: ignore[attr-defined] # made by the decorator
        ray_actor_options={"num_cpus": places["num_cpus"], "num_gpus": places["num_gpus"]},
        max_ongoing_requests=int(places["max_ongoing_requests"]),
        max_queued_requests=int(places["max_queued_requests"]),
        autoscaling_config={
            "min_replicas": int(places["min_replicas"]),
            "initial_replicas": int(places["min_replicas"]),
            "max_replicas": int(places["max_replicas"]),
            "target_ongoing_requests": places["target_ongoing_requests"],
        },
        health_check_period_s=HEALTH_PERIOD,
        health_check_timeout_s=HEALTH_PATIENCE,
    )
    application: serve.Application = deployment.bind(told, keeps_documents=places["max_replicas"] == 1)
    return application


def _told(wanted: dict[str, Any]) -> list[str]:
    """The options of ``pullquote serve``, which are checked here and not by each replica."""
    told: list[str] = []
    for name, value in wanted.items():
        if name in NOT_TO_SAY:
            message = f"{name} is Ray's to say; leave it out"
            raise InvalidArgumentError(message)
        option = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list) else [value]
        told += [option] * bool(value) if isinstance(value, bool) else [f"{option}={one}" for one in values]
    _cli.check(["serve", *told])
    return told


app = build()
