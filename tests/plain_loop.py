"""What training means: one network, one loop, PyTorch's own modules. Slow, and easy to believe."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from unimodal.methods import make_method
from unimodal.training import Data, Recipe, Run

N, D, K = 60, 3, 5
ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}
UNUSED = 0


def table(weighted=False):
    """A table in two sources; what no run has chosen must not be looked at, so row 0 is no example."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, D, generator=generator)
    y = ((x[:, 0] + 0.5 * torch.randn(N, generator=generator)) * 1.5 + 2).round().clamp(0, K - 1).long()
    x, y = x.index_fill(0, torch.tensor([UNUSED]), torch.nan), y.index_fill(0, torch.tensor([UNUSED]), 0)
    weight = torch.rand(N, generator=generator) * 3 + 0.1 if weighted else None
    sources = torch.stack([x, 2 * x - 0.5])
    return Data(torch.cat([sources, torch.ones(2, N, 1)], 2), y, weight)


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads gain nothing on products this small, and wait for each other when the machine is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows_of(n, seed=0):
    return np.random.default_rng(seed).permutation(np.arange(1, N))[:n]


def small(**changes):
    return Recipe(**({"hidden": (8,), "lr": 1e-3, "batch_size": 8, "epochs": 40} | changes))


def learning_rate(recipe, step, steps):
    if recipe.schedule == "constant":
        return recipe.lr
    warm = 0.1 * steps if recipe.schedule == "warm-cosine" else 0.0
    if step < warm:
        return recipe.lr * (step + 1) / (warm + 1)
    return recipe.lr * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))


class Plain:
    """A run trained alone, with what early stopping would have to know."""

    def __init__(self, data: Data, run: Run, recipe: Recipe) -> None:
        self.x, self.y = data.inputs[run.source, :, :-1], data.y
        weight = torch.ones(len(self.y)) if data.weight is None else data.weight
        rows = torch.from_numpy(run.rows)
        torch.manual_seed(run.seed)
        sizes = (self.x.shape[1], *recipe.hidden)
        layers = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), ACTIVATIONS[recipe.activation]()]
            layers += [nn.Dropout(recipe.dropout)] if recipe.dropout else []
        self.method = make_method(run.method, K, published=run.published, **run.params)
        self.net = nn.Sequential(*layers, nn.Linear(sizes[-1], self.method.n_outputs))
        parameters = [*self.net.parameters(), *self.method.parameters()]
        kind = torch.optim.AdamW if recipe.optimiser == "adamw" else torch.optim.Adam
        optimiser = kind(parameters, lr=recipe.lr, weight_decay=recipe.weight_decay)
        steps = recipe.epochs * run.batches(recipe.batch_size)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: learning_rate(recipe, step, steps) / recipe.lr
        )
        self.best_loss, self.best_epoch, self.epochs, self.best = math.inf, 0, 0, self.state()
        for epoch in range(1, recipe.epochs + 1):
            self.net.train()
            for batch in rows[torch.randperm(len(rows))].split(recipe.batch_size):
                loss = self.method.loss(self.net(self.x[batch]), self.y[batch])
                optimiser.zero_grad()
                (loss * weight[batch] / weight[rows].mean()).mean().backward()
                optimiser.step()
                scheduler.step()
            self.epochs = epoch
            if run.validation is not None:
                loss = self.validation_loss(torch.from_numpy(run.validation), weight)
                if loss < self.best_loss:
                    self.best_loss, self.best_epoch, self.best = loss, epoch, self.state()
                if epoch - self.best_epoch >= (recipe.patience or math.inf):
                    break
        if run.validation is None:
            self.best, self.best_epoch = self.state(), self.epochs

    @torch.no_grad()
    def validation_loss(self, rows, weight):
        self.net.eval()
        log_prob = self.method.log_prob(self.net(self.x[rows]))
        losses = -log_prob[torch.arange(len(rows)), self.y[rows]]
        return float((losses * weight[rows]).sum() / weight[rows].sum())

    def state(self):
        """Copies of all parameters, under the names that a stack gives them."""
        layers = [layer for layer in self.net if isinstance(layer, nn.Linear)]
        state = {"weight": layers[-1].weight, "bias": layers[-1].bias[:, None]}
        for i, layer in enumerate(layers[:-1]):
            state[f"weight{i}"], state[f"bias{i}"] = layer.weight.T, layer.bias[None]
        if len(layers) > 1:
            state["weight0"] = torch.cat([state["weight0"], state.pop("bias0")])
        return {name: p.detach().clone() for name, p in [*state.items(), *self.method.named_parameters()]}


def error(trained, plain):
    """The largest difference between any two parameters."""
    views = trained.architecture.views(trained.parameters[None])
    assert views.keys() == plain.best.keys()
    return max(float((views[name][0] - value).abs().max()) for name, value in plain.best.items())
