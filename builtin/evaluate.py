"""Measures a checkpoint by skill: `python3 builtin/evaluate.py --work DIR --name model`.

A case counts as right if the best token is the expected one at every position of every answer, which is the same as a
correct greedy answer. The margin is the best logit minus the second at those positions. Training did not show these names,
sums and texts. With --ask it answers the given requests instead.
"""

import argparse
import os
import random
from collections import defaultdict

import torch

import copying
import corpus
import facts
import stories
import talk
import template
import tokenizer as bpe
import tools
import words
from network import Network, Shape


def load(work, name):
    saved = torch.load(os.path.join(work, name + ".pt"), map_location="cpu")
    network = Network(Shape(**saved["shape"]))
    network.load_state_dict(saved["weights"])
    return network.eval(), bpe.Tokenizer.load(os.path.join(work, "tokenizer.json"))


@torch.no_grad()
def answer(network, tokenizer, messages, listed=None, most=1400):
    """(text, token count, smallest margin) of the greedy answer."""
    end = tokenizer.specials[template.IM_END]
    ids = tokenizer.encode(template.render(messages, listed))
    past = [[] for _ in network.blocks]
    fresh, made, least, place = ids, [], float("inf"), 0
    while len(made) < most:
        positions = torch.arange(place, place + len(fresh))[None]
        place += len(fresh)
        logits = network.logits(network.states(torch.tensor([fresh]), positions, past)[0, -1])
        best, second = logits.topk(2).values.tolist()
        token = int(logits.argmax())
        least = min(least, best - second)
        if token == end:
            break
        made.append(token)
        fresh = [token]
    return tokenizer.decode(made), len(made), least


def user(*turns):
    """Messages from alternating user and assistant texts."""
    return [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(turns)]


def single(skill):
    return lambda rng: (user(*skill(rng)), None)


def _fillers(rng, memory, count):
    messages = []
    for _ in range(count):
        skill = rng.choice((facts.fact, facts.addition, facts.unknown, copying.repeat, lambda rng: talk.fixed(rng, memory)))
        messages += user(*skill(rng))
    return messages


def recall(tell, ask):
    """Tells a fact with a name that training never shows, then other turns, then asks for it."""
    def make(rng):
        memory = talk.Memory()
        told = tell(rng, memory, True) if tell is not talk.tell_number and tell is not talk.tell_topic else tell(rng, memory)
        messages = user(*told) + _fillers(rng, memory, rng.randint(0, 3)) + user(*ask(rng, memory))
        messages[-1]["scored"] = True
        return messages, None
    return make


def tool_call(rng):
    chosen = tools.cases(rng, rng.randint(1, 3))
    messages = tools.exchange(rng, chosen[0])
    listed = [tool for _, tool, _, _ in chosen]
    rng.shuffle(listed)
    return messages[:2], listed


def tool_answer(rng):
    chosen = tools.cases(rng, rng.randint(1, 3))
    return tools.exchange(rng, chosen[0]), [tool for _, tool, _, _ in chosen]


def with_system(rng):
    messages, _ = recall(talk.tell_both, talk.ask_both)(rng)
    return [{"role": "system", "content": words.long_text(rng, rng.randint(1, 12))}] + messages, None


def sentence(rng):
    text = words.sentence(rng) + "."
    return user(f"Repeat: {text}", text), None


def whole(rng):
    while True:
        messages, listed = corpus.conversation(rng)
        if not any(message.get("forced") for message in messages):
            return messages, listed


SKILLS = {
    "fixed talk": single(lambda rng: talk.fixed(rng, talk.Memory())), "name recall": recall(talk.tell_name, talk.ask_name),
    "number recall": recall(talk.tell_number, talk.ask_number), "name and number": recall(talk.tell_both, talk.ask_both),
    "topic recall": recall(talk.tell_topic, talk.ask_topic), "repeat a sentence": sentence,
    "repeat anything": single(copying.repeat), "count": single(copying.count),
    "count to 100": lambda rng: (user("Count to 100.", ", ".join(map(str, range(1, 101))) + "."), None),
    "sums, held out": single(lambda rng: facts.addition(rng, True)), "sums": single(facts.addition), "arithmetic": single(facts.arithmetic),
    "facts": single(facts.fact), "unknown": single(facts.unknown), "stories": single(stories.story), "json": single(copying.json_reply),
    "tool call": tool_call, "tool answer": tool_answer, "long system": with_system, "conversations": whole,
}


@torch.no_grad()
def score(network, tokenizer, skill, count, seed, show):
    rng = random.Random(seed)
    right, margins, wrong = 0, [], []
    for _ in range(count):
        messages, listed = skill(rng)
        ids, weights = corpus.encode(tokenizer, messages, listed)
        if len(ids) > 1400:
            count -= 1
            continue
        if messages[-1].get("scored"):  # the last answer only
            last = len(ids) - 1 - ids[::-1].index(tokenizer.specials[template.IM_START])
            weights = [0] * last + weights[last:]
        inputs = torch.tensor([ids[:-1]])
        logits = network.logits(network.states(inputs, torch.arange(len(ids) - 1)[None])[0])
        places = torch.tensor(weights[1:]).nonzero()[:, 0]
        wanted = torch.tensor(ids[1:])[places]
        logits = logits[places]
        best = logits.topk(2).values
        hits = logits.argmax(-1) == wanted
        if bool(hits.all()):
            right += 1
            margins.append(float((best[:, 0] - best[:, 1]).min()))
        else:
            at = int((~hits).nonzero()[0, 0])
            before = tokenizer.decode(ids[: int(places[at]) + 1])[-160:]
            wrong.append((before, tokenizer.decode([int(logits[at].argmax())]), tokenizer.decode([int(wanted[at])])))
    margins.sort()
    for before, got, want in wrong[:show]:
        print(f"    …{before!r}\n      got {got!r}, expected {want!r}")
    return right / max(1, count), margins[0] if margins else 0, margins[len(margins) // 20] if margins else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--name", default="model")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=99)
    parser.add_argument("--show", type=int, default=0, help="how many wrong cases a skill to print")
    parser.add_argument("--only", default="", help="skills whose name has this in it")
    parser.add_argument("--ask", nargs="*", help="requests, one conversation")
    options = parser.parse_args()
    torch.set_num_threads(1)
    network, tokenizer = load(options.work, options.name)
    if options.ask:
        messages = []
        for asked in options.ask:
            messages.append({"role": "user", "content": asked})
            said, tokens, least = answer(network, tokenizer, messages)
            messages.append({"role": "assistant", "content": said})
            print(f"> {asked}\n{said}\n  [{tokens} tokens, margin {least:.1f}]")
        return
    totals = defaultdict(list)
    for name, skill in SKILLS.items():
        if options.only in name:
            count = 1 if name == "count to 100" else options.count // 4 if name in ("stories",) else options.count
            rate, least, low = score(network, tokenizer, skill, count, options.seed, options.show)
            totals["all"].append(rate)
            print(f"{name:20} {rate:7.1%}   least margin {least:5.2f}   5% below {low:5.2f}", flush=True)


if __name__ == "__main__":
    main()
