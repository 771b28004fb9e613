# SPDX-License-Identifier: BSD-3-Clause
"""Which device trains, random numbers that belong to one run, and steps that are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pairlearn.validation import warn_caller

#: Steps that a CUDA device takes before one is recorded.
_WARM_UP = 3
#: Numbers of a layer up to which PyTorch gives functions of numbers to one thread.
_FEW_NUMBERS = 32_768


def as_device(device: Any) -> Any:
    """Return the device that a parameter asks for: "auto" is the first GPU, else the CPU."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(
            f'device must be "auto", "cpu", "cuda" or "cuda:1", got {device!r}.'
        ) from None
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f'device must be the CPU or a CUDA device, got "{found}"; use "auto".')
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (found.index or 0) >= count:
            has = f"has {count} of them" if count else "has none"
            raise ValueError(
                f'device="{found}" needs a CUDA device, this machine {has}; use "auto" or "cpu".'
            )
    return found


@contextmanager
def own_randomness(seed: int, device: Any) -> Iterator[None]:
    """Draw initial weights and dropout from a seed, and leave the generators of others alone."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        # `torch.manual_seed` would seed every GPU, and only the state of this one is put back.
        torch.default_generator.manual_seed(seed)
        for own in devices:
            with torch.cuda.device(own):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def threads_for(network: Any, batch_size: int, device: Any) -> Iterator[None]:
    """Train a network with small layers by one thread.

    Several threads gain nothing there: they wait for each other after every product. If other work
    keeps one of them waiting, training takes several times as long.
    """
    widest = max(len(one) if one.ndim else 1 for one in network.parameters())
    before = torch.get_num_threads()
    if device.type != "cpu" or before == 1 or batch_size * widest > _FEW_NUMBERS:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Repeated:
    """A step that is taken many times, recorded on a CUDA device and replayed from then on.

    A small network leaves a GPU waiting for the host, which starts each of its hundred kernels. A
    recorded step (a CUDA graph) is started as a whole. So the step must read and write tensors
    that stay where they are, and must not look at their values. On the CPU, and where `records` is
    false, it is called each time.

    A step that cannot be recorded, such as one of a module that looks at its values, is called each
    time too, and a warning says so.
    """

    def __init__(self, step: Callable[[], None], device: Any, *, records: bool = True) -> None:
        self._step, self._device = step, device
        self._records = records and device.type == "cuda"
        #: Steps before the recording: kernels are chosen and memory is found there.
        self._before = _WARM_UP if self._records else 0
        self._graph: Any = None

    def take(self, count: int) -> None:
        """Take so many steps."""
        if not self._records:
            for _ in range(count):
                self._step()
            return
        with torch.cuda.device(self._device):
            warm = min(self._before, count)
            if warm:
                self._aside(warm)
            self._before -= warm
            if count > warm and self._graph is None:
                self._record()
            for _ in range(count - warm):
                # A step that could not be recorded.
                (self._graph.replay if self._graph is not None else self._step)()

    def _aside(self, count: int) -> None:
        """Take steps on another stream, as a recording demands."""
        stream, own = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(own)
        with torch.cuda.stream(stream):
            for _ in range(count):
                self._step()
        own.wait_stream(stream)

    def _record(self) -> None:
        """Record the step, which takes none."""
        graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        before = generator.clone_state()
        try:
            with torch.cuda.graph(graph):
                self._step()
        except RuntimeError as error:
            # A recording that breaks off leaves the generator of random numbers in the middle.
            generator.graphsafe_set_state(before)
            self._records = False
            first = str(error).strip().splitlines()[0]
            warn_caller(
                f"this step cannot be recorded on {self._device} ({first}), so each one is "
                "started kernel by kernel, which takes ten times as long or more. A network or a "
                "loss that does not look at values (item(), if, nonzero) can be recorded.",
                UserWarning,
            )
            return
        self._graph = graph
