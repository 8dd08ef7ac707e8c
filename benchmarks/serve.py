"""How long `instep serve` keeps one waiting: 100 runs of 100,000 rows each. `python benchmarks/serve.py [RUNS] [ROWS]`

Aims: the list and the page of a run within 1 s, a new point within 2 s. Needs the extra `serve`. The first page of a run is
measured cold: its history was not read before.
"""

import http.client
import json
import math
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn

from instep.report.live.app import make_app
from instep.report.live.index import Index


def row(step: int) -> dict[str, object]:
    clock = {"samples_per_s": 1e4 + step % 97, "waiting": 0.01, "seconds": step / 50, "memory_bytes": 10**9}
    values = {
        "loss": 1 / math.sqrt(step),
        "lr": 0.1 / step,
        "momentum": 0.9,
        "grad_norm": 1 + math.sin(step),
        "clipped": step % 3,
    }
    return {"kind": "update", "step": step, "epoch": step // 1000, **values, "clock": clock}


def make_runs(folder: Path, runs: int, rows: int) -> None:
    """All histories are one file under many names, but for the last, which is written to."""
    text = "".join(json.dumps(row(step)) + "\n" for step in range(1, rows + 1))
    for number in range(runs):
        run = folder / f"run-{number:03}"
        run.mkdir(parents=True)
        said = {"title": "MLP", "hyper_parameters": {"lr": number / 1000}, "status": {"state": "running", "step": rows}}
        (run / "run.json").write_text(json.dumps(said))
        if number in (0, runs - 1):
            (run / "history.jsonl").write_text(text)
        else:
            os.link(folder / "run-000" / "history.jsonl", run / "history.jsonl")


def get(port: int, path: str) -> float:
    """Seconds until all of an answer is here."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    assert connection.getresponse().read()
    connection.close()
    return time.perf_counter() - began


def new_point(port: int, run: Path, step: int) -> float:
    """Seconds from a row in the file to a document that has it, as a browser fetches it."""
    get(port, f"/report?run={run.name}")
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"/events?run={run.name}")
    events = connection.getresponse()
    while b"ready" not in events.readline():
        pass
    time.sleep(1.0)
    began = time.perf_counter()
    with open(run / "history.jsonl", "a") as file:
        file.write(json.dumps(row(step)) + "\n")
    while b"changed" not in events.readline():
        pass
    get(port, f"/document?run={run.name}")
    taken = time.perf_counter() - began
    connection.close()
    return taken


def main() -> None:
    runs, rows = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (100, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder), runs, rows)
        import instep.run.options  # noqa: F401  # as the command does before it listens

        server = uvicorn.Server(
            uvicorn.Config(make_app(Index(Path(folder))), port=0, log_level="error", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        last = f"run-{runs - 1:03}"
        print(f"{runs} runs of {rows:,} rows")
        print(f"  the list, the first time   {get(port, '/'):6.2f} s")
        print(f"  the list, again            {get(port, '/'):6.2f} s")
        print(f"  a run, the first time      {get(port, '/report?run=run-001'):6.2f} s")
        print(f"  a run, again               {get(port, '/report?run=run-001'):6.2f} s")
        print(f"  five runs together         {get(port, '/report?' + '&'.join(f'run=run-00{n}' for n in range(5))):6.2f} s")
        print(f"  a new point                {new_point(port, Path(folder) / last, rows + 1):6.2f} s")
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
