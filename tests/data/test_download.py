# SPDX-License-Identifier: BSD-3-Clause
import socket

import pytest

from pairlearn.data import DataCorruptError, DataUnavailableError
from pairlearn.data.files import download


@pytest.fixture
def target(tmp_path):
    return tmp_path / "folder" / "toy.txt"


def test_fetches_a_file(server, target):
    seen = []
    download(server.address, target, progress=lambda have, total: seen.append((have, total)))
    assert target.read_bytes() == server.content
    assert seen[-1] == (len(server.content), len(server.content))
    assert [path.name for path in target.parent.iterdir()] == ["toy.txt"]


def test_a_broken_connection_is_tried_again(server, target):
    server.cut_after = [100, 50]
    download(server.address, target, pause=0.0)
    assert target.read_bytes() == server.content
    assert len(server.asked) == 3
    server.cut_after = [100] * 3
    with pytest.raises(DataUnavailableError):
        download(server.address, target.with_name("other"), pause=0.0)
    assert [path.name for path in target.parent.iterdir()] == ["toy.txt"]


def test_nothing_appears_before_it_is_verified(server, target):
    def refuse(path):
        assert not target.exists()
        assert path.read_bytes() == server.content
        raise DataCorruptError("no")

    with pytest.raises(DataCorruptError):
        download(server.address, target, check=refuse)
    assert list(target.parent.iterdir()) == []


def test_missing_page_is_not_asked_for_again(server, target):
    server.status = 404
    with pytest.raises(DataUnavailableError, match="404"):
        download(server.address, target)
    assert len(server.asked) == 1


def test_server_in_trouble_is_asked_again(server, target):
    server.status = 503
    with pytest.raises(DataUnavailableError, match="503"):
        download(server.address, target, pause=0.0)
    assert len(server.asked) == 3


def test_no_network_is_one_line(target):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataUnavailableError, match="check the network") as caught:
        download(f"http://127.0.0.1:{port}/toy", target, pause=0.0)
    assert "\n" not in str(caught.value)
