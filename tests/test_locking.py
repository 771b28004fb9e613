# SPDX-License-Identifier: BSD-3-Clause
"""A name is held by one at a time, and by no dead process."""

from __future__ import annotations

import os
import threading

import pytest

from pairlearn.locking import HeldError, hold, is_locked


def test_another_process_is_told_who_holds_it(tmp_path, in_a_child):
    path = tmp_path / "a"

    def attempt():
        try:
            with hold(path):
                return 2
        except HeldError as error:
            return 0 if error.holder == f"process {os.getppid()}" else 3

    with hold(path), hold(path):  # the thread that has it may enter again
        assert in_a_child(attempt) == 0
    assert in_a_child(attempt) == 2
    assert os.listdir(tmp_path) == []


def test_what_a_dead_process_held_is_taken_over(tmp_path, in_a_child):
    path = tmp_path / "a"

    def die():
        with hold(path):
            os._exit(0)

    assert in_a_child(die) == 0
    assert os.listdir(tmp_path) == ["a.lock"]
    assert not is_locked(tmp_path / "a.lock")
    with hold(path):
        assert (tmp_path / "a.lock").read_text() == f"{os.getpid()}\n"
    assert os.listdir(tmp_path) == []


def test_another_thread_is_refused(tmp_path):
    found = []

    def attempt():
        try:
            with hold(tmp_path / "a"):
                found.append("held")
        except HeldError as error:
            found.append(error.holder)

    with hold(tmp_path / "a"):
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    attempt()
    assert found == ["another thread of this process", "held"]


def test_a_link_and_its_file_are_one_name(tmp_path, in_a_child):
    (tmp_path / "link").symlink_to(tmp_path / "a")

    def attempt():
        try:
            with hold(tmp_path / "link"):
                return 2
        except HeldError:
            return 0

    with hold(tmp_path / "a"):
        assert in_a_child(attempt) == 0


def test_a_file_that_is_no_lock_stays(tmp_path):
    """The lock of the name "uv" is the file of a user."""
    (tmp_path / "uv.lock").write_text("version = 1\n")
    with pytest.raises(FileExistsError, match="it is no lock of pairlearn"), hold(tmp_path / "uv"):
        pass
    assert (tmp_path / "uv.lock").read_text() == "version = 1\n"
    (tmp_path / "uv.lock").write_text("4711\n")  # left by a killed process
    with hold(tmp_path / "uv"):
        pass
    assert not (tmp_path / "uv.lock").exists()
