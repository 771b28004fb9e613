# SPDX-License-Identifier: BSD-3-Clause
"""A file is the old one or the new one, never something between."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import time

import pytest

from pairlearn.atomic import HeldError, atomic_open, atomic_write, hold, previous_of, read_newest


def files_in(folder):
    return sorted(p.name for p in folder.iterdir())


def load(path):
    data = path.read_bytes()
    if not data.endswith(b"."):
        raise ValueError(f"{path.name} is cut short")
    return data


def test_the_last_two_are_kept(tmp_path):
    path = tmp_path / "a"
    for k in range(4):
        atomic_write(path, b"%d." % k, keep_previous=True)
    assert path.read_bytes() == b"3."
    assert previous_of(path).read_bytes() == b"2."
    assert files_in(tmp_path) == ["a", "a.previous"]


def test_permissions_stay(tmp_path):
    path = tmp_path / "a"
    atomic_write(path, b"1")
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o600)
    atomic_write(path, b"2")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_secret_file_is_its_owners_from_its_first_byte(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old, for everybody")
    path.chmod(0o666)
    with atomic_open(path, secret=True) as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
        file.write(b"new")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_an_error_at_any_step_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "a"
    atomic_write(path, b"old")

    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(path, b"new", keep_previous=True)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert "a" in files_in(tmp_path)
    assert not [name for name in files_in(tmp_path) if name.endswith(".tmp")]


def test_a_full_disk(tmp_path):
    """The limit on the size of a file makes the system itself refuse to write on."""
    path = tmp_path / "a"
    atomic_write(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        with pytest.raises(OSError, match="too large"):
            atomic_write(path, b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert path.read_bytes() == b"old"
    assert files_in(tmp_path) == ["a"]


def test_a_cut_file_falls_back_to_the_previous_one(tmp_path):
    path = tmp_path / "a"
    atomic_write(path, b"one.")
    atomic_write(path, b"two.", keep_previous=True)
    assert read_newest(path, load) == (b"two.", None)
    path.write_bytes(b"tw")
    value, complaint = read_newest(path, load)
    assert value == b"one."
    assert "a is cut short" in complaint
    assert "a.previous is used instead" in complaint
    previous_of(path).write_bytes(b"o")
    with pytest.raises(ValueError, match="a is cut short"):
        read_newest(path, load)
    previous_of(path).unlink()
    with pytest.raises(ValueError, match="a is cut short"):
        read_newest(path, load)


def test_kill_at_random_moments(tmp_path):
    """Whatever moment kill -9 strikes, the newest or the previous file is whole."""
    path = tmp_path / "a"
    program = (
        "import sys; from pairlearn.atomic import atomic_write\n"
        "k = 0\n"
        "while True:\n"
        "    atomic_write(sys.argv[1], b'%d' % k * 20000 + b'.', keep_previous=True); k += 1\n"
    )
    for k in range(12):
        process = subprocess.Popen([sys.executable, "-c", program, str(path)])
        deadline = time.monotonic() + 20
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.003 * (k + 1))
        process.kill()
        process.wait()
        value, complaint = read_newest(path, load)
        assert complaint is None
        assert value.endswith(b".")


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "b").mkdir()
    link, target = tmp_path / "a", tmp_path / "b" / "real"
    link.symlink_to(target)
    for data in (b"1", b"2"):  # at first the link leads nowhere
        atomic_write(link, data, keep_previous=True)
        assert link.is_symlink()
        assert target.read_bytes() == data
    assert read_newest(link, lambda p: p.read_bytes()) == (b"2", None)
    assert previous_of(link) == target.with_name("real.previous")
    assert files_in(tmp_path) == ["a", "b"]


def test_what_is_no_file_is_written(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        atomic_write(pipe, b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    null = tmp_path / "null"
    null.symlink_to(os.devnull)
    atomic_write(null, b"gone")
    assert null.is_symlink()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    # an open descriptor of a file by its name, as /dev/stdout is
    with open(tmp_path / "out", "wb") as out:
        inode = os.fstat(out.fileno()).st_ino
        atomic_write(f"/dev/fd/{out.fileno()}", b"text")
    assert (tmp_path / "out").read_bytes() == b"text"
    assert (tmp_path / "out").stat().st_ino == inode
    with pytest.raises(IsADirectoryError):
        atomic_write(tmp_path, b"")
    assert files_in(tmp_path) == ["null", "out", "pipe"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_umask_is_respected(tmp_path, mask):
    before = os.umask(mask)
    try:
        atomic_write(tmp_path / "a", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask


def test_errors_name_what_was_asked_for(tmp_path):
    (tmp_path / "link").symlink_to("nowhere/a")
    for path in (tmp_path / "nowhere" / "a", tmp_path / "link"):
        with pytest.raises(
            FileNotFoundError, match="the folder does not exist, make it first"
        ) as e:
            atomic_write(path, b"x")
        assert e.value.filename == str(tmp_path / "nowhere")
    with pytest.raises(OSError, match="File name too long") as e:
        atomic_write(tmp_path / ("a" * 250), b"x")
    assert e.value.filename == str(tmp_path / ("a" * 250))


def test_a_name_is_held_by_one_at_a_time_and_by_no_dead_process(tmp_path, in_a_child):
    path = tmp_path / "a"

    def attempt():
        try:
            with hold(path):
                return 2
        except HeldError:
            return 0

    def die():
        with hold(path):
            os._exit(0)

    with hold(path), hold(path):  # the thread that has it may enter again
        assert in_a_child(attempt) == 0
    assert in_a_child(attempt) == 2
    assert in_a_child(die) == 0
    assert attempt() == 2
