"""The commit of a checkout is read as git itself says it, without starting git."""

import subprocess
from pathlib import Path

import pytest

from instep.run import git_commit as module
from instep.run.git_commit import git_commit

AUTHOR = ["-c", "user.name=a", "-c", "user.email=a@b.c"]


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *AUTHOR, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GIT_DIR", raising=False)
    folder = tmp_path / "checkout"
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "some/branch")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "first")
    return folder


def read_without_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "_ask_git", lambda folder: "asked")
        return git_commit(folder)


def test_a_branch_that_is_packed_or_not_and_no_branch_at_all(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = git(checkout, "rev-parse", "HEAD")
    assert read_without_git(checkout / "inner", monkeypatch) == expected
    git(checkout, "pack-refs", "--all")
    assert not (checkout / ".git/refs/heads/some/branch").exists()
    assert read_without_git(checkout, monkeypatch) == expected
    git(checkout, "checkout", "--quiet", "--detach")
    assert read_without_git(checkout, monkeypatch) == expected


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_worktree(checkout: Path, tmp_path: Path, is_packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    git(checkout, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "--quiet", "--allow-empty", "--message", "second")
    if is_packed:
        git(checkout, "pack-refs", "--all")
    found = read_without_git(tmp_path / "tree", monkeypatch)
    assert found == git(tmp_path / "tree", "rev-parse", "HEAD") != git(checkout, "rev-parse", "HEAD")


def test_what_cannot_be_read_is_asked_for(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(checkout / ".git"))
    assert git_commit(checkout.parent) == expected
    monkeypatch.delenv("GIT_DIR")
    (checkout / ".git/HEAD").write_text("ref: refs/heads/.invalid\n")  # as a store that is not one of files has it
    assert read_without_git(checkout, monkeypatch) == "asked"


def test_where_there_is_none(checkout: Path, tmp_path: Path) -> None:
    assert git_commit(tmp_path) is None
    git(checkout, "checkout", "--quiet", "--orphan", "empty")
    assert git_commit(checkout) is None
