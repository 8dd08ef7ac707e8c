"""`instep doctor SCRIPT.py ARGS…`: runs somebody's training unchanged and names its mistakes.

The doctor's own options stand before the script; what follows is the script's. Nothing here imports torch.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from instep.cli.border import WrongUse
from instep.doctor.catalogue import CATALOGUE, FAMILIES
from instep.doctor.settings import Settings, from_pyproject, known
from instep.text import PROSE, fold_for, paint_for, plural, terminal_width, wants_colour

if TYPE_CHECKING:
    from instep.doctor.confirm import Comparison
    from instep.doctor.finding import Finding
    from instep.doctor.launch import Outcome
    from instep.doctor.second_run import Command

USAGE = """\
usage: instep doctor [options] SCRIPT.py [ARGS…]
       instep doctor [options] -m MODULE [ARGS…]
       instep doctor --list
       instep doctor --explain ID
       instep doctor --symptom ["loss is constant"]

Run a training script unchanged, watch it, and say what is wrong with it: the mistake by name, the evidence, the line, the fix.
The script's arguments, output, exit code and weights stay what they are.

options, before the script:
  --json FILE            write the findings there as they appear
  --sarif FILE           the same for code-review tools
  --html FILE            at the end, a page with the source lines, the evidence and the loss
  --fail-on error|warning  exit with 3 where there is such a finding (a warning: or worse)
  --baseline FILE        findings that are in this file are known: they are listed, and fail nothing
  --write-baseline       write what this run found to that file (.instep-doctor.json where none is named); other runs keep theirs
  --ignore ID            leave this finding out; may be given several times
  --strict               count hints as warnings, and ask for fewer occasions before speaking
  --no-probes            never run a model's forward once more, on copies, to see what influences what
  --confirm              run it once more with the fixes applied in memory, in a copy of the folder, and show both losses
  --confirm-here         the same in the folder itself: what the script writes is written once more
  --list                 every finding that there is
  --explain ID           what it means, why it matters, wrong and right code, when it is fine, an experiment
  --symptom WORDS        what may be behind a symptom, with the question that tells each apart; alone, all symptoms

A line of the script that ends in `# instep: ignore[ID] reason` is left alone, or one under such a comment. Defaults for ignore,
fail-on, baseline, strict and probes can stand in [tool.instep.doctor] of pyproject.toml."""
NARROW = 90  # columns of a terminal that has no room for ids and titles side by side
VALUED = ("--json", "--sarif", "--html", "--fail-on", "--baseline", "--ignore", "--explain", "--symptom")
FLAGS = ("--strict", "--no-probes", "--write-baseline", "--confirm", "--confirm-here", "--list", "--help", "-h")
CONFIRM = {"--confirm", "--confirm-here"}


@dataclass
class DoctorOptions:
    """What stood on the command line."""

    values: dict[str, list[str]] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    target: str | None = None
    module: bool = False
    arguments: list[str] = field(default_factory=list)

    def last(self, name: str) -> str | None:
        return self.values[name][-1] if name in self.values else None


def run(arguments: Sequence[str]) -> int:
    """Watch a script, or teach; returns the script's exit code, or 3 where --fail-on is met."""
    given = parse(arguments)
    if given.flags & {"--help", "-h"}:
        print(fold_for(sys.stdout, USAGE))
        return 0
    if "--list" in given.flags:
        print(fold_for(sys.stdout, listing(narrow=(terminal_width(sys.stdout) or PROSE) < NARROW)))
        return 0
    explained = given.last("--explain")
    if explained is not None:
        print(explanation(explained))
        return 0
    if "--symptom" in given.values:
        print(answer_symptom(given.values["--symptom"][-1]))
        return 0
    if given.target is None:
        raise WrongUse("instep doctor needs a script: instep doctor train.py --epochs 3. See instep doctor --help.")
    if not given.module and not Path(given.target).exists():
        raise WrongUse(f"there is no file {given.target}.")
    return watch(given)


def watch(given: DoctorOptions) -> int:
    """Run the script under the doctor, and what was asked for besides."""
    from instep.doctor.launch import Outcome
    from instep.doctor.launch import run as launch

    assert given.target is not None
    command = note_command(given)
    wanted, html = settings(given), place_of(given, "--html")
    baseline = baseline_to_write(given)

    def then(outcome: Outcome) -> None:
        if baseline is not None:
            write_known(baseline, run_name(given), outcome)
        elif wanted.baseline is not None:
            say_gone(Path(wanted.baseline), given, outcome)
        comparison = None
        if command is not None and given.flags & CONFIRM:
            comparison = confirm(command, outcome, here="--confirm-here" in given.flags)
        if command is not None and html is not None:
            from instep.cli.doctor_page import write_page

            write_page(Path(html), command, outcome, wanted, comparison)

    return launch(wanted, given.target, given.arguments, module=given.module, then=then)


def note_command(given: DoctorOptions) -> "Command | None":
    """How the script is started, before it can change anything; None where nobody will ask."""
    if not given.flags & CONFIRM and given.last("--html") is None:
        return None
    from instep.doctor.second_run import Command, check_size

    assert given.target is not None
    command = Command.of_now(given.target, given.arguments, module=given.module)
    if "--confirm" in given.flags and "--confirm-here" not in given.flags:
        check_size(command)
    return command


def run_name(given: DoctorOptions) -> str:
    """The run as it was typed, by which the baseline keeps its findings apart from those of others."""
    assert given.target is not None
    target = given.target if given.module else os.path.normpath(given.target)
    return shlex.join([*(["-m"] if given.module else []), target, *given.arguments])


def write_known(path: Path, run: str, outcome: "Outcome") -> None:
    """Write the baseline, and say so; not of a run that did not get to its end, which has not found everything."""
    from instep.doctor.baseline import write_baseline

    if outcome.code or not outcome.steps:
        why = f"the script ended with exit code {outcome.code}" if outcome.code else "nothing was trained"
        say(f"the baseline was not written: {why}.")
        return
    count = write_baseline(path, {run: outcome.findings})
    say(f"wrote {plural(count, 'finding')} of {run} to {path}; with --baseline they fail nothing.")


def say_gone(path: Path, given: DoctorOptions, outcome: "Outcome") -> None:
    """Say that findings of the baseline are gone, after a run that looked for all of them."""
    from instep.doctor.baseline import count_gone, gone_text

    looked_for_less = outcome.code or not outcome.steps or "--ignore" in given.values or "--no-probes" in given.flags
    if not looked_for_less and (gone := count_gone(path, {run_name(given): outcome.findings})):
        say(gone_text(gone))


def confirm(command: "Command", outcome: "Outcome", *, here: bool) -> "Comparison | None":
    """The second run, and both curves beside each other; None where there is nothing to try."""
    from instep.doctor.confirm import Comparison, can_be_tried, to_be_measured
    from instep.doctor.curves import read_curves
    from instep.doctor.second_run import run_again

    tried, untried = can_be_tried(outcome.findings)
    if not tried:
        say(_nothing_to_confirm(untried))
        return None
    measured = to_be_measured(tried)
    times = "twice, as it is and with the fix," if measured else "with the fix"
    where = "in place: it writes its files once more" if here else "in a copy of the folder, its output hidden"
    say(f"running again {times} {where} …")
    before = read_curves(outcome.folder)
    if measured:
        before = run_again(command, measured, outcome.folder, here=here, measures_only=True).curves
    run = run_again(command, tried, outcome.folder, here=here)
    comparison = Comparison(tried, untried, before, run)
    width = min(terminal_width(sys.stderr) or 80, PROSE)
    print("\n" + comparison.render(width=width, paint=paint_for(sys.stderr)), file=sys.stderr)
    return comparison


def say(text: str) -> None:
    """A line after the report."""
    print(f"\n{fold_for(sys.stderr, f'instep doctor: {text}')}", file=sys.stderr, flush=True)


def _nothing_to_confirm(untried: "Sequence[Finding]") -> str:
    if not untried:
        return "there is no error or warning whose fix could be tried."
    names = ", ".join(sorted({finding.id for finding in untried}))
    return f"{names} cannot be changed in memory; change the script as it says, and run it again."


def parse(arguments: Sequence[str]) -> DoctorOptions:
    """The doctor's options up to the script; what follows is not ours to read."""
    given, rest = DoctorOptions(), list(arguments)
    while rest:
        first = rest.pop(0)
        name, equals, value = first.partition("=")
        if first == "-m":
            if not rest:
                raise WrongUse("-m needs the name of a module: instep doctor -m package.train.")
            given.target, given.module, given.arguments = rest[0], True, rest[1:]
            break
        if name in VALUED:
            if name == "--symptom":  # the rest are words of it, also without quotes
                value, equals, rest = " ".join([*filter(None, [value]), *rest]), "=", []
            if not equals and not rest:
                raise WrongUse(f"{name} needs a value. See instep doctor --help.")
            given.values.setdefault(name, []).append(value if equals else rest.pop(0))
        elif first in FLAGS:
            given.flags.add(first)
        elif first.startswith("-"):
            raise WrongUse(
                f"instep doctor has no option {first}; options of the script stand behind it. See instep doctor --help."
            )
        else:
            given.target, given.arguments = first, rest
            break
    return given


def start_of(given: DoctorOptions) -> Path:
    """The folder at or above which pyproject.toml is looked for."""
    return Path.cwd() if given.module else Path(given.target or "").resolve().parent


def settings(given: DoctorOptions) -> Settings:
    """From the command line, over those of pyproject.toml."""
    assert given.target is not None
    start = start_of(given)
    found = from_pyproject(start)
    found["ignore"] = (*found.get("ignore", ()), *given.values.get("--ignore", ()))
    if "--strict" in given.flags:
        found["strict"] = True
    if "--no-probes" in given.flags:
        found["probes"] = False
    if (fail_on := given.last("--fail-on")) is not None:
        found["fail_on"] = fail_on
    for name in ("json", "sarif"):
        found[name] = place_of(given, f"--{name}")
    found["baseline"] = baseline_to_read(given, found.get("baseline"))
    if "--write-baseline" in given.flags:
        found["fail_on"] = None
    if given.last("--html") is not None or given.flags & CONFIRM:
        found["curves"] = "all" if given.flags & CONFIRM else "training"
    found["roots"] = () if given.module else (str(start) + os.sep,)
    return Settings(**found)


def place_of(given: DoctorOptions, name: str) -> str | None:
    """The whole path of a file that will be written; None where it was not asked for."""
    path = given.last(name)
    if path is not None and not Path(path).resolve().parent.is_dir():
        raise WrongUse(f"{name} {path}: there is no folder {Path(path).parent}.")
    return os.path.abspath(path) if path is not None else None


def baseline_to_read(given: DoctorOptions, configured: str | None) -> str | None:
    """The baseline that findings are compared with; a file that cannot be read is an error before the script runs."""
    from instep.doctor.baseline import read_baseline

    path = place_of(given, "--baseline") or configured
    if path is None or "--write-baseline" in given.flags:
        return None
    read_baseline(Path(path))
    return path


def baseline_to_write(given: DoctorOptions) -> Path | None:
    """Where to write what was found; None where that was not asked for."""
    from instep.doctor.baseline import NAME, read_runs

    if "--write-baseline" not in given.flags:
        return None
    configured = from_pyproject(start_of(given)).get("baseline")
    path = Path(place_of(given, "--baseline") or configured or os.path.abspath(NAME))
    if path.exists():
        read_runs(path)  # an error before the script runs
    return path


def listing(*, narrow: bool = False) -> str:
    """Every id, by family; in a narrow terminal its title stands under it."""
    width = 0 if narrow else max(map(len, CATALOGUE))
    gap = "\n" + " " * 10 if narrow else "  "
    lines = []
    for family in FAMILIES:
        lines += ["", family]
        lines += [f"  {e.severity:<8}{e.id:<{width}}{gap}{e.title}" for e in CATALOGUE.values() if e.family == family]
    return "\n".join([*lines[1:], "", "instep doctor --explain ID tells more."])


def answer_symptom(words: str) -> str:
    """What may be behind it; without words, what one can ask for."""
    from instep.doctor.symptoms import find_symptoms, list_symptoms, render_symptoms

    paint = paint_for(sys.stdout)
    if not words.strip():
        return list_symptoms(paint=paint)
    return render_symptoms(find_symptoms(words), width=min(terminal_width(sys.stdout) or PROSE, PROSE), paint=paint)


def explanation(id: str) -> str:
    """The page of an id."""
    entry = CATALOGUE[known(id)]
    title = f"{entry.id} ({entry.severity}): {entry.title}"
    page = entry.page or "There is no page for it yet."
    if wants_colour(sys.stdout):
        from rich.console import Console
        from rich.markdown import Markdown

        console = Console(force_terminal=True, width=min(terminal_width(sys.stdout) or 80, PROSE))
        with console.capture() as capture:
            console.print(Markdown(f"# {title}\n\n{page}"))
        return capture.get()
    return fold_for(sys.stdout, f"{title}\n\n{page}")
