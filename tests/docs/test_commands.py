# SPDX-License-Identifier: BSD-3-Clause
"""Every command that README and the pages show runs: here, in another test, or it says why not.

A command of the program runs here, in a folder with the files that the pages speak of, unless
`ELSEWHERE` or `NOT_RUN` has it. Where a page shows what it prints, that is compared. Any other
command needs an entry, and its module, target, options and files must exist all the same.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import re
import runpy
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import click
import numpy as np
import pytest

from pairlearn.cli.program import program
from pairlearn.cli.running import run

ROOT = Path(__file__).parents[2]

#: How a command begins, and the test that runs it (where it takes long, on less); of several, the
#: longest beginning counts.
ELSEWHERE = {
    "pairlearn compare breast_cancer digits": (
        "cli/test_data_and_compare.py::test_compare_prints_stores_reports_and_goes_on"
    ),
    "python -m pairlearn.data list": (
        "cli/test_data_and_compare.py::test_data_sets_are_listed_and_fetched"
    ),
    "python examples/plot_bounds.py": "docs/test_site.py::test_gallery",
    "python examples/story.py": "docs/test_story.py::test_a_chapter",
    "pairlearn rate votes.csv --private": "cli/test_rate_private.py::test_votes",
    "pairlearn reproduce": "cli/test_reproduce.py::test_quick_on_a_shipped_set_writes_a_report",
    "pairlearn stream": "cli/test_stream.py::test_interrupted_and_resumed_is_the_same_model",
    "python examples/plot_same_bits.py": "docs/test_site.py::test_gallery",
    "python -m benchmarks.league": (
        "benchmarks/test_league.py::test_the_program_prints_a_line_for_each_task"
    ),
    "python -m benchmarks.survival_speed": "benchmarks/test_survival.py::test_the_programs_print",
}

IN_CI = "CI runs it (.ci/run, or a workflow)"
MINUTES = "it measures for minutes, and no test asserts a time"
NEEDS_DATA = "it needs a folder of data sets, and minutes"
NEEDS_DEVICE = "it needs a graphics processor, or hours"
BY_HAND = "a campaign of minutes to hours, begun by hand"
TEST = "it is a test; its files and names are looked up"
#: How a command begins, and why no test runs it.
NOT_RUN = {
    "pairlearn compare diabetes german.numer letter.scale ijcnn1": NEEDS_DATA,
    **dict.fromkeys(("make docs", "make test", "make test-thorough", "make test-torch"), IN_CI),
    "make demo": "it runs examples/story.py in an environment of its own",
    "python -m pairlearn.cli.warm_cache": "the Makefile runs it before the tests",
    "make bench": MINUTES,
    "make bench-private": "it installs other packages, and measures for hours",
    "make bench-survival": "it installs other packages, and measures for minutes",
    "pip install": "it needs a package index; `make dist` installs the wheel",
    "pytest": TEST,
    **{
        f"python -m benchmarks{name}": reason
        for reason, names in (
            (
                MINUTES,
                " --only|.concordance_coverage|.coverage|.entropy|"
                ".metric_buffers|.metric_learning|.private_metric|.sql|.survival_stack|.text",
            ),
            (
                NEEDS_DATA,
                ".beyond|.private_auc|.private_bounds|.private_networks|.private_probabilities|"
                ".private_tuning|.top_of_list",
            ),
            (NEEDS_DEVICE, ".deep_objectives|.neural|.neural_bars|.table1_on_device"),
        )
        for name in names.split("|")
    },
    "PAIRLEARN_DATA=DIR python -m benchmarks.many_classes": NEEDS_DATA,
    "PAIRLEARN_DATA=DIR python -m benchmarks.top_of_list": NEEDS_DATA,
    "python tests/test_stability.py": "it writes the list of public names anew",
}

BEGIN = re.compile(r"(?:[A-Z_]+=\S+ )*(?:pairlearn|python|make|pytest|pip) +\S")


def pages():
    """Yield the names and the texts of README and of the pages of the site."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if not {"_build", "auto_examples"} & set(path.parts):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def collected(text):
    """Yield the commands of a page: text, what it is shown to print, whether in a block."""
    for kind, block in re.findall(r"^```([^\n]*)\n(.*?)^```", text, re.S | re.M):
        whole = re.sub(r"\s*\\\n\s*", " ", block)
        if kind == "console":
            for part in re.split(r"^\$ ", whole, flags=re.M)[1:]:
                command, _, shown = part.partition("\n")
                yield command, shown, True
        elif kind != "python":
            yield from ((line, "", True) for line in whole.splitlines() if BEGIN.match(line))
    for span in re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)):
        command = " ".join(span.split())
        if BEGIN.match(command):
            yield command, "", False


COMMANDS = {name: list(collected(text)) for name, text in pages()}


def entry(command, register):
    """Return the entry of a register whose beginning is the longest, or None."""
    fits = [begin for begin in register if re.match(rf"{re.escape(begin)}(?![\w.-])", command)]
    return max(fits, key=len, default=None)


def words(command):
    """Return the arguments of a command, without what the shell does with its output."""
    found = shlex.split(command, comments=True)
    ends = [k for k, word in enumerate(found) if word in (">", "|")]
    return found[: min(ends, default=len(found))]


def parsed(arguments):
    """Return the command of the program that arguments ask for, and what is left for it."""
    command, context = program, click.Context(program)
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name!r}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    return command, arguments


def is_form(command, in_block):
    """Whether text names a command, or its form with words in capitals, and nothing to run."""
    arguments = words(command)[1:]
    if any(re.fullmatch(r"[A-Z]{2,}(\.\.\.)?", word) for word in arguments) or " | " in command:
        return not command.endswith("head -3")
    called, left = parsed(arguments)
    if "--help" in left:
        return False
    if isinstance(called, click.Group) or not left:
        return not in_block
    try:
        called.make_context("pairlearn", list(left))
    except click.MissingParameter:
        return not in_block
    except click.ClickException:
        return False  # what is wrong with it is said where it runs
    return False


def _table(path, head, rows, delimiter=","):
    lines = [head, *rows] if head else rows
    text = "".join(delimiter.join(map(str, line)) + "\n" for line in lines)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as stream:
        stream.write(text)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return a folder with the small files that the pages speak of, and a model of customers."""
    duckdb = pytest.importorskip("duckdb", reason="needs the extra sql")
    pandas = pytest.importorskip("pandas", reason="needs the extra dask")
    folder = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copy(ROOT / "examples" / "customers.csv", folder)
    for name in ("test.csv", "january.csv", "new.csv"):
        shutil.copy(ROOT / "examples" / "new_customers.csv", folder / name)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).round(3)
    y = (X[:, 0] - X[:, 1] + rng.normal(size=300) > 0).astype(int)
    numbers = [(*row, label) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    _table(folder / "train.csv", ("a", "b", "c", "y"), numbers)
    _table(folder / "clicks.csv.gz", ("a", "b", "c", "target"), numbers)
    _table(folder / "export.csv", None, numbers, ";")
    # A file of public facts, as the page on the program has it, and two files of persons.
    text = dict(pages())["docs/program.md"]
    blocks = re.findall(r"^```toml\n(.*?)^```", text, re.S | re.M)
    (folder / "bounds.toml").write_text(next(block for block in blocks if "[features]" in block))
    age = (60 + 15 * X[:, 0]).round().clip(0, 110)
    persons = pandas.DataFrame(
        {
            "site": rng.choice(["Bern", "Oslo"], 300),
            "patient": np.arange(300) // 2,
            "age": age,
            "smoker": (X[:, 1] > 0).astype(int),
            "readmitted": np.where(y, "yes", "no"),
        }
    )
    for name in ("patients", "others"):
        persons.to_csv(folder / f"{name}.csv", index=False)
    frame = pandas.DataFrame(
        {"age": age, "city": persons["site"], "spent": X[:, 1], "bought": persons["readmitted"]}
    )
    with duckdb.connect(folder / "shop.duckdb") as shop:
        shop.register("frame", frame)
        shop.execute("CREATE TABLE visitors AS SELECT * FROM frame")
        shop.execute("CREATE TABLE new_visitors AS SELECT age, city, spent FROM visitors LIMIT 9")
    players = rng.integers(0, 5, (400, 2))
    votes = [(f"p{a}", f"p{b}", k // 4) for k, (a, b) in enumerate(players.tolist()) if a != b]
    _table(folder / "votes.csv", ("winner", "loser", "judge"), votes)
    battles = [(*vote[:2], rng.choice(["model_a", "model_b", "tie"]), vote[2]) for vote in votes]
    _table(folder / "battles.csv", ("model_a", "model_b", "winner", "user"), battles)
    (folder / "players.txt").write_text("".join(f"p{k}\n" for k in range(5)))
    model = str(folder / "customers.safetensors")
    arguments = ["train", str(folder / "customers.csv"), "--label", "churned", "-o", model]
    assert run(program, [*arguments, "--model", "linear"]) == 0
    shutil.copy(model, folder / "model.safetensors")
    return folder


NUMBER = re.compile(r"\d*\.\d+|\d+")


def compare(printed, shown):
    """Compare the lines that a command prints with those that a page shows."""
    for ours, theirs in zip(printed, shown, strict=True):
        # words to the letter, numbers to what another processor may change
        assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
        pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
        assert all(abs(float(a) - float(b)) <= 0.02 * (1 + abs(float(b))) for a, b in pairs)


def runs_here(command, in_block):
    """Whether a command is one of the program that no entry has, and no form."""
    known = entry(command, {**ELSEWHERE, **NOT_RUN}) is not None
    return command.startswith("pairlearn ") and not known and not is_form(command, in_block)


def sessions():
    """Return what each page runs: a command that several pages show is run on the first."""
    found, seen = {}, {}
    for page, commands in COMMANDS.items():
        for command, shown, in_block in commands:
            if runs_here(command, in_block):
                if command not in seen:
                    found.setdefault(page, []).append(command)
                seen[command] = seen.get(command) or shown
    return found, seen


SESSIONS, SHOWN = sessions()


def test_pages_show_the_same_of_one_command():
    for page, commands in COMMANDS.items():
        for command, shown, _ in commands:
            assert not shown or shown == SHOWN.get(command), f"{page}: {command}"


@pytest.mark.parametrize(
    "page",
    # the first screen in every run
    [pytest.param(p, marks=() if p == "README.md" else pytest.mark.thorough) for p in SESSIONS],
)
def test_commands_of_a_page_run_in_their_order(page, prepared, tmp_path, monkeypatch, capfdbinary):
    here = shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(here)
    for command in SESSIONS[page]:
        status = run(program, words(command)[1:])
        out, err = capfdbinary.readouterr()
        assert status == 0, f"{page}: {command}: {err.decode()}"
        if SHOWN[command]:
            n_lines = int(command.rpartition("-")[2]) if "| head -" in command else None
            compare(out.decode().splitlines()[:n_lines], SHOWN[command].splitlines())


def helps(command=program, name="pairlearn"):
    """Yield the name and the help of each command of the program."""
    yield name, command.help or ""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            yield from helps(command.get_command(context, inner), f"{name} {inner}")


def test_commands_of_the_program_exist_with_their_options():
    shown = [(page, command) for page, found in COMMANDS.items() for command, _, _ in found]
    for name, text in helps():
        lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
        shown += [(name, line.strip()) for line in lines if BEGIN.match(line.strip())]
    ours = [(page, command) for page, command in shown if command.startswith("pairlearn ")]
    assert len(ours) > 100
    for page, command in ours:
        called, left = parsed([word for word in words(command)[1:] if word != "COMMAND"])
        if isinstance(called, click.Group):
            assert left in ([], ["--help"]), f"{page}: {command}"
            continue
        known = {name for one in called.params for name in one.opts} | {"--help"}
        asked = {word.partition("=")[0] for word in left if word.startswith("--")}
        assert asked <= known, f"{page}: {command} has {asked - known}"


def test_every_other_command_has_an_entry():
    for page, found in COMMANDS.items():
        for command, _, _ in found:
            known = entry(command, {**ELSEWHERE, **NOT_RUN})
            assert command.startswith("pairlearn ") or known, (
                f"{page} shows `{command}`, which no test runs: say in ELSEWHERE which does, or in "
                "NOT_RUN why none can"
            )


def test_entries_are_needed_and_tests_that_they_name_exist():
    shown = [command for found in COMMANDS.values() for command, _, _ in found]
    register = {**ELSEWHERE, **NOT_RUN}
    used = {entry(command, register) for command in shown}
    assert set(register) <= used, f"no page shows {sorted(set(register) - used)}"
    for where in ELSEWHERE.values():
        path, _, name = where.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), where


class Parsed(Exception):  # noqa: N818 -- it says that arguments were understood
    """Ends a program when its arguments are read."""


@pytest.fixture
def reads_arguments_only(monkeypatch):
    """Let programs of the repository end when they have read their arguments."""
    read = argparse.ArgumentParser.parse_args

    def parse_args(parser, arguments=None, namespace=None):
        read(parser, arguments, namespace)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)


def modules():
    """Yield the module and the arguments of each ``python -m`` of a page, also by way of make."""
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8")
    for found in COMMANDS.values():
        for command, _, _ in found:
            called = words(re.sub(r"^[A-Z_]+=\S+ ", "", command))
            if called[:2] == ["python", "-m"] and called[2] != "pytest":
                yield called[2], tuple(called[3:])
            if called[0] == "make" and len(called) == 3:
                recipe = re.search(rf"^{called[1]}:.*\n((?:\t.*\n)+)", recipes, re.M)[1]
                module = re.search(r"python -m (\S+) \$\(ARGS\)", recipe)[1]
                yield module, tuple(shlex.split(called[2].removeprefix("ARGS=")))


@pytest.mark.parametrize(("module", "arguments"), sorted(set(modules())))
def test_programs_understand_what_pages_ask_of_them(
    module, arguments, reads_arguments_only, monkeypatch
):
    monkeypatch.syspath_prepend(ROOT)
    assert importlib.util.find_spec(module) is not None
    if not arguments:
        return  # some take none, and would begin
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    for name in (module, f"{module}.__main__"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        with pytest.raises(Parsed):
            runpy.run_module(module, run_name="__main__")
    except ModuleNotFoundError as error:
        pytest.skip(f"{module} needs {error.name}")


def test_what_ci_runs_is_there():
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text += path.read_text(encoding="utf-8")
    for command in (command for command, reason in NOT_RUN.items() if reason == IN_CI):
        assert re.search(rf"\b{command}( |$)", text, re.M), command


def test_targets_of_make_extras_and_files_exist():
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["project"]["optional-dependencies"]
    for page, found in COMMANDS.items():
        for command, _, _ in found:
            called = words(command)
            if called[0] == "make":
                assert re.search(rf"^{called[1]}:", recipes, re.M), f"{page}: {command}"
            for extra in re.findall(r"\.\[([\w,]+)\]", command):
                assert set(extra.split(",")) <= set(extras), f"{page}: {command}"
            if "pytest" in called[:3]:
                for path in (ROOT / word for word in called if word.startswith("tests/")):
                    assert path.exists(), f"{page}: {command}"
                    files = path.rglob("test_*.py") if path.is_dir() else [path]
                    text = "".join(file.read_text(encoding="utf-8") for file in files)
                    wanted = called[called.index("-k") + 1] if "-k" in called else "def test_"
                    assert wanted in text, f"{page}: {command}"
                    assert "slow" not in called or "mark.slow" in text, f"{page}: {command}"
