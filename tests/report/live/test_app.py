"""The server, and its pages in a real browser."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

import told
from browser import Browser

pytest.importorskip("starlette", reason="starlette is not installed: instep serve was not tried")
uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed: instep serve was not tried")

from instep.report.live import index as index_module  # noqa: E402
from instep.report.live.app import make_app  # noqa: E402
from instep.report.live.index import Index  # noqa: E402


@contextmanager
def serving(folder: Path, token: str | None = None) -> Iterator[int]:
    """A server in a thread; gives its port."""
    server = uvicorn.Server(
        uvicorn.Config(make_app(Index(folder), token), port=0, log_level="error", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(index_module, "LOOK_EVERY_S", 0.1)
    told.run_folder(tmp_path / "secret")
    told.run_folder(tmp_path / "runs" / "a", hyper_parameters={"lr": 0.1})
    told.run_folder(tmp_path / "runs" / "b", hyper_parameters={"lr": 0.01}, state="running")
    return tmp_path / "runs"


def ask(port: int, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


def test_only_runs_of_the_folder_are_shown(runs: Path) -> None:
    with serving(runs) as port:
        assert ask(port, "/report?run=a")[0] == 200
        assert ask(port, "/document?run=a&run=b")[0] == 200
        outside = [
            "../secret",
            "..%2fsecret",
            "a/../../secret",
            "/etc/passwd",
            str(runs.parent / "secret"),
            "%252e%252e/secret",
            "\x00",
            "nothing",
        ]
        for name in outside:
            for where in ("report", "document", "events"):
                assert ask(port, f"/{where}?run={quote(name, safe='%')}")[0] == 404, (where, name)
        for path in (
            "/../secret/run.json",
            "/%2e%2e/secret/run.json",
            "/a/run.json",
            "/run.json",
            "//etc/passwd",
            "/report/../../secret",
        ):
            assert ask(port, path)[0] == 404, path
        assert ask(port, "/report")[0] == 404
        assert ask(port, "/", Host="evil.example")[0] == 400


def test_nothing_can_be_sent(runs: Path) -> None:
    with serving(runs) as port:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request(method, "/report?run=a", body=b"x")
            assert connection.getresponse().status == 405
            connection.close()


def test_with_a_token_nobody_else_sees_anything(runs: Path) -> None:
    with serving(runs, token="secret-word") as port:
        for path in ("/", "/list", "/report?run=a", "/?token=wrong", "/?token="):
            status, text, _ = ask(port, path)
            assert (status, "run" in text) == (403, False), path
        assert ask(port, "/", Cookie="instep=wrong")[0] == 403
        status, _, headers = ask(port, "/?token=secret-word")
        assert status == 200
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert ask(port, "/list", Cookie=cookie.partition(";")[0])[0] == 200


def test_pages_have_their_policy(runs: Path) -> None:
    with serving(runs) as port:
        for path in ("/", "/report?run=a"):
            policy = ask(port, path)[2]["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "connect-src 'self'" in policy
            assert "unsafe" not in policy


def test_new_points_appear_while_a_run_trains(runs: Path, browser: Browser) -> None:
    with serving(runs) as port:
        page = browser.open(f"http://127.0.0.1:{port}/report?run=b")
        page.wait_for("page.panels[0].plot !== null && live.badge.textContent === 'live'")
        assert page.run("document.querySelector('.numbers dd').textContent") == "running"
        page.run("page.zoomAll({ min: 50, max: 100 })")
        row = {"kind": "update", "step": 370, "epoch": 3, "loss": 0.125, "lr": 0.1}
        with open(runs / "b" / "history.jsonl", "a") as file:
            file.write(json.dumps(row) + "\n")
        page.wait_for("page.panels[0].plot.data[0].includes(370)")
        assert page.run("page.panels[0].plot.data[1][page.panels[0].plot.data[0].indexOf(370)]") == 0.125
        assert page.run("page.panels[0].plot.scales.x.max") == 100  # what is looked at stays
        with open(runs / "b" / "history.jsonl", "a") as file:
            file.write(json.dumps(row | {"step": 380, "mine": 7.0}) + "\n")
        page.wait_for("page.panels.some((panel) => panel.spec.title === 'mine')")  # a new chart
        assert page.complaints == []
        page.close()


def test_the_list_filters_and_compares(runs: Path, browser: Browser) -> None:
    def names() -> list[str]:
        found: list[str] = page.run("[...document.querySelectorAll('tbody th')].map((one) => one.textContent)")
        return sorted(found)

    def filtered(text: str) -> list[str]:
        page.run(f"list.filter.value = {json.dumps(text)}; list.show()")
        return names()

    with serving(runs) as port:
        page = browser.open(f"http://127.0.0.1:{port}/")
        assert names() == ["a", "b"]
        assert filtered("lr=0.1") == ["a"]
        assert filtered("lr<0.05 running") == ["b"]
        assert filtered("lr>=0.01") == ["a", "b"]
        assert filtered("depth=2") == []
        assert filtered("") == ["a", "b"]
        told.run_folder(runs / "c")
        page.wait_for("document.querySelectorAll('tbody th').length === 3")
        page.run("document.querySelectorAll('input[type=checkbox]').forEach((box) => box.click())")
        page.run("list.compare.click()")
        page.wait_for("document.querySelector('h1')?.textContent === '3 runs'")
        assert page.complaints == []
        page.close()


def test_names_of_runs_stay_text(runs: Path, browser: Browser) -> None:
    name = "<img src=x onerror=window.hit=1>&\"'"
    told.run_folder(
        runs / name, title="</script><script>window.hit=1</script>", hyper_parameters={"<b>": "<script>window.hit=1</script>"}
    )
    with serving(runs) as port:
        page = browser.open(f"http://127.0.0.1:{port}/")
        assert name in page.run("[...document.querySelectorAll('tbody th')].map((one) => one.textContent)")
        page.run(f"[...document.querySelectorAll('tbody a')].find((one) => one.textContent === {json.dumps(name)}).click()")
        page.wait_for("document.querySelector('h1')?.textContent.startsWith('<img')")
        assert page.run("window.hit === undefined && document.images.length === 0")
        assert page.complaints == []
        page.close()
