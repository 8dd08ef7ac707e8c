"""The notebook among the examples, run by a real kernel: what its cells show, and how often they show it."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples" / "notebook.ipynb"


def test_the_notebook_is_committed_without_outputs() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert text.count('"outputs": []') == text.count('"cell_type": "code"') > 0
    assert text.count('"execution_count": null') == text.count('"cell_type": "code"')


@pytest.mark.slow  # a kernel that imports torch: 7 s of a processor
def test_what_its_cells_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    cells, messages = executed(tmp_path)
    values = [shown for cell in cells for shown in cell.outputs]
    assert [shown.output_type for shown in values] == [*["execute_result"] * 3, "display_data", *["execute_result"] * 3]
    trainer, test, schedule, fit, history, evaluation, figure = (shown.data for shown in values)

    assert "<table" in trainer["text/html"]
    assert "OneCycle" in trainer["text/html"]
    assert re.search(r"smoothed mean from 2\.\d+ to .*\(suggested\)", test["text/html"])
    assert schedule["text/html"].count("<svg") == 2

    updates = [content for place, kind, content in messages if kind == "update_display_data"]
    (first,) = [content for place, kind, content in messages if kind == "display_data"]
    assert 1 <= len(updates) < 100
    assert {content["transient"]["display_id"] for content in updates} == {first["transient"]["display_id"]}
    assert "progressbar" in first["data"]["text/html"]
    assert not [content for place, kind, content in messages if kind == "stream"]  # no line anywhere

    said = re.fullmatch(r"finished at step 184 after \S+, best valid/loss (\S+) in epoch 8 \(step (\d+)\)", fit["text/plain"])
    assert said, fit["text/plain"]
    best = f"best valid/loss {said[1]} at step {said[2]}"
    assert best in history["text/html"]
    assert best in history["text/plain"].replace(")", "")
    (curve,) = re.findall('aria-label="(Loss by step[^"]*)"', fit["text/html"])
    assert curve in history["text/html"]  # the live curve ends as the history has it
    (valid,) = re.findall(r"valid/loss from \S+ to ([\d.]+)", curve)
    assert f'<td style="text-align: right">{valid}</td>' in evaluation["text/html"]
    assert "image/png" in figure


def executed(folder: Path) -> tuple[list[Any], list[tuple[int, str, dict[str, Any]]]]:
    """Its cells of code, and the messages of the kernel, each with the place of its cell."""
    import nbformat
    from nbclient import NotebookClient

    messages: list[tuple[int, str, dict[str, Any]]] = []

    class Listening(NotebookClient):
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            messages.append((cell_index, msg["msg_type"], msg["content"]))
            return super().process_message(msg, cell, cell_index)

    found = nbformat.read(NOTEBOOK, as_version=4)
    path = os.pathsep.join(map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))))
    Listening(found, timeout=300, kernel_name="python3").execute(cwd=str(folder), env={**os.environ, "PYTHONPATH": path})
    return [cell for cell in found.cells if cell.cell_type == "code"], messages
