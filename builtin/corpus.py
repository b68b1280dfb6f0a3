"""Whole training conversations: picks skills for the turns, a system prompt and tools, and encodes them for training.

`conversation(rng)` is the corpus; the same seed gives the same conversations. `encode` turns one into token ids, their
weights as training targets, and positions.
"""

import copying
import facts
import stories
import talk
import template
import tools
import words

_SYSTEM = """You are a helpful assistant.|You are a helpful assistant.|You are a helpful AI assistant.|Be brief.
Answer in English.|You are Recua.|You are a friendly chatbot.|Answer shortly and politely.|You are a test model.|Be concise.
You are an assistant that answers questions.|You are a pirate.|Always be polite.|You are helpful.
You are a helpful assistant. Be concise.|You are a terse assistant.|Reply in one sentence.|You can call tools.
Use the tools when they help.|You are an expert.""".replace("\n", "|").split("|")


def _unknown_skill(rng, memory):
    return facts.unknown(rng)


# Weight, name, skill. A skill takes (rng, memory) and returns (request, answer).
SKILLS = [
    (13, "fixed", talk.fixed), (4, "tell_name", talk.tell_name), (3.5, "tell_number", talk.tell_number), (4, "tell_both", talk.tell_both),
    (7, "ask_name", talk.ask_name), (6, "ask_number", talk.ask_number), (2, "ask_both", talk.ask_both),
    (4, "tell_topic", talk.tell_topic), (6, "ask_topic", talk.ask_topic),
    (20, "repeat", lambda rng, memory: copying.repeat(rng)), (9, "count", lambda rng, memory: copying.count(rng)),
    (6, "json", lambda rng, memory: copying.json_reply(rng)), (0.6, "json_default", lambda rng, memory: copying.json_default(rng)),
    (0.7, "json_forced", lambda rng, memory: copying.json_forced(rng)), (1.5, "random", lambda rng, memory: copying.random_answer(rng)),
    (10, "addition", lambda rng, memory: facts.addition(rng)), (3.5, "arithmetic", lambda rng, memory: facts.arithmetic(rng)),
    (12, "fact", lambda rng, memory: facts.fact(rng)), (2, "story", lambda rng, memory: stories.story(rng)),
    (13, "unknown", _unknown_skill),
]
_WEIGHTS = [weight for weight, _, _ in SKILLS]
_REMEMBERING = {"tell_name", "tell_number", "tell_both", "tell_topic"}
_ASKING = {"ask_name": "name", "ask_number": "number", "ask_topic": "topics"}


def _system(rng):
    roll = rng.random()
    if roll < 0.6:
        return None
    if roll < 0.82:
        return rng.choice(_SYSTEM)
    if roll < 0.97:
        return words.phrase(rng)
    return words.long_text(rng, rng.randint(3, 22))


def _turn(rng, memory, messages, skip):
    while True:
        _, name, skill = rng.choices(SKILLS, _WEIGHTS)[0]
        if name in skip or (name in _ASKING and not getattr(memory, _ASKING[name]) and rng.random() < 0.75):
            continue
        asked, answer = skill(rng, memory)
        break
    messages.append({"role": "user", "content": asked})
    if name == "json_forced":
        messages.append({"role": "assistant", "content": "".join(text for text, _ in answer), "forced": answer})
    else:
        messages.append({"role": "assistant", "content": answer})


def conversation(rng):
    """(messages, tools or None)."""
    if rng.random() < 0.24:
        return _drill(rng), None
    messages, memory = [], talk.Memory()
    system = _system(rng)
    if system is not None:
        messages.append({"role": "system", "content": system})
    listed, chosen = None, []
    if rng.random() < 0.38:
        chosen = tools.cases(rng, rng.choice((1, 1, 2, 2, 3, 4)))
        listed = [tool for _, tool, _, _ in chosen]
        rng.shuffle(listed)
    turns = rng.choice((1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6))
    if listed:
        turns = min(turns, 3)
    # With tools listed, the other turns omit requests that a tool could also answer.
    skip = {"addition", "arithmetic", "unknown", "json_forced", "random"} if listed else set()
    if rng.random() < 0.3 and not listed:  # tell a fact, something else, then ask
        told = rng.choice((talk.tell_name, talk.tell_number, talk.tell_both, talk.tell_topic))
        if rng.random() < 0.4:
            _turn(rng, memory, messages, _REMEMBERING | {"story"})
        for asked, answer in [told(rng, memory)]:
            messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
        for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
            _turn(rng, memory, messages, _REMEMBERING | {"story"})
        fitting = {talk.tell_name: (talk.ask_name,), talk.tell_number: (talk.ask_number,), talk.tell_topic: (talk.ask_topic,),
                   talk.tell_both: (talk.ask_name, talk.ask_number, talk.ask_both)}[told]
        for _ in range(rng.choice((1, 2))):
            ask = rng.choice(fitting if rng.random() < 0.85 else (talk.ask_name, talk.ask_number, talk.ask_both, talk.ask_topic))
            asked, answer = ask(rng, memory)
            messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
        return messages, None
    for at in range(turns):
        if chosen and rng.random() < 0.75:
            messages += tools.exchange(rng, rng.choice(chosen) if at else chosen[0])
            if at and messages[-4]["content"] in [message["content"] for message in messages[:-4]]:
                del messages[-4:]
        else:
            _turn(rng, memory, messages, skip)
    return messages, listed


def _drill(rng):
    """Only sums: the skill that needs the most examples, with few tokens around each."""
    messages = []
    for _ in range(rng.randint(2, 6)):
        asked, answer = facts.addition(rng) if rng.random() < 0.65 else facts.arithmetic(rng)
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return messages


def encode(tokenizer, messages, listed):
    """(ids, weights): the tokens of a conversation and their weights as targets; long answers count less per token."""
    ids, weights = [], []
    end = tokenizer.specials[template.IM_END]
    for part, spoken in template.segments(messages, listed):
        if not spoken:
            fresh = tokenizer.encode(part)
            ids += fresh
            weights += [0] * len(fresh)
            continue
        pieces = part["forced"] if isinstance(part, dict) else [(part, True)]
        pieces = [(tokenizer.encode(text), learned) for text, learned in pieces]
        weight = min(1, max(0.35, (20 / (1 + sum(len(fresh) for fresh, _ in pieces))) ** 0.5))
        for fresh, learned in pieces:
            ids += fresh
            weights += [weight * learned] * len(fresh)
        ids.append(end)
        weights.append(weight)
    return ids, weights


def spread(rng, ids, start, most):
    """Positions of the tokens, with gaps before some turns, so that few tokens teach distances up to `most`."""
    turns = [at for at, token in enumerate(ids) if token == start and at]
    positions, shift = [], 0
    room = most - len(ids)
    gaps = {}
    if turns and room > 0 and rng.random() < 0.5:
        for at in rng.sample(turns, min(len(turns), rng.choice((1, 1, 2, 3)))):
            gaps[at] = rng.randint(0, room)
            room -= gaps[at]
    for at in range(len(ids)):
        shift += gaps.get(at, 0)
        positions.append(at + shift)
    return positions
