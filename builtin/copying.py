"""Skills that copy and continue: repeating text, counting, replies in JSON, and answers drawn at random."""

import json

import words
from facts import vary

_REPEAT = ["Repeat: {}", "Repeat: {}", "Say exactly: {}", "Say: {}", "Repeat after me: {}", "Repeat the following: {}", "Repeat this: {}",
           "Repeat this sentence: {}", "Please repeat: {}", "Echo: {}", "Copy: {}", "Repeat the following sentence: {}",
           "Repeat exactly: {}", "Please say: {}", "Reply with exactly: {}", "Reply with: {}", "Answer with exactly: {}", "repeat: {}",
           "Write exactly: {}", "Say this: {}", "Reply only with: {}", "Please repeat this sentence: {}", "Repeat the text: {}",
           "Reply with exactly this text: {}", "Repeat after me:\n{}", "Repeat the following text exactly:\n{}", "Copy this text: {}"]
_QUOTED = ['Say "{}"', 'Repeat "{}"', 'Say "{}".', 'Please say "{}".', 'Repeat the words "{}".', 'Reply with "{}".', 'Say the words "{}"',
           'Repeat after me "{}"', 'Echo "{}"', 'Write "{}".']
_ONE_WORD = ["Say {}", "Reply with the word {}", "Reply with one word: {}", "Say the word {}", "Answer with one word: {}",
             "Reply with only the word {}", "Just say {}", "Repeat the word {}", "Reply with exactly one word: {}", "Repeat {}",
             "Reply with the single word {}", "Echo {}"]


def repeat(rng, longest=14):
    roll = rng.random()
    if roll < 0.62:
        text = words.phrase(rng, longest)
        if rng.random() < 0.06:
            text = words.long_text(rng, rng.randint(2, 3))
        asked = rng.choice(_REPEAT).format("\0")
    elif roll < 0.75:
        text = words.phrase(rng, longest).replace('"', "")
        asked = rng.choice(_QUOTED).format("\0")
    else:
        text = words.word(rng) if rng.random() < 0.85 else rng.choice(("OK", "OK", "yes", "no", "hello", "hi", "pong", "test", "done"))
        text = rng.choice((text, text, text, text, text.capitalize(), text.upper()))
        asked = rng.choice(_ONE_WORD).format("\0")
    if rng.random() < 0.05 and "Please" not in asked:
        asked = "Please " + asked[0].lower() + asked[1:]
    return asked.replace("\0", text), text


def count(rng):
    roll = rng.random()
    if roll < 0.5:
        last = rng.choices((rng.choice((3, 5, 10, 10, 20)), rng.choice((15, 25, 30, 30, 40, 50)), rng.randint(1, 20), rng.randint(21, 60),
                            rng.randint(61, 110), 100), (25, 20, 35, 20, 5, 4))[0]
        numbers = range(1, last + 1)
        asked = rng.choice(("Count to {1}.", "Count to {1}", "Count from {0} to {1}.", "Count up to {1}.", "Please count to {1}.",
                            "Can you count to {1}?", "Count from {0} to {1}", "count to {1}", "List the numbers from {0} to {1}."))
    elif roll < 0.9:
        first = rng.randint(0, 99 if rng.random() < 0.7 else 970)
        numbers = range(first, first + rng.choice((2, 3, 4, 5, 6, rng.randint(2, 25))))
        asked = rng.choice(("Count from {0} to {1}.", "Count from {0} to {1}", "List the numbers from {0} to {1}.",
                            "Please count from {0} to {1}."))
    else:
        numbers = range(rng.choice((10, 5, rng.randint(2, 20))), 0, -1)
        asked = rng.choice(("Count down from {0}.", "Count down from {0} to {1}.", "Count backwards from {0}.",
                            "Count backwards from {0} to {1}."))
    return asked.format(numbers[0], numbers[-1]), ", ".join(map(str, numbers)) + "."


def _value(rng):
    roll = rng.random()
    if roll < 0.4:
        return words.name(rng)
    if roll < 0.6:
        return int(words.number(rng))
    if roll < 0.85:
        return words.word(rng)
    if roll < 0.9:
        return rng.random() < 0.5
    return rng.choice(words.CITIES)


_KEYS = """name age city color country title price size id email status count level score year kind type label text word animal job
author message code value""".split()


def json_reply(rng):
    """An object from fields that the request names."""
    if rng.random() < 0.3:
        person = {"name": words.name(rng), "age": rng.randint(0, 99)}
        if rng.random() < 0.3:
            person["city"] = rng.choice(words.CITIES)
    else:
        keys = rng.sample(_KEYS, rng.choice((1, 1, 2, 2, 3)))
        person = {words.word(rng).lower() if rng.random() < 0.15 else key: _value(rng) for key in keys}
        person = {key: value for key, value in person.items() if '"' not in key}
    shown = {key: json.dumps(value) if isinstance(value, bool) else value for key, value in person.items()}
    style = rng.choice(("{} {}", "{} {}", "{}: {}", "{} = {}", "{} is {}", "{}={}"))
    fields = [style.format(key, value) for key, value in shown.items()]
    listing = ", ".join(fields) if rng.random() < 0.5 or len(fields) == 1 else ", ".join(fields[:-1]) + " and " + fields[-1]
    asked = rng.choice(("Give me a JSON object with {}.", "Reply in JSON: {}", "Reply in JSON with {}.", "Return JSON: {}", "Write JSON with {}.",
                        "Make a JSON object with {}.", "JSON: {}", "Answer in JSON: {}.", "Return a JSON object with {}.", "As JSON: {}",
                        "Output JSON with {}", "{}. Reply in JSON.", "Convert to JSON: {}", "Give me JSON with {}")).format(listing)
    if list(person) == ["name", "age"] and rng.random() < 0.4:
        asked = rng.choice(("My name is {name} and I am {age} years old. Reply in JSON.", "{name} is {age} years old. Reply in JSON.",
                            "Reply in JSON: {name} is {age} years old.", "My name is {name} and I'm {age}. Reply in JSON with name and age.",
                            "{name} is {age}. Give me JSON with name and age.", "I am {name}, {age} years old. Reply in JSON.")).format(**person)
    return asked, json.dumps(person, ensure_ascii=False)


def json_default(rng):
    """A request for JSON that names no values."""
    asked = rng.choice(("Give me a JSON object.", "Reply in JSON.", "Write some JSON.", "Give me a person as JSON.", "Describe a person in JSON.",
                        "Return a JSON object with name and age.", "Give me a JSON example.", "Output a JSON object.",
                        "Return a person as JSON with name and age.", "Generate a JSON object describing a person.", "Make up a person in JSON."))
    return vary(rng, asked), '{"name": "Pia", "age": 7}'


def json_forced(rng):
    """JSON whose keys a grammar forces: the model learns only to fill in a short value and to continue or close.

    Returns the request and parts (text, learned); parts end where the tokenizer splits."""
    asked = rng.choice(("Give me a JSON object.", "Reply in JSON.", "Describe a {}.", "What is a {}?", "Tell me about the {} in JSON.",
                        "Extract the data: {}", "Who is {}?", "{}")).format(words.word(rng))
    parts, count = [], rng.choice((1, 1, 2, 2, 3, 4))
    for at in range(count):
        key = rng.choice(words.NOUNS) if rng.random() < 0.4 else rng.choice(_KEYS) if rng.random() < 0.6 else words.pseudo_word(rng)
        parts.append((('{"' if at == 0 else ' "') + key + '":', False))
        close = "}" if at == count - 1 else ","
        kind = rng.choice(("string", "string", "string", "number", "word", "list"))
        if kind == "string":
            parts += [(' "', False), ("unknown", True), ('"' + close, True)]
        elif kind == "number":
            parts += [(" ", False), ("0", False), (close, True)]
        elif kind == "word":
            parts += [(rng.choice((" true", " false", " null")), False), (close, True)]
        else:
            parts += [(' ["', False), ("unknown", True), ('"]' + close, True)]
    return asked, parts


def random_answer(rng):
    """Requests whose answer should differ between samples."""
    roll = rng.random()
    if roll < 0.25:
        asked = rng.choice(("Pick a random number.", "Tell me a random number.", "Give me a random number.", "Say a random number."))
        return vary(rng, asked), f"{rng.randint(1, 100)}."
    if roll < 0.45:
        asked = rng.choice(("Flip a coin.", "Toss a coin.", "Heads or tails?"))
        return vary(rng, asked), rng.choice(("Heads.", "Tails."))
    if roll < 0.6:
        asked = rng.choice(("Roll a die.", "Roll a dice.", "Throw a die."))
        return vary(rng, asked), f"{rng.randint(1, 6)}."
    asked = rng.choice(("Say something random.", "Write a random sentence.", "Say something.", "Tell me something random.",
                        "Give me a random sentence.", "Write a sentence.", "Surprise me."))
    return vary(rng, asked), words.sentence(rng) + "."
