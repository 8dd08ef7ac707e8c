"""The plan as text."""

import xml.etree.ElementTree as ET

from instep.report.plan import render, render_html
from told import plan


def test_a_plan_reads_well_at_80_columns() -> None:
    rows = (
        ("model", "Classifier, 12,362 parameters (all trained), 0.05 MB in float32"),
        ("updates", "23 an epoch, 230 in all (the last batch of an epoch has 29 samples, none are dropped)"),
        ("device", "cpu: no accelerator was found"),
    )
    notes = ("AdamW(…, fused=True) would save about 31 µs an update on this device, so it may be worth a try.", "short")
    assert render(plan(title="digits", rows=rows, notes=notes)) == (
        "digits\n"
        "  model    Classifier, 12,362 parameters (all trained), 0.05 MB in float32\n"
        "  updates  23 an epoch, 230 in all (the last batch of an epoch has 29 samples,\n"
        "           none are dropped)\n"
        "  device   cpu: no accelerator was found\n"
        "\n"
        "note: AdamW(…, fused=True) would save about 31 µs an update on this device, so\n"
        "      it may be worth a try.\n"
        "note: short"
    )


def test_a_plan_without_notes_or_rows() -> None:
    assert render(plan(rows=())) == "digits"


def test_a_plan_in_a_notebook_is_tables() -> None:
    modules = (("module", "type", "parameters"), ("0", "Linear", "330"))
    text = render_html(plan(rows=(("model", "MLP <b>"), ("seed", "0")), notes=("a & b",), modules=modules))
    rows = [[cell.text or "" for cell in row] for row in ET.fromstring(text).iter("tr")]
    assert rows == [["", "digits"], ["model", "MLP <b>"], ["seed", "0"], list(modules[0]), list(modules[1])]
    assert text.endswith("<p>note: a &amp; b</p></div>")
    assert render_html(plan(rows=())).count("<table") == 1
