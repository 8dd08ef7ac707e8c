"""What the user wants of the doctor: options, pyproject.toml, comments in the source."""

from pathlib import Path

import pytest

from instep.doctor.finding import Finding
from instep.doctor.settings import Settings, from_pyproject, is_ignored_in_source
from instep.errors import DescriptionError


def finding(where: str | None = None, id: str = "missing-zero-grad") -> Finding:
    return Finding(id, "seen", where=where)


def test_an_unknown_id_names_one_like_it() -> None:
    with pytest.raises(DescriptionError, match=r"knows no 'missing-zero-grads'; did you mean missing-zero-grad\?"):
        Settings(ignore=("missing-zero-grads",))
    with pytest.raises(DescriptionError, match="fail-on is 'hint'; it can be 'error' or 'warning'"):
        Settings(fail_on="hint")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'nonsense' is not in the doctor's catalogue"):
        Finding("nonsense", "seen")


def test_strict_makes_warnings_of_hints() -> None:
    hint = finding(id="no-seed")
    assert hint.level == "hint"
    strict = Settings(strict=True, fail_on="warning")
    admitted = strict.admitted(hint)
    assert admitted is not None
    assert admitted.level == "warning"
    assert strict.fails([admitted])
    assert not strict.fails([hint])
    assert not Settings(fail_on="error").fails([admitted])
    assert Settings(ignore=("no-seed",)).admitted(hint) is None
    assert Settings.from_text(strict.text()) == strict


def test_a_comment_on_the_line_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    lines = [
        "opt.step()",
        "opt.step()  # instep: ignore[missing-zero-grad, no-seed]",
        "opt.step()  # instep: ignore",
        "# instep: ignore[no-seed]",
    ]
    path.write_text("\n".join(lines))
    assert [is_ignored_in_source(finding(f"{path}:{line}")) for line in (1, 2, 3, 4)] == [False, True, True, False]
    assert not is_ignored_in_source(finding(None))


def test_pyproject_above_the_script(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.instep.doctor]\nignore = ["no-seed"]\nfail-on = "error"\nstrict = true\n')
    (tmp_path / "src").mkdir()
    assert from_pyproject(tmp_path / "src") == {"ignore": ("no-seed",), "fail_on": "error", "strict": True}
    (tmp_path / "pyproject.toml").write_text("[tool.instep.doctor]\nskip = []\n")
    with pytest.raises(DescriptionError, match=r"\[tool.instep.doctor\] has no 'skip'; it takes ignore, strict, probes, fail-on"):
        from_pyproject(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.instep.doctor]\nignore = "no-seed"\n')
    with pytest.raises(DescriptionError, match="ignore must be a list, not 'no-seed'"):
        from_pyproject(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool")
    with pytest.raises(DescriptionError, match="cannot be read"):
        from_pyproject(tmp_path)
