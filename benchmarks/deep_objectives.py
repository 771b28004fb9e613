# SPDX-License-Identifier: BSD-3-Clause
"""What a network should minimise where positives are rare: imbalanced MNIST.

``python -m benchmarks.deep_objectives --prepare mnist.npz`` writes the digits of the folder that
PAIRLEARN_DATA names into one file; ``python -m benchmarks.deep_objectives mnist.npz`` needs nothing
but that file, PyTorch and NumPy, and uses a GPU if there is one. Digits 5 to 9 are positive; in the
50,000 training digits all but 1 % (then 10 %) of the examples that remain are made negative by
leaving positives out, the 10,000 test digits stay as they are. A small convolutional network,
10 epochs of Adam, batches of 128, the last iterate: nothing is chosen on test data. Five seeds
deal digits, weights and batches; printed are the mean test AUC with its 95 % interval (Student's t
over seeds) and the paired difference to cross-entropy on balanced batches.

Where LibAUC is installed (``pip install --no-deps libauc``), its AUC margin loss has two rows: on
the same balanced batches, with the sigmoid, the optimizer PESG and the settings of its tutorial
(step size .1, divided by 10 after a half and three quarters of the epochs), and with PESG's form of
Adam and the step size of all others.
"""

from __future__ import annotations

import argparse
import lzma
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BATCH, EPOCHS, N_TEST = 128, 10, 10_000
BASELINE = "cross-entropy, balanced"
#: Student's t for 95 %, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262}


def prepare(path: Path) -> None:
    """Write all digits of the LIBSVM file into an .npz file: uint8 images and labels."""
    from sklearn.datasets import load_svmlight_file

    with lzma.open(Path(os.environ["PAIRLEARN_DATA"]) / "mnist.libsvm.xz") as stream:
        X, y = load_svmlight_file(stream, n_features=784)
    pixels = X.toarray()
    if pixels.max() <= 1.0:
        pixels = np.rint(255.0 * pixels)
    np.savez_compressed(path, X=pixels.astype(np.uint8).reshape(-1, 28, 28), y=y.astype(np.uint8))


def make_network(torch: Any) -> Any:
    """Return a small convolutional network with one score."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 25, 64), nn.ReLU(), nn.Linear(64, 1),
    )  # fmt: skip


class Objective(NamedTuple):
    """What a network minimises, on which batches, and how."""

    #: Returns the loss for a device: a function of the scores and labels of a batch.
    make_loss: Callable[[Any], Any]
    balanced: bool = True
    #: Returns the optimizer of a network and its loss; Adam unless given.
    make_optimizer: Callable[[Any, Any], Any] | None = None


def objectives(torch: Any) -> dict[str, Objective]:
    """Return the objectives by name; LibAUC's is among them where that package can be imported."""
    from pairlearn.torch import AUCLoss

    def cross_entropy(device: Any) -> Any:
        loss = torch.nn.BCEWithLogitsLoss()
        return lambda scores, labels: loss(scores[:, 0], labels.float())

    def pairs(**options: Any) -> Callable[[Any], Any]:
        return lambda device: AUCLoss("squared_hinge", **options).to(device)

    found = {
        "cross-entropy": Objective(cross_entropy, balanced=False),
        BASELINE: Objective(cross_entropy),
        "all pairs": Objective(pairs()),
        "previous example": Objective(pairs(pairing="previous")),
    }
    try:
        found["AUCM of LibAUC"] = margin_objective(torch, mode="sgd", lr=0.1)
        found["AUCM of LibAUC, Adam"] = margin_objective(torch, mode="adam", lr=1e-3)
    except ImportError as error:
        print(f"without LibAUC: {error}", file=sys.stderr)
    return found


def margin_objective(torch: Any, *, mode: str, lr: float) -> Objective:
    """Return LibAUC's AUC margin loss with its own optimizer, else set as its tutorial does."""
    from libauc.losses import AUCMLoss
    from libauc.optimizers import PESG

    class OfScores(AUCMLoss):  # type: ignore[misc]
        def forward(self, scores: Any, labels: Any) -> Any:
            return super().forward(torch.sigmoid(scores), labels.float())

    def optimizer(network: Any, loss: Any) -> Any:
        return PESG(
            network.parameters(), loss_fn=loss, mode=mode, lr=lr, momentum=0.9, margin=1.0,
            epoch_decay=0.003, weight_decay=1e-4, verbose=False, device=loss.device,
        )  # fmt: skip

    return Objective(lambda device: OfScores(device=device), make_optimizer=optimizer)


def plain_batches(torch: Any, n: int, seed: int, n_epochs: int) -> Iterator[Any]:
    """Yield the batches of each epoch, a shuffle of all examples."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n_epochs):
        yield torch.split(torch.randperm(n, generator=generator), BATCH)


def balanced_batches(torch: Any, labels: Any, seed: int, n_epochs: int) -> Iterator[Any]:
    """Yield as many batches for each epoch, half of each positive."""
    from pairlearn.torch import BalancedSampler

    sampler = BalancedSampler(labels, BATCH, seed=seed)
    for _ in range(n_epochs):
        yield map(torch.tensor, sampler)


def test_auc(torch: Any, network: Any, X: Any, positive: Any) -> float:
    """Return the AUC: the share of pairs in order, ties counting one half, by ranks."""
    network.eval()
    with torch.no_grad():
        scores = torch.cat([network(block)[:, 0] for block in torch.split(X, 2000)]).double()
    p, q = scores[positive], torch.sort(scores[~positive]).values
    below = torch.searchsorted(q, p, right=False) + torch.searchsorted(q, p, right=True)
    return float(below.double().mean() / (2 * len(q)))


def run_one(
    torch: Any,
    data: Any,
    share: float,
    seed: int,
    device: Any,
    *,
    chosen: Mapping[str, Objective],
    n_digits: int | None,
    n_epochs: int,
) -> dict[str, float]:
    """Train a network on each objective, on one draw of the digits, and return their test AUC."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data["y"]))
    test, train = order[:N_TEST], order[N_TEST:][:n_digits]
    positive = data["y"] >= 5
    negatives, positives = train[~positive[train]], train[positive[train]]
    count = round(share / (1.0 - share) * len(negatives))
    train = np.concatenate([negatives, positives[:count]])

    def images(rows: Any) -> Any:
        return torch.from_numpy(data["X"][rows]).to(device).float().unsqueeze(1) / 255.0

    X, y = images(train), torch.from_numpy(positive[train]).to(device)
    X_test, y_test = images(test), torch.from_numpy(positive[test]).to(device)
    found = {}
    for name, objective in chosen.items():
        torch.manual_seed(seed)
        network, loss = make_network(torch).to(device), objective.make_loss(device)
        if objective.make_optimizer is None:
            optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
        else:
            optimizer = objective.make_optimizer(network, loss)
        epochs = (
            balanced_batches(torch, y, seed, n_epochs)
            if objective.balanced
            else plain_batches(torch, len(y), seed, n_epochs)
        )
        for epoch, batches in enumerate(epochs):
            late = epoch in (n_epochs // 2, 3 * n_epochs // 4)
            if late and hasattr(optimizer, "update_regularizer"):
                optimizer.update_regularizer(decay_factor=10)
            for batch in batches:
                rows = batch.to(device)
                optimizer.zero_grad(set_to_none=True)
                loss(network(X[rows]), y[rows]).backward()
                optimizer.step()
        found[name] = test_auc(torch, network, X_test, y_test)
        print(f"{share:.0%}, seed {seed}, {name}: {found[name]:.4f}", file=sys.stderr, flush=True)
    return found


def interval(values: Any) -> str:
    """Return a mean with half the width of its 95 % interval."""
    n = len(values)
    if n < 2:
        return f"{np.mean(values):.4f}"
    half = STUDENT.get(n - 1, 1.96) * np.std(values, ddof=1) / math.sqrt(n)
    return f"{np.mean(values):.4f} ± {half:.4f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all objectives and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.deep_objectives", description=__doc__
    )
    parser.add_argument("data", type=Path, help="the .npz file")
    parser.add_argument("--prepare", action="store_true", help="write that file instead")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--share", type=float, action="append", help="of positives; .01 and .1")
    parser.add_argument("--only", action="append", help="an objective; the baseline always runs")
    parser.add_argument("--digits", type=int, help="of the training digits so many alone; all")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(arguments)
    if options.prepare:
        if "PAIRLEARN_DATA" not in os.environ:
            parser.error("name the folder of mnist.libsvm.xz by PAIRLEARN_DATA.")
        prepare(options.data)
        return 0
    import torch

    from pairlearn.torch.training import as_device

    device = as_device(options.device)
    with np.load(options.data) as stored:
        data = {name: stored[name] for name in ("X", "y")}
    known = objectives(torch)
    unknown = set(options.only or ()).difference(known)
    if unknown:
        parser.error(f"--only {sorted(unknown)}: there are {', '.join(known)}.")
    wanted = (BASELINE, *(options.only or known))
    chosen = {name: objective for name, objective in known.items() if name in wanted}
    begin = time.perf_counter()
    for share in options.share or (0.01, 0.1):
        runs = [
            run_one(
                torch, data, share, seed, device,
                chosen=chosen, n_digits=options.digits, n_epochs=options.epochs,
            )
            for seed in range(options.seeds)
        ]  # fmt: skip
        print(
            f"\n{share:.0%} positives, {options.seeds} seeds, {options.epochs} epochs, {device}\n"
        )
        print(f"| objective | test AUC | difference to {BASELINE} |")
        print("| --- | --- | --- |")
        for name in runs[0]:
            values = np.array([run[name] for run in runs])
            gap = values - np.array([run[BASELINE] for run in runs])
            shown = "" if name == BASELINE else interval(gap)
            print(f"| {name} | {interval(values)} | {shown} |", flush=True)
    print(f"\n{time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
