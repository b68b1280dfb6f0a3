"""Trains the built-in model. `python3 builtin/train.py --work DIR` writes DIR/tokenizer.json and DIR/model.pt.

The same command resumes a stopped run. `--steps` and `--decay` set how long the learning rate stays constant and how long it
falls. Data is generated on demand and never repeats. Each process trains on its own conversations with one thread, and
gradients are averaged: much faster here than one process with several threads.
"""

import argparse
import os
import random
import tempfile
import time

import torch
import torch.distributed as group_of
import torch.multiprocessing as processes
import torch.nn.functional as F

import corpus
import template
import tokenizer as bpe
from network import Network, Shape

LONGEST = 1280
REACH = 3000  # largest position in training


def make_tokenizer(path):
    if os.path.exists(path):
        return bpe.Tokenizer.load(path)
    rng = random.Random(1)
    texts = []
    for _ in range(12000):
        messages, listed = corpus.conversation(rng)
        texts.append(template.render(messages, listed, False) if not any(m.get("forced") for m in messages) else "")
    result = bpe.Tokenizer(bpe.train(texts, 620, 460))
    result.save(path)
    return result


def batches(tokenizer, seed, first, stride, tokens):
    """Chunks first, first + stride, ...: yields (chunk, ids, positions, rows, targets, weights) endlessly: conversations of similar length, about `tokens` tokens per batch."""
    start, pad = tokenizer.specials[template.IM_START], tokenizer.specials[template.END_OF_TEXT]
    chunk = first
    while True:
        rng = random.Random(seed * 1_000_003 + chunk)
        items = []
        for _ in range(4000):
            ids, weights = corpus.encode(tokenizer, *corpus.conversation(rng))
            if len(ids) <= LONGEST:
                items.append((ids, weights, corpus.spread(rng, ids, start, REACH)))
        items.sort(key=lambda item: len(item[0]) + rng.random() * 8)
        groups, group = [], []
        for item in items:
            if group and (len(group) + 1) * len(item[0]) > tokens:
                groups.append(group)
                group = []
            group.append(item)
        groups.append(group)
        rng.shuffle(groups)
        for group in groups:
            longest = max(len(ids) for ids, _, _ in group) - 1
            inputs = torch.full((len(group), longest), pad)
            places = torch.zeros((len(group), longest), dtype=torch.long)
            targets = torch.zeros((len(group), longest), dtype=torch.long)
            shares = torch.zeros((len(group), longest))
            for row, (ids, weights, positions) in enumerate(group):
                inputs[row, :len(ids) - 1] = torch.tensor(ids[:-1])
                places[row, :len(ids) - 1] = torch.tensor(positions[:-1])
                targets[row, :len(ids) - 1] = torch.tensor(ids[1:])
                shares[row, :len(ids) - 1] = torch.tensor(weights[1:])
            rows = (shares > 0).flatten().nonzero()[:, 0]
            yield chunk // stride, inputs, places, rows, targets.flatten()[rows], shares.flatten()[rows]
        chunk += stride


class Muon(torch.optim.Optimizer):
    """Momentum with an orthogonalized update (Newton-Schulz, five steps), for the weight matrices inside the layers."""

    def __init__(self, parameters, lr=0.02, momentum=0.95, decay=0.01):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
                update = parameter.grad.lerp(state["momentum"], group["momentum"])
                tall = update.shape[0] > update.shape[1]
                shapes.setdefault((update.T if tall else update).shape, []).append((parameter, update.T if tall else update, tall))
            for members in shapes.values():
                x = torch.stack([update for _, update, _ in members])
                x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
                for _ in range(5):
                    square = x @ x.transpose(1, 2)
                    x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
                for (parameter, _, tall), update in zip(members, x):
                    scale = max(1, parameter.shape[0] / parameter.shape[1]) ** 0.5
                    parameter.mul_(1 - group["lr"] * group["decay"])
                    parameter.add_(update.T if tall else update, alpha=-group["lr"] * scale)


def average(network, count):
    """The mean of all processes' gradients, in one message."""
    gradients = [parameter.grad for parameter in network.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    group_of.all_reduce(flat)
    flat /= count
    at = 0
    for gradient in gradients:
        gradient.copy_(flat[at:at + gradient.numel()].view_as(gradient))
        at += gradient.numel()


def work(rank, options):
    """One training process. The first also writes the log and the checkpoints."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(options.seed)
    group_of.init_process_group("gloo", init_method="file://" + options.meeting, rank=rank, world_size=options.processes)
    tokenizer = make_tokenizer(os.path.join(options.work, "tokenizer.json"))
    path = os.path.join(options.work, options.name + ".pt")
    network = Network(Shape(len(tokenizer.tokens)))
    matrices = [parameter for block in network.blocks for parameter in block.parameters() if parameter.ndim == 2]
    others = [network.embedding.weight] + [parameter for parameter in network.parameters() if parameter.ndim == 1]
    muon = Muon(matrices, options.muon)
    adam = torch.optim.Adam(others, options.adam, betas=(0.9, 0.98), eps=1e-10)
    step, chunk = 0, 0
    begin = path if os.path.exists(path) else options.start
    if begin:
        saved = torch.load(begin)
        network.load_state_dict(saved["weights"])
        muon.load_state_dict(saved["muon"])
        adam.load_state_dict(saved["adam"])
        step, chunk = saved["step"], saved["chunk"] + 1

    def say(text):
        if rank == 0:
            print(text, flush=True)

    def save():
        if rank == 0:
            torch.save({"weights": network.state_dict(), "muon": muon.state_dict(), "adam": adam.state_dict(), "step": step, "chunk": chunk,
                        "shape": network.shape.as_dict()}, path + ".part")
            os.replace(path + ".part", path)

    say(f"{sum(p.numel() for p in network.parameters())} parameters, from step {step}")
    since, seen, learned, total, right = time.time(), 0, 0, 0.0, 0
    stream = batches(tokenizer, options.seed, chunk * options.processes + rank, options.processes, options.tokens)
    while step < options.steps:
        chunk, inputs, places, rows, targets, shares = next(stream)
        rate = min(1, (step + 1) / 100, (options.steps - step) / max(1, options.decay))
        for optimizer, peak in ((muon, options.muon), (adam, options.adam)):
            for group in optimizer.param_groups:
                group["lr"] = peak * rate
        logits = network.logits(network.states(inputs, places).flatten(0, 1)[rows])
        loss = (F.cross_entropy(logits, targets, reduction="none") * shares).sum() / shares.sum()
        network.zero_grad(set_to_none=True)
        loss.backward()
        average(network, options.processes)
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        muon.step()
        adam.step()
        step += 1
        seen += inputs.numel() * options.processes
        learned += len(rows)
        total += loss.item() * len(rows)
        right += (logits.argmax(-1) == targets).sum().item()
        if step % 25 == 0:
            say(f"step {step} loss {total / learned:.4f} right {right / learned:.4f} {seen / (time.time() - since):.0f} tokens/s")
            since, seen, learned, total, right = time.time(), 0, 0, 0.0, 0
        if step % 250 == 0:
            save()
    save()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--start", help="checkpoint to begin from when --work has none under --name")
    parser.add_argument("--name", default="model")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--decay", type=int, default=800, help="how many of the last steps the learning rate falls in")
    parser.add_argument("--tokens", type=int, default=3072, help="tokens a batch and process")
    parser.add_argument("--muon", type=float, default=0.02)
    parser.add_argument("--adam", type=float, default=0.004)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    make_tokenizer(os.path.join(options.work, "tokenizer.json"))
    options.meeting = tempfile.mktemp()
    processes.spawn(work, (options,), options.processes)


if __name__ == "__main__":
    main()
