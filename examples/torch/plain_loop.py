# SPDX-License-Identifier: BSD-3-Clause
"""A training loop of one's own: balanced batches, and a run that can be resumed."""

import torch

from pairlearn import roc_auc
from pairlearn.torch import AUCLoss, BalancedSampler


def train(X, y, n_epochs=10, seed=0, state=None):
    """Train a small network and return it with everything that a resumed run needs."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(X.shape[1], 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
    )
    loss = AUCLoss("squared_hinge")
    sampler = BalancedSampler(y, batch_size=64, share=0.5, seed=seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    parts = {"network": network, "loss": loss, "sampler": sampler, "optimizer": optimizer}
    if state is not None:
        for name, part in parts.items():
            part.load_state_dict(state[name])
    while sampler.epoch < n_epochs:
        for rows in sampler:
            optimizer.zero_grad()
            loss(network(X[rows]), y[rows]).backward()
            optimizer.step()
    return network, {name: part.state_dict() for name, part in parts.items()}


def data(n=2000, seed=0):
    """Return rare positives inside a ring, which no plane separates."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 4, generator=generator)
    y = (X[:, 0] ** 2 + X[:, 1] ** 2 > 5.0).long()
    return X, y


def main():
    """Train, stop, resume, and say how good it is."""
    X, y = data()
    _, state = train(X, y, n_epochs=5)
    network, _ = train(X, y, n_epochs=10, state=state)
    X_test, y_test = data(seed=1)
    with torch.no_grad():
        auc = roc_auc(y_test.numpy(), network(X_test)[:, 0].numpy())
    print(f"share of positives {y.float().mean():.2f}, test AUC {auc:.3f}")
    return auc


if __name__ == "__main__":
    main()
