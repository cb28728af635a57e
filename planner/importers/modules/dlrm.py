"""A recommender with embedding bags, dot interactions of their vectors, two MLPs, and a wide linear part.

Source: Naumov et al. 2019, "Deep Learning Recommendation Model", section 2; the wide part is that of Cheng et al. 2016,
"Wide & Deep Learning for Recommender Systems", section 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Bags(nn.Module):
    """One table a feature: the sum of the rows that a bag of ids picks.

    Parameters
    ----------
    rows
        Of each table.
    bags
        How many ids a sample has of each feature.
    """

    def __init__(self, rows: Sequence[int], bags: Sequence[int], width: int) -> None:
        super().__init__()
        self.bags = tuple(bags)
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count in rows)

    def forward(self, ids: Tensor) -> list[Tensor]:
        """Return a vector `[B, h]` for each feature of ids `[B, Σ bags]`."""
        pieces = ids.split(self.bags, dim=1)
        return [table(piece).sum(dim=1) for table, piece in zip(self.tables, pieces, strict=True)]


def mlp(widths: Sequence[int], last: nn.Module) -> nn.Sequential:
    """Return linear layers of these widths, with ReLU between them and `last` at the end."""
    layers: list[nn.Module] = []
    for i, (before, after) in enumerate(pairwise(widths)):
        layers += [nn.Linear(before, after), nn.ReLU() if i < len(widths) - 2 else last]
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    """The recommender with its loss.

    Parameters
    ----------
    rows, bags
        Rows of the table of each categorical feature, and how many ids a sample has of it.
    width
        Of the vectors of features.
    dense
        Number of numeric features.
    bottom, top
        Widths of the hidden layers of the MLP over numeric features, and of the one over interactions.
    """

    def __init__(
        self, rows: Sequence[int], bags: Sequence[int], width: int = 128, dense: int = 13,
        bottom: Sequence[int] = (512, 256), top: Sequence[int] = (1024, 1024, 512, 256),
    ) -> None:  # fmt: skip
        super().__init__()
        vectors = len(rows) + 1
        self.embeddings = Bags(rows, bags, width)
        self.wide = Bags(rows, bags, 1)
        self.wide_dense = nn.Linear(dense, 1)
        self.bottom = mlp((dense, *bottom, width), nn.ReLU())
        self.top = mlp((width + vectors * vectors, *top, 1), nn.Identity())

    def forward(self, numbers: Tensor, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss and logits of numeric features `[B, dense]`, ids `[B, Σ bags]` and clicks `[B]` (0 or 1)."""
        dense = self.bottom(numbers)
        vectors = torch.stack([dense, *self.embeddings(ids)], dim=1)
        # The whole square, so that no list of pairs is needed; products that appear twice share their gradient.
        products = torch.matmul(vectors, vectors.transpose(1, 2)).flatten(1)
        deep = self.top(torch.cat((dense, products), dim=1))
        wide = torch.stack(self.wide(ids), dim=1).sum(dim=1)
        logits = (deep + wide + self.wide_dense(numbers)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, labels), logits
