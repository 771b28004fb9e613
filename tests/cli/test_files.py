# SPDX-License-Identifier: BSD-3-Clause
"""No command overwrites what it reads, writes one file twice, or replaces somebody else's file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from pairlearn.cli.program import COMMANDS, program
from pairlearn.cli.running import run
from pairlearn.cli.shared.paths import KINDS, FilePath

TRAIN = ["train", "d.csv", "--label", "y"]
STREAM = ["--fit", "stream"]


@pytest.fixture
def folder(tmp_path, made, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("d.csv", "m"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    (tmp_path / "soft.csv").symlink_to("d.csv")
    os.link(tmp_path / "d.csv", tmp_path / "hard.csv")
    (tmp_path / "sub").mkdir()
    return tmp_path


@pytest.fixture
def call(folder, capsys):
    def call(*arguments, status=0):
        assert run(program, [str(argument) for argument in arguments]) == status
        return capsys.readouterr()

    return call


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def refused(call, folder, *arguments):
    """Call a command that must refuse its files; return what it says."""
    before = contents(folder)
    err = call(*arguments, status=2).err
    assert err.count("\n") == 1
    assert contents(folder) == before
    return err


@pytest.mark.parametrize(
    "output",
    ["d.csv", "./d.csv", "sub/../d.csv", "soft.csv", "hard.csv", "{absolute}"],
)
@pytest.mark.parametrize("way", ["train", "stream", "predict", "again"])
def test_an_input_stays(call, folder, way, output):
    output = output.replace("{absolute}", str(folder / "d.csv"))
    arguments = {
        "train": [*TRAIN, "-o", output],
        "stream": [*TRAIN, *STREAM, "-o", "n", "--set", f"stream.checkpoint={output}"],
        "predict": ["predict", "m", "d.csv", "-o", output],
        # --force is about files of other programs, not about inputs
        "again": ["predict", "--force", "m", "d.csv", "-o", output],
    }[way]
    err = refused(call, folder, *arguments)
    assert "is a file that the command reads (DATA d.csv)" in err
    assert "name another file" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["predict", "m", "d.csv", "-o", "m"], "-o m is a file that the command reads (MODEL m)"),
        (["export", "m", "--to", "json", "-o", "m"], "reads (MODEL m)"),
        ([*TRAIN, "--config", "c.toml", "-o", "c.toml"], "reads (--config c.toml)"),
        ([*TRAIN, *STREAM, "-o", "f", "--set", "stream.checkpoint=f"], "are one file"),
        ([*TRAIN, *STREAM, "-o", "f", "--set", "stream.checkpoint=./sub/../f"], "are one file"),
        ([*TRAIN, *STREAM, "-o", "f.previous", "--set", "stream.checkpoint=f"], "are one file"),
        ([*TRAIN, *STREAM, "-o", "F", "--set", "stream.checkpoint=f"], "are one file"),
        (["stream", "--checkpoint", "f", "-o", "f"], "-o f are one file"),
        (["compare", "d.csv", "--label", "y", "--store", "d.csv"], "--store d.csv is a file that"),
        (["compare", "d.csv", "--label", "y", "--report", "."], "--report . is the folder of DATA"),
        (["evaluate", "m", "d.csv", "--report", "."], "--report . is the folder of DATA d.csv"),
        (["predict", "m", "d.csv", "-o", "-"], "-o - names no file"),
        ([*TRAIN, "-o", "-"], "-o - names no file"),
        (["train", "p", "--format", "parquet", "--label", "y", "-o", "p/new.parquet"],
         "-o p/new.parquet lies in the folder DATA p, whose files are read as data"),
        (["train", "d.c*", "--dask", "local", "--label", "y", "-o", "d.csv"],
         "is a file that the command reads (DATA d.csv)"),
    ],
)  # fmt: skip
def test_files_that_clash(call, folder, arguments, said):
    (folder / "p").mkdir()
    (folder / "p" / "old.parquet").write_bytes(b"PAR1")
    (folder / "c.toml").write_text('problem = "auc"\n')
    assert said in refused(call, folder, *arguments)


def test_the_output_in_a_config_file(call, folder):
    (folder / "c.toml").write_text('output = "d.csv"\nlabel = "y"\n')
    assert "reads (DATA d.csv)" in refused(call, folder, "train", "d.csv", "--config", "c.toml")


def test_standard_input_stays(call, folder, monkeypatch):
    """What `< log` gives is a file too; the output may not replace it."""
    line = '{"x": {"a": 1}, "y": 1}\n{"x": {"a": 2}, "y": 0}\n'
    (folder / "log").write_text(line)
    before = os.dup(0)
    file = os.open("log", os.O_RDONLY)
    try:
        os.dup2(file, 0)
        said = refused(call, folder, "stream", "-o", "log", "--force")
        assert "reads (standard input" in said
        said = refused(call, folder, "predict", "m", "-", "--format", "csv", "-o", "log", "--force")
        assert "reads (DATA -)" in said
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(file)


def program_in_a_shell(line):
    line = line.replace("pairlearn", f"{sys.executable} -m pairlearn")
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_standard_output_is_a_file_too(folder):
    before = contents(folder)
    done = program_in_a_shell("pairlearn predict m d.csv >> d.csv")
    assert done.returncode == 2
    assert "DATA d.csv is where standard output goes" in done.stderr
    done = program_in_a_shell("pairlearn train d.csv --label y -o /dev/stdout | cat")
    assert "-o /dev/stdout is where standard output goes too" in done.stderr
    assert done.stdout == ""
    assert contents(folder) == before
    done = program_in_a_shell("pairlearn predict m d.csv -o /dev/stdout > s.csv && cat s.csv")
    assert done.returncode == 0
    assert done.stdout.startswith("line,score,probability,label\n")


@pytest.mark.parametrize(
    ("arguments", "output", "kind"),
    [
        ([*TRAIN, "-o"], "x", "a model"),
        pytest.param(TRAIN, "d.safetensors", "a model", marks=pytest.mark.thorough),
        (["predict", "m", "d.csv", "-o"], "x", "a file of scores"),
        (["export", "m", "--to", "json", "-o"], "x", "an exported model"),
        (["stream", "-o"], "x", "a model"),
        pytest.param(["evaluate", "m", "d.csv", "--plot"], "x/roc.png", "a picture",
                     marks=pytest.mark.thorough),
    ],
)  # fmt: skip
def test_files_of_others_stay(call, folder, monkeypatch, arguments, output, kind):
    """Only a file that the same command wrote is replaced, and that is told; or with --force."""
    stream = b'{"x": {"a": 1}, "y": 1}\n{"x": {"a": 2}, "y": 0}\n'

    def again(*more, status=0):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stream)))
        return call(*arguments, *named, *more, status=status)

    named = [output.split("/")[0]] if arguments[-1].startswith("-") else []
    path = folder / output
    path.parent.mkdir(exist_ok=True)
    path.write_text("precious")
    before = contents(folder)
    err = again(status=2).err
    assert f"{output} exists and is not {kind} that this program wrote" in err
    assert "pass --force" in err
    assert contents(folder) == before
    written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
    assert f"pairlearn: replaced {output}, written {written}\n" in again("--force").err
    assert path.read_bytes() != b"precious"
    assert f"pairlearn: replaced {output}, written" in again().err
    path.write_bytes(b"")  # an empty file, as mktemp makes it, has nothing to lose
    assert f"replaced {output}" not in again().err


FOREIGN = [
    "line,amount\n1,3.5\n2,4.5\n",
    "line,station,score\n1,a,3.5\n",
    "line,label\n1,a\n",
    "line,debit,credit\n1,3.5,0.5\n",
    "line\n1\n",
    "line,\n",
    '{"line": 3, "speaker": "Romeo"}\n',
    "line,speaker,score\n3,Romeo,0.5\n",
    "line,speaker,score\n3,Romeo,0.50000000000001000\n",
    "line,speaker,a,b\n3,Romeo,0.25,0.75\n",
    "line,speaker,score\n",
    '{"line": 3',
]
OURS = [
    "line,score\n2,0.5\n",
    "line,score,probability,label\n2,0.5,0.6,yes\n",
    "line,prediction\n2,0.5\n",
    "line,z0,z1\n2,0.5,1.0\n",
    "line,score0,score1,score2,label\n2,0.5,1.0,1.0,a\n",
    "line,no,yes\n2,0.25,0.75\n",
    'line,"a,b",c\n2,0.25,0.75\n',
    'line,name,score,probability,label\n2,"A, B",0.7749502350397475,0.8981125383134013,yes\n',
    "line,id,no,yes\n2,C-1,0.1018874616865987,0.8981125383134013\n",
    '{"line": 2, "score": 0.5, "probability": 0.6, "label": 1}\n',
    '{"line": 2, "id": "C-1", "score": 0.7749502350397475}\n',
    '{"line": 2, "0": 0.25, "1": 0.75}\n',
]


@pytest.mark.parametrize("text", FOREIGN)
def test_a_table_of_others_with_a_column_line_stays(call, folder, text):
    (folder / "s.csv").write_text(text)
    assert "--force" in refused(call, folder, "predict", "m", "d.csv", "-o", "s.csv")


@pytest.mark.parametrize("text", OURS)
def test_scores_are_known_by_their_columns(text):
    assert KINDS["scores"][1](text.encode())


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("command", [("compare", "digits"), ("reproduce", "table1")])
def test_a_store_does_not_lie_where_the_page_goes(command, order, call, folder):
    """The page replaced the results of all cells."""
    pairs = [("--report", "page"), ("--store", "page/index.html")][::order]
    err = refused(call, folder, *command, *pairs[0], *pairs[1])
    assert "--store page/index.html lies in the folder of the page (--report page)" in err


def test_a_dry_run_replaces_nothing(call):
    assert "replaced" not in call(*TRAIN, "-o", "m", "--dry-run").err


@pytest.mark.thorough
def test_the_folder_of_a_page(call, folder):
    evaluate = ["evaluate", "m", "d.csv", "--report"]
    (folder / "mine").mkdir()
    (folder / "mine" / "roc.csv").write_text("precious")
    said = refused(call, folder, *evaluate, "mine")
    assert "--report mine holds roc.csv, which this program may not have written" in said
    (folder / "mine" / "roc.csv").rename(folder / "mine" / "notes.txt")
    call(*evaluate, "mine")
    call(*evaluate, "mine")
    (folder / "mine" / "index.html").write_text("<title>my page</title>")
    assert "holds" in refused(call, folder, *evaluate, "mine")
    call(*evaluate, "mine", "--force")
    assert (folder / "mine" / "notes.txt").read_text() == "precious"
    (folder / "mine" / "d.csv").write_bytes((folder / "d.csv").read_bytes())
    said = refused(call, folder, "evaluate", "m", "mine/d.csv", "--report", "mine", "--force")
    assert "--report mine is the folder of DATA mine/d.csv" in said


def test_a_fresh_start_spares_files_of_others(call, folder):
    (folder / "notes").write_text("precious")
    arguments = [*TRAIN, *STREAM, "-o", "n", "--set", "stream.checkpoint=notes"]
    assert "is not a checkpoint" in refused(call, folder, *arguments, "--set", "stream.fresh=true")
    call(*arguments, status=1)
    assert (folder / "notes").read_text() == "precious"
    (folder / "state.lock").write_text("precious")
    call(*TRAIN, *STREAM, "-o", "n", "--set", "stream.checkpoint=state", status=1)
    assert (folder / "state.lock").read_text() == "precious"


@pytest.mark.thorough
def test_pipes_devices_and_shared_folders(call, folder):
    call(*TRAIN, "-o", os.devnull)
    call(*TRAIN, *STREAM, "-o", os.devnull)
    (folder / "facts.toml").write_text(
        'label = "y"\nlabels = [0, 1]\n[features]\na = [-1, 1]\nb = [-1, 1]\n'
    )
    private = ["--private", "--epsilon", 1, "--delta", 1e-6, "--bounds", "facts.toml"]
    said = call("train", "d.csv", *private, "-o", os.devnull, status=2).err
    assert "the certificate of a private model lies beside it; name a file" in said
    assert not os.path.exists(f"{os.devnull}.certificate.json")
    done = call("evaluate", "m", "d.csv", "--plot", "both", "--report", "both", "--json")
    assert json.loads(done.out)["plots"] == ["both/roc.png", "both/scores.png"]
    call("evaluate", "m", "d.csv", "--plot", "both", "--report", "both")


def commands(command, context):
    if not isinstance(command, click.Group):
        yield command
        return
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), context)


def test_every_file_of_every_command_has_a_role():
    found = list(commands(program, click.Context(program)))
    assert len(found) > len(COMMANDS)
    for command in found:
        for parameter in command.params:
            assert not isinstance(parameter.type, click.File), (command.name, parameter.name)
            if isinstance(parameter.type, click.Path):
                assert isinstance(parameter.type, FilePath), (command.name, parameter.name)


WRITES = [
    ["train", "d.csv", "--label", "y", "-o"],
    ["predict", "m", "d.csv", "-o"],
    ["export", "m", "-o"],
    ["rate", "d.csv", "-o"],
    ["stream", "-o"],
]


@pytest.mark.parametrize("command", WRITES, ids=lambda command: command[0])
def test_a_folder_that_is_not_there_is_told_before_the_work(command, tmp_path, monkeypatch, capsys):
    """A stream learned to its end, and had no place for the model then."""
    monkeypatch.chdir(tmp_path)
    assert run(program, [*command, "nowhere/new"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"the folder {tmp_path / 'nowhere'} does not exist; make it first" in captured.err
    assert os.listdir() == []


@pytest.mark.parametrize(
    "command",
    [*WRITES, ["evaluate", "m", "d.csv", "--report"], ["evaluate", "m", "d.csv", "--plot"]],
    ids=lambda command: command[-1] + command[0],
)
def test_a_folder_without_permission_is_told_before_the_work(
    command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    # The superuser may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode, **_: Path(path) != tmp_path)
    assert run(program, [*command, "new"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"the folder {tmp_path} may not be written to" in captured.err
    assert os.listdir() == []
