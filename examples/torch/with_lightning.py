# SPDX-License-Identifier: BSD-3-Clause
"""A pairwise loss in Lightning: it is a submodule of the model."""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from pairlearn import roc_auc
from pairlearn.torch import AUCLoss, BalancedSampler


class Scorer(lightning.LightningModule):
    """A small network that learns to rank positives above negatives."""

    def __init__(self, n_features):
        super().__init__()
        self.network = torch.nn.Sequential(
            torch.nn.Linear(n_features, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        )
        self.loss = AUCLoss("logistic")

    def forward(self, x):
        """Return a score for each example."""
        return self.network(x)[:, 0]

    def training_step(self, batch, index):
        """Return the loss of a batch."""
        x, y = batch
        return self.loss(self(x), y)

    def configure_optimizers(self):
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main(n_epochs=8):
    """Train and say how good it is."""
    lightning.seed_everything(0, verbose=False)
    X = torch.randn(4000, 4)
    y = (X[:, 0] ** 2 + X[:, 1] ** 2 > 5.0).long()
    batches = BalancedSampler(y[:2000], batch_size=64)
    loader = DataLoader(TensorDataset(X[:2000], y[:2000]), batch_sampler=batches)
    model = Scorer(4)
    trainer = lightning.Trainer(
        max_epochs=n_epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        # The sampler belongs to one process, and deals its own epochs.
        use_distributed_sampler=False,
    )
    trainer.fit(model, loader)
    with torch.no_grad():
        auc = roc_auc(y[2000:].numpy(), model.eval()(X[2000:]).numpy())
    print(f"test AUC {auc:.3f}")
    return auc


if __name__ == "__main__":
    main()
