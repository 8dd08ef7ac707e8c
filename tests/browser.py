"""A real browser for tests: Chromium without a window, spoken to over a pipe in its DevTools protocol. Needs no package."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-default-apps", "--mute-audio", "--hide-scrollbars",
    "--remote-debugging-pipe",
]  # fmt: skip
PATIENCE_S = 240.0  # a busy machine is no failure


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One Chromium; `open` gives a page in it."""

    def __init__(self, program: str) -> None:
        self._home = tempfile.mkdtemp(prefix="instep-chromium-")
        to_browser, own_end = _pipe()
        self._from, from_browser = _pipe()
        self._to = own_end
        arguments = [program, *FLAGS, f"--user-data-dir={self._home}", "about:blank"]
        nowhere = os.open(os.devnull, os.O_RDWR)
        wiring = [(os.POSIX_SPAWN_DUP2, nowhere, fd) for fd in (0, 1, 2)]
        wiring += [(os.POSIX_SPAWN_DUP2, to_browser, 3), (os.POSIX_SPAWN_DUP2, from_browser, 4)]
        self._pid = os.posix_spawn(program, arguments, os.environ, file_actions=wiring, setpgroup=0)
        for fd in (to_browser, from_browser, nowhere):
            os.close(fd)
        self._unread = b""
        self._asked = 0
        self._events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The answer to one message; what else arrives meanwhile is kept as events."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read(PATIENCE_S)
            if found.get("id") == self._asked:
                assert "error" not in found, f"{method}: {found['error']}"
                result: dict[str, Any] = found["result"]
                return result
            self._events.append(found)

    def events(self, session: str) -> list[dict[str, Any]]:
        return [event for event in self._events if event.get("sessionId") == session]

    def open(self, url: str, *, width: int = 1200, height: int = 900, dark: bool = False) -> "Page":
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, target, session).show(url, width=width, height=height, dark=dark)

    def close(self) -> None:
        for fd in (self._to, self._from):
            os.close(fd)
        deadline = time.monotonic() + 5
        while os.waitpid(self._pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.killpg(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                break
            time.sleep(0.05)
        shutil.rmtree(self._home, ignore_errors=True)

    def _read(self, patience_s: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._from], [], [], patience_s)
            assert ready, f"chromium said nothing for {patience_s:.0f} s"
            read = os.read(self._from, 1 << 20)
            assert read, "chromium has ended"
            self._unread += read
        message, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


class Page:
    """One tab, with what it said and asked for."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser, self._target, self._session = browser, target, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def show(self, url: str, *, width: int, height: int, dark: bool) -> "Page":
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")
        return self

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def run(self, script: str) -> Any:
        """The value of an expression, which JSON must be able to hold."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.run(condition):
            assert time.monotonic() < deadline, f"{condition} did not come true"
            time.sleep(0.02)

    def press(self, key: str, *, shift: bool = False, text: str = "") -> None:
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}
        said = {"key": key, "modifiers": 8 * shift, "windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        self.call("Input.dispatchKeyEvent", type="keyDown", **said, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **said)

    def mouse(self, kind: str, x: float, y: float, *, held: bool = False) -> None:
        """`kind` is Moved, Pressed or Released."""
        button = "left" if held or kind != "Moved" else "none"
        self.call("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, button=button, buttons=int(held), clickCount=1)

    def screenshot(self, path: Path, *, whole: bool = True) -> Path:
        self.run("page.panels?.forEach((panel) => panel.draw()), new Promise((done) => setTimeout(done, 300))")
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    @property
    def requests(self) -> list[str]:
        """The addresses of all that was asked for, the page itself and data in it left out."""
        sent = [event["params"]["request"]["url"] for event in self._seen("Network.requestWillBeSent")]
        return [url for url in sent[1:] if not url.startswith("data:")]

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the page, in the console and beyond."""
        self.run("1")  # what was said before this has arrived
        logged = [event["params"]["entry"]["text"] for event in self._seen("Log.entryAdded")]
        thrown = [str(event["params"]["exceptionDetails"]) for event in self._seen("Runtime.exceptionThrown")]
        printed = [str(event["params"]["args"]) for event in self._seen("Runtime.consoleAPICalled")]
        return logged + thrown + printed

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)

    def _seen(self, method: str) -> list[dict[str, Any]]:
        return [event for event in self._browser.events(self._session) if event["method"] == method]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("chromium is not installed: the page was not looked at (Debian: apt-get install chromium)")
    made = Browser(program)
    yield made
    made.close()


def _pipe() -> tuple[int, int]:
    """Both ends with numbers above those that the browser expects its own at."""
    ends = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in ends]
    for fd in ends:
        os.close(fd)
    return high[0], high[1]
