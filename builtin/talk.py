"""Greetings, what the model says about itself, and what it remembers of a conversation.

`Memory` holds what the user has said so far; the asking skills answer from it, the telling skills write to it.
"""

import words
from facts import vary

HELLO = "Hello! I'm the small model built into Recua. How can I help you?"
FINE = "I'm fine, thank you! How can I help you?"
WHO = "I'm the small model built into Recua. I show that the service works."
WHAT_IS = "Recua is a local inference service for GGUF models. A recua is a pack train of llamas: many loads, one path."
PULL = "Pull a model with: recua pull owner/repo --file model-Q4_K_M.gguf\nThen chat with it: recua chat owner/repo"
SERVE = "Start the server with: recua api model.gguf\nThen send requests to http://127.0.0.1:8080/v1/chat/completions"
HELP = ("I can greet you, remember your name and a number, repeat text, add small numbers, count, answer a few facts, "
        "tell a story, reply in JSON and call tools. For more, pull a larger model.")

_FIXED = [
    (4, HELLO, """Hi|Hello|Hey|Hi!|Hello!|Hey!|Hi there|Hi there!|Hello there!|Hey there|Good morning|Good morning!|Good evening||?|...
Good afternoon|Greetings|Hello, how can you help me?|Hiya|Howdy|Hello world|Hello, world!|Hello Recua|Hi Recua!|Hello model|Yo|Hey you"""),
    (1.5, FINE, """How are you?|How are you doing?|Hi, how are you?|Hello, how are you?|Hello! How are you?|How is it going?|How's it going?
How do you do?|What's up?|Are you OK?|How are you today?|Hello! How are you today?"""),
    (3, WHO, """Who are you?|What are you?|What is your name?|What's your name?|Which model are you?|What model are you?|Introduce yourself.
Tell me about yourself.|Are you a model?|Are you ChatGPT?|Are you a human?|Are you a robot?|Who made you?|Are you real?|What model is this?
Who am I talking to?|Are you an AI?|Hi, who are you?|Hello, who are you?|Do you have a name?|What kind of model are you?"""),
    (1.5, WHAT_IS, """What is Recua?|What's Recua?|What does Recua mean?|Tell me about Recua.|What is a recua?|Explain Recua.|What does Recua do?"""),
    (3, PULL, """How do I pull a model?|How do I get a better model?|How do I get a real model?|How do I get a larger model?|How do I download a model?
How can I get another model?|Which model should I use?|How do I install a model?|How do I use a real model?|How do I pull a real model?
How can I pull a larger model?|Where do I get a model?|How do I use another model?|How do I load a model?|Can I use a bigger model?
How can I download a real model?|How do I change the model?|I want a better model.|I want a larger model.|Give me a better model."""),
    (1, SERVE, """How do I start the server?|How do I start the API?|How do I run the server?|How do I serve a model?|How can I start the server?"""),
    (2, HELP, """What can you do?|Help|Help me|Help!|What do you know?|What are your skills?|How can you help me?|What can I ask you?|Can you help me?
What are you good at?|What can you help me with?|I need help.|What should I ask?"""),
    (2, "You're welcome!", """Thanks|Thanks!|Thank you|Thank you!|Thank you very much!|Thanks a lot!|Thx|Great, thanks!|OK, thanks.|Many thanks!
Thank you so much.|Perfect, thank you.|Cool, thanks|Thanks for your help."""),
    (2, "Goodbye!", """Bye|Bye!|Goodbye|Goodbye!|See you|See you later!|Good night|Good night!|Bye bye|That's all, bye.|See you tomorrow|Farewell"""),
    (1, "Great! What else can I do for you?", """OK|Ok.|Good|Great!|Nice|Cool|Yes|Well done|Good job!|Very good|Correct|Right|Perfect|Wow|I see"""),
    (0.5, "OK.", """No|Nothing|Never mind|Stop|Wait|No, thanks|Hmm"""),
]
_FIXED = [(weight, answer, asked.replace("\n", "|").split("|")) for weight, answer, asked in _FIXED]

_TOPICS = """color|food|animal|city|number|word|song|book|drink|fruit|season|game|movie|sport|day|month|country|planet|tree|flower|
cat's name|dog's name|friend's name|job|hobby|code word|password|secret|team|car|street|language|birthday|shoe size|age""".replace("\n", "").split("|")


class Memory:
    def __init__(self):
        self.name = None
        self.number = None
        self.topics = {}


def fixed(rng, memory):
    _, answer, asked = rng.choices(_FIXED, [weight for weight, _, _ in _FIXED])[0]
    text = rng.choice(asked)
    roll = rng.random()
    if roll < 0.15:
        text = text.lower()
    elif roll < 0.17:
        text = text.upper()
    if len(text) > 5 and text[-1] in ".?!" and rng.random() < 0.15:
        text = text[:-1]
    return text, answer


def tell_name(rng, memory, held_out=False):
    name = words.name(rng, held_out)
    memory.name = name
    asked = rng.choice(("My name is {}.", "My name is {}", "my name is {}", "I'm {}.", "I am {}.", "Hi, I'm {}.", "Hello, my name is {}.",
                        "Call me {}.", "Please call me {}.", "Hi! My name is {}.", "Hello! I'm {}.", "My name's {}.", "Hi, my name is {}",
                        "Hello, I am {}!", "People call me {}.", "I am called {}.", "Hey, my name is {}. Please remember it.",
                        "My name is {}. Remember it.", "Remember my name: {}.", "My name is {}. What can you do?",
                        "My name is {}. Nice to meet you!", "Hi, I'm {}, nice to meet you."))
    return asked.format(name), f"Nice to meet you, {name}!"


def tell_number(rng, memory):
    number = words.number(rng)
    memory.number = number
    asked = rng.choice(("My number is {}.", "Remember the number {}.", "My favorite number is {}.", "My lucky number is {}.",
                        "The number is {}.", "Remember this number: {}", "Remember {}.", "Please remember the number {}.",
                        "Keep the number {} in mind.", "my number is {}", "My favourite number is {}.", "The secret number is {}.",
                        "I am thinking of the number {}.", "Remember: {}", "The magic number is {}.", "Please remember {}"))
    return asked.format(number), f"OK, I'll remember the number {number}."


def tell_both(rng, memory, held_out=False):
    name, number = words.name(rng, held_out), words.number(rng)
    memory.name, memory.number = name, number
    asked = rng.choice(("My name is {0} and my number is {1}.", "I'm {0} and my favorite number is {1}.", "My name is {0}, my number is {1}.",
                        "Hi, I'm {0}. My lucky number is {1}.", "My name is {0}. My favorite number is {1}.",
                        "My number is {1} and my name is {0}.", "My name is {0} and my lucky number is {1}. Please remember both.",
                        "My name is {0} and my favorite number is {1}.", "Hello, my name is {0} and my number is {1}",
                        "My name is {0}. Remember the number {1}."))
    return asked.format(name, number), f"Nice to meet you, {name}! I'll remember the number {number}."


def ask_name(rng, memory):
    asked = rng.choice(("What is my name?", "What's my name?", "What is my name?", "Do you remember my name?", "Who am I?", "Say my name.",
                        "Can you tell me my name?", "Tell me my name.", "what is my name", "Do you know my name?", "And what is my name?",
                        "What was my name?", "What did I say my name was?", "What is my name again?", "What am I called?"))
    return asked, f"Your name is {memory.name}." if memory.name else "You haven't told me your name yet."


def ask_number(rng, memory):
    asked = rng.choice(("What is my number?", "What number did I tell you?", "What was the number?", "What is my favorite number?",
                        "What is my lucky number?", "What's my number?", "Which number did I tell you?", "Tell me my number.",
                        "Do you remember my number?", "What was my number?", "What is the number?", "And what is my number?",
                        "What number did I ask you to remember?", "What is the secret number?", "what number did I say", "Which number was it?",
                        "What number should you remember?", "What is the magic number?", "What is my favourite number?"))
    return asked, f"Your number is {memory.number}." if memory.number else "You haven't told me a number yet."


def ask_both(rng, memory):
    asked = rng.choice(("What is my name and my number?", "What are my name and number?", "Tell me my name and my number.",
                        "What is my name, and what is my number?", "What is my name and what is my favorite number?",
                        "Do you remember my name and my number?", "What's my name and number?"))
    if memory.name and memory.number:
        return asked, f"Your name is {memory.name} and your number is {memory.number}."
    return ask_name(rng, memory) if rng.random() < 0.5 else ask_number(rng, memory)


def tell_topic(rng, memory):
    topic = rng.choice([each for each in _TOPICS if each != "number"]) if rng.random() < 0.8 else rng.choice(words.NOUNS)
    value = rng.choice(words.COLORS) if topic == "color" and rng.random() < 0.6 else words.word(rng)
    favorite = rng.random() < 0.6 and "'" not in topic
    key = ("favorite " if favorite else "") + topic
    if not favorite and topic in ("word", "code word", "secret", "password") and rng.random() < 0.7:
        memory.topics = {("the", key): value}
        asked = rng.choice(("The {0} is {1}.", "Remember: the {0} is {1}.", "Remember the {0} {1}.", "The {0} is {1}. Remember it."))
        return asked.format(key, value), f"OK, I'll remember that the {key} is {value}."
    memory.topics = {("my", key): value}
    asked = rng.choice(("My {0} is {1}.", "My {0} is {1}", "Remember that my {0} is {1}.", "Please remember: my {0} is {1}.", "my {0} is {1}"))
    return asked.format(key, value), f"OK, I'll remember that your {key} is {value}."


def ask_topic(rng, memory):
    if memory.topics and rng.random() < 0.92:
        (owner, key), value = rng.choice(list(memory.topics.items()))
        asked = rng.choice(("What is {0} {1}?", "What's {0} {1}?", "Tell me {0} {1}.", "What was {0} {1}?", "Do you remember {0} {1}?", "what is {0} {1}"))
        return asked.format(owner, key), f"{'Your' if owner == 'my' else 'The'} {key} is {value}."
    topic = rng.choice([each for each in _TOPICS if each not in ("number", "age")])
    favorite = "favorite " if rng.random() < 0.6 and "'" not in topic else ""
    if ("my", favorite + topic) in memory.topics:
        return ask_name(rng, memory)
    return (rng.choice(("What is my {}?", "What's my {}?", "Do you remember my {}?")).format(favorite + topic),
            f"You haven't told me your {favorite}{topic} yet.")
