"""The network of the built-in model: a Llama-style decoder, written for training on a CPU.

Rotary pairs are adjacent, (2i, 2i + 1), as llama.cpp expects for this architecture, so they are complex numbers here.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Shape:
    vocab: int
    width: int = 128
    layers: int = 5
    heads: int = 4
    hidden: int = 352
    rope_base: float = 10000.0
    epsilon: float = 1e-5

    as_dict = asdict


class _Normalize(torch.autograd.Function):
    """x / rms(x) * weight, with a hand-written derivative: a third of the passes over memory."""

    @staticmethod
    def forward(context, x, weight, epsilon):
        scale = (x.norm(dim=-1, keepdim=True).square_() / x.shape[-1] + epsilon).rsqrt_()
        unit = x * scale
        context.save_for_backward(unit, scale, weight)
        return unit * weight

    @staticmethod
    def backward(context, gradient):
        unit, scale, weight = context.saved_tensors
        product = gradient * unit
        weight_gradient = product.flatten(0, -2).sum(0)
        shift = (product @ weight)[..., None] / unit.shape[-1]
        return torch.addcmul(gradient * weight, unit, shift, value=-1).mul_(scale), weight_gradient, None


class Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return _Normalize.apply(x, self.weight, self.epsilon)


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.attn_norm = Norm(shape.width, shape.epsilon)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(shape.width, shape.width, bias=False) for _ in range(4))
        self.ffn_norm = Norm(shape.width, shape.epsilon)
        self.gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def attend(self, x, turns, mask, past):
        batch, length, width = x.shape
        size = width // self.heads

        def rotate(y):
            pairs = torch.view_as_complex(y.view(batch, length, self.heads, size // 2, 2))
            return torch.view_as_real(pairs * turns).view(batch, length, self.heads, size)

        def by_head(y):
            return y.transpose(1, 2).reshape(batch * self.heads, length, size)

        q, k = by_head(rotate(self.wq(x))), by_head(rotate(self.wk(x)))
        v = by_head(self.wv(x).view(batch, length, self.heads, size))
        if past is not None:
            if past:
                k, v = torch.cat((past[0], k), 1), torch.cat((past[1], v), 1)
            past[:] = [k, v]
        mask = mask.expand(batch * self.heads, length, k.shape[1])
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=size ** -0.5)
        mixed = torch.bmm(scores.softmax(-1), v).view(batch, self.heads, length, size)
        return self.wo(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x, turns, mask, past=None):
        x = x + self.attend(self.attn_norm(x), turns, mask, past)
        y = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Network(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab, shape.width)
        self.blocks = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width, shape.epsilon)
        half = shape.width // shape.heads // 2
        self.register_buffer("frequencies", shape.rope_base ** (-torch.arange(half).float() / half), persistent=False)
        nn.init.normal_(self.embedding.weight, std=0.05)
        for block in self.blocks:
            for linear in (block.wq, block.wk, block.wv, block.gate, block.up):
                nn.init.normal_(linear.weight, std=shape.width ** -0.5)
            for linear in (block.wo, block.down):
                nn.init.zeros_(linear.weight)

    def states(self, ids, positions, past=None):
        """Hidden states of every token. ids, positions: (batch, length). ids continue `past`, if given: one list per layer."""
        angles = positions[:, :, None, None].float() * self.frequencies
        turns = torch.polar(torch.ones_like(angles), angles)
        length = ids.shape[1]
        before = past[0][0].shape[1] if past and past[0] else 0
        mask = torch.full((length, before + length), float("-inf")).triu(1 + before)
        x = self.embedding(ids)
        for at, block in enumerate(self.blocks):
            x = block(x, turns, mask, past[at] if past is not None else None)
        return self.norm(x)

    def logits(self, states):
        return states @ self.embedding.weight.T
