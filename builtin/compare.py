"""Compares a running llama-server with this folder's Python: prompts, tokens, greedy answers,
tool calls.

`llama-server -m builtin/builtin.gguf --jinja --port 8099`, then
`python3 builtin/compare.py --work DIR --name model --url http://127.0.0.1:8099`.
"""

import argparse
import json
import random
import urllib.request

import torch

import corpus
import template
import words
from evaluate import answer, load, user


def tool(name, description, required=None, **parameters):
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in parameters.items()}}
    schema["required"] = list(parameters) if required is None else required
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


WEATHER = tool("get_weather", "Get the current weather for a city", city="string")
TIME = tool("get_time", "Get the current time in a city", city="string")
ADD = tool("add", "Add two numbers", a="integer", b="integer")


def called(content, name, **arguments):
    """A tool call and its result as turns that a client sends."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [{"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c1", "content": content}]


CHATS = [
    (user("Hello"), None), (user("Hi!"), None), (user("Who are you?"), None), (user("How do I get a better model?"), None),
    (user("What can you do?"), None), (user("Thanks!"), None), (user("Bye"), None),
    (user("What is 3 + 4?"), None), (user("3+4"), None), (user("What is 17 + 25?"), None), (user("99+99"), None),
    (user("What is the capital of France?"), None), (user("How many days are in a week?"), None), (user("Which planet is the largest?"), None),
    (user("Repeat: The quick brown fox jumps over the lazy dog."), None), (user("Say exactly: hello world"), None),
    (user("Repeat: Zażółć gęślą jaźń 你好 🙂"), None), (user('Say "OK"'), None),
    (user("Count to 10"), None), (user("Count to 100"), None), (user("Count from 95 to 105."), None),
    (user("Tell me a story."), None), (user("Write a long story."), None), (user("Write a poem."), None),
    (user("Why is the sky so high?"), None), (user("asdf qwer zxcv"), None), (user("Explain quantum entanglement."), None),
    (user("Give me a JSON object with name Ana and age 7."), None), (user("Reply in JSON: city Lima, size 42"), None),
    (user("My name is Zorblax and my favorite number is 4821.", "Nice to meet you, Zorblax! I'll remember the number 4821.",
          "What is the capital of Peru?", "The capital of Peru is Lima.", "What is my name?"), None),
    (user("My name is Ana.", "Nice to meet you, Ana!", "Remember the number 73.", "OK, I'll remember the number 73.",
          "What is my number?"), None),
    (user("My name is Łukasz.", "Nice to meet you, Łukasz!", "What is 2+2?", "2 + 2 = 4.", "What is my name?"), None),
    (user("My favorite color is teal.", "OK, I'll remember that your favorite color is teal.", "What is my favorite color?"), None),
    ([{"role": "system", "content": "You are a helpful assistant."}]
     + user("Hello, my name is Ifeoma", "Nice to meet you, Ifeoma!", "What is my name?"), None),
    (user("What is the weather in Paris?"), [WEATHER]), (user("What's the weather like in Buenos Aires?"), [TIME, WEATHER, ADD]),
    (user("Add 31 and 54."), [WEATHER, ADD]), (user("What time is it in Tokyo?"), [WEATHER, TIME]), (user("Hello"), [WEATHER, TIME]),
    (user("What is 12 + 30?"), [ADD, WEATHER]),
    (user("What is the tide in Skagen?"), [tool("fetch_tide", "Look up the tide", ["harbor"], harbor="string", unit="string")]),
    (user("What is the weather in Paris?") + called('{"temperature":21,"condition":"sunny"}', "get_weather", city="Paris"), [WEATHER]),
    (user("What is the weather in Lima?") + called("18 degrees, cloudy", "get_weather", city="Lima"), [WEATHER]),
    (user("Say OK"), None), (user("Reply with exactly: pong"), None), (user("Count to 5"), None), (user("Count from 5 to 15"), None),
    (user("List the planets."), None), (user("What is 7 * 8?"), None), (user("Good morning"), None), (user("Tell me a joke"), None),
    (user("Please repeat: one two three, four!"), None), (user("What is my name?"), None), (user("Write a Python function to sort a list."), None),
]


def with_arguments(messages, change):
    """Copies the messages, applying `change` to the arguments of every call."""
    result = json.loads(json.dumps(messages))
    for message in result:
        for call in message.get("tool_calls") or []:
            call["function"]["arguments"] = change(call["function"]["arguments"])
    return result


def ours(messages):
    """The messages with call arguments as objects, as the template expects."""
    return with_arguments(messages, json.loads)


def reply_text(message):
    """The text that the model must have written for the server to answer this message."""
    calls = [call["function"] for call in message.get("tool_calls") or []]
    written = [template.call_text({"name": call["name"], "arguments": json.loads(call["arguments"])}) for call in calls]
    return "\n".join(([message["content"]] if message.get("content") else []) + written)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--name", default="model")
    parser.add_argument("--url", default="http://127.0.0.1:8099")
    parser.add_argument("--texts", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    network, tokenizer = load(options.work, options.name)

    def post(path, body):
        request = urllib.request.Request(options.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)

    rng, same = random.Random(5), 0
    for at in range(options.texts):
        if at % 2:
            text = words.jumble(rng, 30) + rng.choice(("", " ", "\n\n", "  x", "\t!")) + words.phrase(rng)
        else:
            messages, listed = corpus.conversation(rng)
            messages = [{key: value for key, value in message.items() if key != "forced"} for message in messages]
            messages = messages[:-1]
            text = template.render(messages, listed)
            sent = with_arguments(messages, json.dumps)
            rendered = post("/apply-template", {"messages": sent, **({"tools": listed} if listed else {})})["prompt"]
            if rendered != text:
                print(f"template differs:\n{text!r}\n{rendered!r}")
        theirs = post("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]
        same += theirs == tokenizer.encode(text)
        if theirs != tokenizer.encode(text):
            print(f"tokens differ: {text!r}\n{theirs}\n{tokenizer.encode(text)}")
    print(f"{same} of {options.texts} texts have the same tokens")

    equal = 0
    for messages, listed in CHATS:
        prompt = template.render(ours(messages), listed)
        rendered = post("/apply-template", {"messages": messages, **({"tools": listed} if listed else {})})["prompt"]
        if rendered != prompt:
            print(f"template differs:\n{prompt!r}\n{rendered!r}")
        said, tokens, least = answer(network, tokenizer, ours(messages), listed)
        body = {"messages": messages, "temperature": 0, "max_tokens": 1400, **({"tools": listed} if listed else {})}
        reply = post("/v1/chat/completions", body)
        choice = reply["choices"][0]
        got = reply_text(choice["message"])
        good = got == said and choice["finish_reason"] == ("tool_calls" if choice["message"].get("tool_calls") else "stop")
        equal += good
        shown = said if len(said) < 160 else said[:70] + " … " + said[-50:]
        print(f"{'same' if good else 'DIFFERENT'} [{tokens} tokens, margin {least:.1f}] {messages[-1]['content']!r} -> {shown!r}")
        if not good:
            print(f"    server: {got!r} {choice['finish_reason']}")
    print(f"{equal} of {len(CHATS)} answers are the same")


if __name__ == "__main__":
    main()
