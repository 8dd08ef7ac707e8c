"""The server: five addresses that only read. What runs say reaches the browser as JSON and becomes text there."""

import asyncio
import hmac
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from instep.report.live.index import Index, Stamp
from instep.report.page.document import document
from instep.report.page.html import embedded, list_page, page, policy_of
from instep.run.history.follow import FollowedHistory
from instep.run.run_files import HISTORY, RecordedRun, read_run

LOOK_EVERY_S = 0.5  # for something new
MOST_ROWS = 4_000  # of a history that are parsed; longer ones keep the extremes of the loss
MOST_TOGETHER = 20  # runs on one page
MOST_KNOWN = 40  # runs that are kept in memory
LOCAL = ["127.0.0.1", "localhost", "[::1]"]


def make_app(index: Index, token: str | None = None) -> Starlette:
    """The application; with a token, whoever does not bring it sees nothing. Without one, only this machine is answered."""

    reader = Reader(index)

    async def show_list(request: Request) -> Response:
        return _html(list_page({"runs": await run_in_threadpool(index.lines)}))

    async def send_list(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(index.lines))

    async def show_runs(request: Request) -> Response:
        found = await run_in_threadpool(reader.document, _names(request))
        return _missing() if found is None else _html(page(found, live=True))

    async def send_document(request: Request) -> Response:
        found = await run_in_threadpool(reader.document, _names(request))
        return _missing() if found is None else Response(embedded(found), media_type="application/json")

    async def send_events(request: Request) -> Response:
        names = _names(request)
        if any(index.path(name) is None for name in names):
            return _missing()
        return StreamingResponse(
            _changes(index, names, request), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    guard = Middleware(TokenGuard, token=token) if token is not None else Middleware(TrustedHostMiddleware, allowed_hosts=LOCAL)
    handlers = {"/": show_list, "/list": send_list, "/report": show_runs, "/document": send_document, "/events": send_events}
    return Starlette(routes=[Route(path, handler) for path, handler in handlers.items()], middleware=[guard])


class TokenGuard:
    """Lets those through who bring the token in the address or, from then on, in a cookie."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if self._is_right(given):
            await self._app(scope, receive, self._with_cookie(send))
        elif self._is_right(Request(scope).cookies.get("instep", "")):
            await self._app(scope, receive, send)
        else:
            refused = PlainTextResponse("The token is missing or wrong; open the address that instep serve printed.", 403)
            await refused(scope, receive, send)

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _with_cookie(self, send: Send) -> Send:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                cookie = f"instep={self._token}; HttpOnly; SameSite=Strict; Path=/"
                message = {**message, "headers": [*message["headers"], (b"set-cookie", cookie.encode())]}
            await send(message)

        return sending


def _names(request: Request) -> list[str]:
    return list(dict.fromkeys(request.query_params.getlist("run")))[:MOST_TOGETHER]


class Reader:
    """Reads runs, and of those that it knows only what is new. Used from several threads."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, KnownRun] = {}
        self._lock = threading.Lock()

    def document(self, names: list[str]) -> dict[str, Any] | None:
        """What a page shows; None where one of the names is no run."""
        runs = [self._run(name) for name in names]
        found = [run for run in runs if run is not None]
        if not runs or len(found) < len(runs):
            return None
        shown = document(found)
        for name, run in zip(names, shown["runs"], strict=True):
            if self._index.is_running(name):
                run["state"] = run["numbers"][0][1] = "running"  # which a folder alone does not tell
        return shown

    def _run(self, name: str) -> RecordedRun | None:
        path, stamp = self._index.path(name), self._index.stamp(name)
        if path is None:
            return None
        with self._lock:
            known = self._known.pop(name, None) or KnownRun(FollowedHistory(path / HISTORY, MOST_ROWS))
            if known.run is None or known.stamp != stamp:
                known.stamp, known.run = stamp, read_run(path, read=known.history.read)
            self._known[name] = known  # as the last one
            while len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            return known.run


@dataclass
class KnownRun:
    """A run that was read, and what it had written then."""

    history: FollowedHistory
    stamp: Stamp = ()
    run: RecordedRun | None = None


async def _changes(index: Index, names: list[str], request: Request) -> AsyncIterator[str]:
    """An event whenever one of these runs, or without names any run, has written something."""

    def look() -> str:
        return json.dumps([index.stamp(name) for name in names] if names else index.stamps())

    before = await run_in_threadpool(look)
    yield "retry: 1000\nevent: ready\ndata: 1\n\n"
    while not await request.is_disconnected():
        await asyncio.sleep(LOOK_EVERY_S)
        now = await run_in_threadpool(look)
        if now != before:
            before = now
            yield "event: changed\ndata: 1\n\n"


def _missing() -> Response:
    return PlainTextResponse("There is no such run here.", 404)


def _html(text: str) -> Response:
    headers = {
        "Content-Security-Policy": policy_of(text),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(text, headers=headers)
