"""A small decoder in hand-written stages, as a bundle has them; copied into test bundles as `model.py`.

The mesh has the axes pp, dp and tp. The head is the embedding, and a gain is used by every layer. The first layer's
result is read by the second stage and the last; the last also reads the tokens' positions, which have no gradient.
"""

from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from parallel.parameters import Update, Weights
from parallel.reshard import reshard
from parallel.stages import Stage, Wire
from parallel.steps import AllGather, AllReduce, ReduceScatter, Slice
from torch import nn

BATCH, LENGTH, WIDTH, INNER, WORDS = 2, 6, 8, 12, 10
"""Sequences of a microbatch, and sizes."""


def over(mesh, *steps):
    """Return the steps whose axes have several ranks."""
    return [step for step in steps if mesh.size(*step.axes) > 1]


class Held(Weights):
    """A parameter and how the data-parallel ranks hold it and its gradient.

    `zero` is 0 for a copy on each, 1 for that with the optimizer's state cut into shards, 2 for a gradient that is cut
    into shards once a step, 3 for a parameter in shards that is gathered again for backward.
    """

    def __init__(self, mesh, shape, zero, *, dim, tp="-", kind="normal"):
        layout = ["-"] * len(shape)
        if tp != "-":
            layout[tp] = "tp"
        cut = list(layout)
        cut[dim] = "tp·dp" if layout[dim] == "tp" else "dp"
        stored, gradient = (f"[{', '.join(parts)}]" for parts in (cut if zero == 3 else layout, cut))
        take, gather = Slice(dim, ("dp",)), AllGather(dim, ("dp",))
        updates = {
            0: Update(),
            1: Update(state=gradient, master=over(mesh, take), reduce=over(mesh, take), publish=over(mesh, gather)),
            2: Update(gradient=gradient, deferred=True, state=gradient, master=over(mesh, take),
                      publish=over(mesh, gather)),
            3: Update(),
        }  # fmt: skip
        super().__init__(mesh, {"weight": updates[zero]}, weight=(tuple(shape), stored, kind))
        self.zero, self.dim = zero, dim

    def forward(self):
        mesh, gather = self.mesh, AllGather(self.dim, ("dp",))
        scatter, total = ReduceScatter(self.dim, ("dp",)), AllReduce(("dp",))
        return reshard(
            self.weight, mesh, forward=over(mesh, gather) if self.zero == 3 else (),
            backward=over(mesh, scatter if self.zero > 1 else total), regather=self.zero == 3,
            gradient=self.gradients.get("weight"),
        )  # fmt: skip


class Layer(nn.Module):
    def __init__(self, mesh, zero):
        super().__init__()
        self.mesh = mesh
        self.norm = Held(mesh, (WIDTH,), zero, dim=0, kind="ones")
        self.up = Held(mesh, (INNER, WIDTH), zero, dim=0, tp=0)
        self.down = Held(mesh, (WIDTH, INNER), zero, dim=0, tp=1)

    def forward(self, x, gain):
        mesh = self.mesh
        mixed = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        y = F.rms_norm(mixed, (WIDTH,), self.norm()) * gain
        y = reshard(y, mesh, backward=over(mesh, AllReduce(("tp",))))
        y = F.linear(F.gelu(F.linear(y, self.up())), self.down())
        return x + reshard(y, mesh, forward=over(mesh, AllReduce(("tp",))))


class Part(nn.Module):
    """Layers `first` to `stop`; with `begins` the embedding, with `ends` the head and the loss."""

    def __init__(self, mesh, first, stop, zero, names):
        super().__init__()
        self.mesh, self.takes, self.gives = mesh, names[0], names[1]
        if "tokens" in self.takes or "labels" in self.takes:
            self.embed = Held(mesh, (WORDS, WIDTH), zero, dim=0, tp=1)
        self.layers = nn.ModuleDict({str(i): Layer(mesh, zero) for i in range(first, stop)})
        self.gain = Held(mesh, (WIDTH,), 0, dim=0, kind="ones")

    def forward(self, *values):
        at, mesh = dict(zip(self.takes, values, strict=True)), self.mesh
        if "tokens" in at:
            x = F.embedding(at["tokens"], self.embed())
            x = reshard(x, mesh, forward=over(mesh, AllGather(2, ("tp",))), backward=over(mesh, Slice(2, ("tp",))))
            at["places"] = torch.arange(LENGTH, device=x.device).expand_as(at["tokens"]).contiguous()
        else:
            (name,) = (name for name in at if name.startswith("x"))
            # The wire cuts sequences over tp.
            x = reshard(at[name], mesh, forward=over(mesh, AllGather(1, ("tp",))),
                        backward=over(mesh, Slice(1, ("tp",))))  # fmt: skip
        gain = self.gain()
        for index, layer in self.layers.items():
            if index == "1":
                x = x + 0.1 * at["skip"]
            x = layer(x, gain)
            if index == "0":
                at["skip"] = x
        if "labels" in at:
            at["loss"] = self.loss(x + at["skip"].tanh(), at["places"], at["labels"])
        for name in self.gives:
            if name.startswith("x"):
                at[name] = reshard(x, mesh, forward=over(mesh, Slice(1, ("tp",))),
                                   backward=over(mesh, AllGather(1, ("tp",))))  # fmt: skip
        given = tuple(at[name] for name in self.gives)
        return given if len(given) > 1 else given[0]

    def loss(self, x, places, labels):
        mesh = self.mesh
        x = x * (1 + 0.1 * places.to(x.dtype).unsqueeze(-1))
        x = reshard(x, mesh, forward=over(mesh, Slice(2, ("tp",))), backward=over(mesh, AllGather(2, ("tp",))))
        logits = F.linear(x, self.embed())
        logits = reshard(logits, mesh, forward=over(mesh, AllReduce(("tp",))))
        total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
        count = (labels != -100).sum()
        for step in over(mesh, AllReduce(("dp",))):
            count = step(count, mesh)
        return reshard(total, mesh, forward=over(mesh, AllReduce(("dp",)))) / count


def whole(layers):
    """Return what builds the model in one piece."""
    return lambda mesh: Part(mesh, 0, layers, 0, (("tokens", "labels"), ("loss",)))


def tables(cuts, zero, *, skips=True):
    """Return stages, wires and shared parameters for layers cut at `cuts`, such as 0, 2, 6.

    The embedding is in the first, the head in the last. Without `skips`, what skips stages is passed on by each.
    """
    count = len(cuts) - 1
    last = count - 1
    extra = ("skip", "places")
    stages, wires = [], []
    for i, (first, stop) in enumerate(pairwise(cuts)):
        takes = ("tokens",) if i == 0 else (f"x{i - 1}",)
        gives = (f"x{i}",) if i < last else ()
        if i == last:
            takes, gives = (*takes, *(extra if last else ()), "labels"), ("loss",)
        elif i == 0 or not skips:
            gives = (*gives, *extra)
        if skips and i == 1 and last > 1:
            takes = (*takes, "skip")
        if not skips and 0 < i < last:
            takes = (*takes, *extra)
        stages.append(Stage(build=partial(Part, first=first, stop=stop, zero=zero, names=(takes, gives)),
                            takes=takes, gives=gives))  # fmt: skip
        shape, whole_shape = (BATCH, LENGTH, WIDTH), "[dp, -, -]"
        if i < last:
            wires.append(Wire(value=f"x{i}", source=i, target=i + 1, shape=shape, layout="[dp, tp, -]"))
            if i == 0 or not skips:
                to = last if skips else i + 1
                wires.append(Wire(value="skip", source=i, target=to, shape=shape, layout=whole_shape))
                wires.append(Wire(value="places", source=i, target=to, shape=(BATCH, LENGTH), layout="[dp, -]",
                                  dtype="int64", gradient=False))  # fmt: skip
    if skips and last > 1:
        wires.append(Wire(value="skip", source=0, target=1, shape=shape, layout=whole_shape))
    shared = {"gain.weight": tuple(range(count))}
    if last:
        shared["embed.weight"] = (0, last)
    return tuple(stages), tuple(wires), shared
