"""Tables for notebooks."""

from html.parser import HTMLParser

from instep.drawing.html import confusion_matrix, paragraph, table
from instep.records import Evaluation


class Cells(HTMLParser):
    """The words of each row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1].append(data)


def test_a_table() -> None:
    text = table(("name", "value"), [("a", "1"), ("<b>", "2")], left=("name",), bold=[1])
    assert Cells(text).rows == [["name", "value"], ["a", "1"], ["<b>", "2"]]
    assert "&lt;b&gt;" in text
    assert text.count("font-weight: bold") == 1
    assert text.count("text-align: left") == 3


def test_no_words_are_no_paragraph() -> None:
    assert (paragraph(""), paragraph("a & b")) == ("", "<p>a &amp; b</p>")


def test_an_evaluation_is_a_table_and_its_confusion_matrix_another() -> None:
    evaluation = Evaluation({"valid/loss": 0.25, "valid/<i>": 0.5}, 120, 1, {"valid/confusion_matrix": [[9, 1], [0, 1234]]})
    text = evaluation._repr_html_()
    assert [row[:2] for row in Cells(text).rows[:3]] == [["value"], ["valid/loss", "0.2500"], ["valid/<i>", "0.5000"]]
    assert ["0", "9", "1"] in Cells(text).rows
    assert "1,234" in text
    assert "epoch 1, step 120" in text
    assert "<i>" not in text


def test_a_matrix_that_is_too_large_or_of_labels_is_left_out() -> None:
    assert confusion_matrix("m", [[1] * 21] * 21) == confusion_matrix("m", [[[1, 0], [0, 1]]]) == confusion_matrix("m", []) == ""
