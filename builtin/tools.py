"""Tool use: which tools a conversation lists, requests that call one of them, and answers from a tool's result.

The model knows a tool only by its line in the listing, so names, parameters and descriptions are drawn at random, and the
request shares words with its tool.
"""

import json

import words

_THINGS = """weather price population temperature forecast status schedule address distance score capital history menu rating size
stock news traffic humidity altitude balance definition phone email location owner version time date""".split()
_GETTERS = ["get_{}", "get_{}", "get_{}", "fetch_{}", "lookup_{}", "find_{}", "{}_lookup", "read_{}", "query_{}", "check_{}", "show_{}", "{}"]
_PLACE_KEYS = ["city", "city", "location", "place", "name", "country", "query", "item", "id", "key", "subject", "target", "q", "town"]
_OPERATIONS = [("add", ["Add {} and {}.", "What is {} + {}?", "What is {} plus {}?", "{} + {}", "Use the tool to add {} and {}.", "{}+{}",
                        "Please add {} and {}"]),
               ("multiply", ["Multiply {} by {}.", "What is {} times {}?", "What is {} * {}?", "Multiply {} and {}"]),
               ("subtract", ["Subtract {} and {}.", "What is {} - {}?", "What is {} minus {}?"]),
               ("divide", ["Divide {} by {}.", "What is {} / {}?", "What is {} divided by {}?"]),
               ("power", ["What is {} to the power of {}?", "Raise {} to the power {}."]),
               ("compare", ["Compare {} and {}.", "Compare {} with {}."])]
_NUMBER_KEYS = [("a", "b"), ("a", "b"), ("a", "b"), ("x", "y"), ("first", "second"), ("left", "right"), ("n", "m"), ("num1", "num2")]


def _tool(name, parameters, description, required=None, optional=()):
    properties = {key: {"type": kind} for key, kind in parameters}
    for key, kind in optional:
        properties[key] = {"type": kind}
    schema = {"type": "object", "properties": properties}
    schema["required"] = [key for key, _ in parameters] if required is None else required
    if not optional and random_free(name):
        schema.pop("required")
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def random_free(name):
    """Some schemas omit `required`; the name decides which, so no generator is needed."""
    return sum(map(ord, name)) % 7 == 0


def _place(rng):
    roll = rng.random()
    return rng.choice(words.CITIES) if roll < 0.4 else words.name(rng) if roll < 0.6 else words.pseudo_word(rng).capitalize() \
        if roll < 0.85 else words.word(rng)


def _optional(rng):
    if rng.random() < 0.8:
        return ()
    return ((rng.choice(("unit", "units", "format", "limit", "lang", "verbose", "days")), rng.choice(("string", "integer", "boolean"))),)


def _styled(rng, name):
    """get_weather, getWeather, get-weather."""
    roll = rng.random()
    if roll < 0.86:
        return name
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest) if roll < 0.95 else "-".join((first, *rest))


def _lookup(rng):
    thing = rng.choice(_THINGS) if rng.random() < 0.45 else rng.choice(words.NOUNS) if rng.random() < 0.7 else words.pseudo_word(rng)
    key = rng.choice(_PLACE_KEYS) if rng.random() < 0.85 else words.pseudo_word(rng, 2)
    name = _styled(rng, rng.choice(_GETTERS).format(thing))
    description = rng.choice(("", f"Get the {thing} of a {key}", f"Get the {thing} for a {key}.", f"Returns the {thing}", f"Get current {thing} in a given {key}",
                              f"Look up the {thing}.", f"Get the current {thing} for a {key}", f"The {thing} of one {key}.", words.sentence(rng)))
    value = _place(rng)
    asked = rng.choice((f"What is the {thing} in {value}?", f"What is the {thing} of {value}?", f"What is the {thing} for {value}?",
                        f"What's the {thing} in {value}?", f"What's the {thing} like in {value}?", f"How is the {thing} in {value}?",
                        f"Tell me the {thing} of {value}.", f"Get the {thing} for {value}.", f"{thing.capitalize()} in {value}?",
                        f"Show me the {thing} in {value}.", f"I want to know the {thing} of {value}.", f"Find the {thing} for {value}",
                        f"Can you check the {thing} in {value}?", f"what is the {thing} in {value}", f"Please look up the {thing} in {value}.",
                        f"What {thing} does {value} have?", f"What is the current {thing} in {value}?", f"What is the {thing} in {value} today?",
                        f"What is the {thing} in {value} right now?"))
    return thing, _tool(name, [(key, "string")], description, optional=_optional(rng)), asked, {key: value}


def _operation(rng):
    verb, asked = rng.choice(_OPERATIONS) if rng.random() < 0.5 else _OPERATIONS[0]
    keys = rng.choice(_NUMBER_KEYS)
    numbers = [int(words.number(rng)) if rng.random() < 0.4 else rng.randint(0, 99) for _ in keys]
    kind = rng.choice(("integer", "number"))
    name = _styled(rng, rng.choice(("{}", "{}", "{}", "{}_numbers", "{}_two", "calc_{}", "do_{}")).format(verb))
    description = rng.choice(("", f"{verb.capitalize()} two numbers", f"{verb.capitalize()} two numbers.", f"{verb.capitalize()} {keys[0]} and {keys[1]}"))
    return verb, _tool(name, [(key, kind) for key in keys], description), rng.choice(asked).format(*numbers), dict(zip(keys, numbers))


def _action(rng):
    """Verbs with their own parameters."""
    who, text, place, other = words.name(rng), words.sentence(rng).lower(), _place(rng), _place(rng)
    number, noun = rng.randint(1, 90), rng.choice(words.NOUNS)
    topic, lang = words.word(rng), rng.choice(words.LANGUAGES)
    cases = [
        ("message", "send_message", [("to", "string"), ("text", "string")], "Send a message", f"Send a message to {who}: {text}", [who, text]),
        ("email", "send_email", [("to", "string"), ("body", "string")], "Send an email", f"Send an email to {who}: {text}", [who, text]),
        ("timer", "set_timer", [("minutes", "integer")], "Set a timer", f"Set a timer for {number} minutes.", [number]),
        ("alarm", "set_alarm", [("hour", "integer")], "Set an alarm", f"Set an alarm for {number % 24}.", [number % 24]),
        ("search", "search", [("query", "string")], "Search the web", f"Search for {topic}.", [topic]),
        ("search", "web_search", [("query", "string")], "Search the web for a query", f"Search the web for {topic} {noun}", [f"{topic} {noun}"]),
        ("open", "open_file", [("path", "string")], "Open a file", f"Open the file {noun}.txt", [f"{noun}.txt"]),
        ("play", "play_song", [("title", "string")], "Play a song", f"Play the song {topic}.", [topic]),
        ("lamp", "turn_on", [("device", "string")], "Turn a device on", f"Turn on the {noun}.", [noun]),
        ("lamp off", "turn_off", [("device", "string")], "Turn a device off", f"Turn off the {noun}.", [noun]),
        ("flight", "book_flight", [("origin", "string"), ("destination", "string")], "Book a flight", f"Book a flight from {place} to {other}.", [place, other]),
        ("travel", "get_distance", [("from", "string"), ("to", "string")], "Distance between two places", f"How far is it from {place} to {other}?", [place, other]),
        ("translate", "translate", [("text", "string"), ("language", "string")], "Translate a text", f"Translate {topic} to {lang}.", [topic, lang]),
        ("remind", "create_reminder", [("text", "string")], "Create a reminder", f"Remind me to {rng.choice(words.BASE_VERBS)} the {noun}.", None),
        ("clock", "get_time", [], "Get the current time", rng.choice(("What time is it?", "Tell me the time.", "What is the time?")), []),
        ("today", "get_date", [], "Get the current date", rng.choice(("What day is it?", "What is the date?", "What is the date today?")), []),
        ("dice", "roll_dice", [("sides", "integer")], "Roll dice", f"Roll a dice with {number} sides.", [number]),
    ]
    label, name, parameters, description, asked, values = rng.choice(cases)
    if values is None:
        values = [asked[len("Remind me to "):-1]]
    description = description if rng.random() < 0.7 else ""
    if rng.random() < 0.2:
        asked = asked[0].lower() + asked[1:]
    return label, _tool(_styled(rng, name), parameters, description), asked, dict(zip((key for key, _ in parameters), values))


def _named(rng):
    """A request that names the tool and its values."""
    name = _styled(rng, f"{rng.choice(words.BASE_VERBS)}_{rng.choice(words.NOUNS)}" if rng.random() < 0.6 else words.pseudo_word(rng))
    keys = list(dict.fromkeys(words.pseudo_word(rng, 1) if rng.random() < 0.2 else rng.choice(words.NOUNS) for _ in range(rng.choice((1, 1, 2, 3)))))
    kinds = [rng.choice(("string", "string", "integer")) for _ in keys]
    values = [_place(rng) if kind == "string" else int(words.number(rng)) for kind in kinds]
    style = rng.choice(("{} {}", "{}={}", "{}: {}", "{} = {}"))
    listing = rng.choice((", ", " and ")).join(style.format(key, value) for key, value in zip(keys, values))
    asked = rng.choice((f"Call {name} with {listing}.", f"Use {name} with {listing}.", f"Call {name}: {listing}", f"Please call {name} with {listing}",
                        f"Run {name} with {listing}.", f"Use the tool {name} with {listing}.", f"Call the tool {name} with {listing}."))
    description = rng.choice(("", words.sentence(rng), f"Use {name}"))
    return name, _tool(name, list(zip(keys, kinds)), description), asked, dict(zip(keys, values))


def case(rng):
    """(label, tool, request, arguments): one tool and a request for it."""
    return rng.choices((_lookup, _operation, _action, _named), (5, 2.5, 3, 1.5))[0](rng)


def cases(rng, count):
    """Cases with distinct labels and names, so that a request fits only one tool."""
    chosen = []
    while len(chosen) < count:
        candidate = case(rng)
        if all(candidate[0] != other[0] and candidate[1]["function"]["name"] != other[1]["function"]["name"] for other in chosen):
            chosen.append(candidate)
    return chosen


def _result(rng):
    """(content of the tool turn, the answer to it)."""
    roll = rng.random()
    if roll < 0.4:
        fields = {}
        for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
            key = rng.choice(_THINGS + ["result", "value", "sum", "unit", "city", "condition", "answer", "ok", "temp_c", "wind_speed"]) \
                if rng.random() < 0.8 else words.pseudo_word(rng)
            decimal = float(f"{rng.randint(0, 99)}.{rng.randint(1, 9)}")
            fields[key] = rng.choice((rng.randint(0, 99), int(words.number(rng)), decimal, words.word(rng), rng.choice(words.ADJECTIVES), _place(rng)))
        separators = (",", ":") if rng.random() < 0.5 else (", ", ": ")
        said = ", ".join(f"{key} is {value}" for key, value in fields.items())
        return json.dumps(fields, ensure_ascii=False, separators=separators), f"The tool says: {said}."
    if roll < 0.6:
        text = words.number(rng) if rng.random() < 0.8 else f"{rng.randint(0, 99)}.{rng.randint(0, 9)}"
        if rng.random() < 0.3:
            text += rng.choice((" degrees", "°C", " km", " %", " euros", " C"))
        return text, f"The tool says: {text}."
    text = words.phrase(rng, 10) if rng.random() < 0.6 else \
        f"{rng.choice(('Sunny', 'Cloudy', 'Rainy', 'sunny', 'windy', 'clear'))}, {rng.randint(-10, 40)} degrees"
    text = text.rstrip(".!?")
    if rng.random() < 0.15:
        return f'"{text}"', f'The tool says: "{text}".'
    return text + rng.choice(("", "", ".")), f"The tool says: {text}."


def exchange(rng, chosen):
    """The messages of one request that calls a tool, with the result and its answer unless the conversation ends at the call."""
    _, tool, asked, arguments = chosen
    call = {"type": "function", "id": "call_0", "function": {"name": tool["function"]["name"], "arguments": arguments}}
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    content, said = _result(rng)
    return messages + [{"role": "tool", "content": content}, {"role": "assistant", "content": said}]
