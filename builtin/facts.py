"""What the built-in model knows: about thirty facts with their phrasings, sums, and its replies when it does not know."""

import words

CAPITALS = {"France": "Paris", "Spain": "Madrid", "Italy": "Rome", "Germany": "Berlin", "Portugal": "Lisbon", "Japan": "Tokyo",
            "Peru": "Lima", "Egypt": "Cairo", "Greece": "Athens", "Poland": "Warsaw", "Ireland": "Dublin", "England": "London",
            "Norway": "Oslo", "Canada": "Ottawa", "China": "Beijing", "India": "New Delhi", "Mexico": "Mexico City",
            "Argentina": "Buenos Aires", "Bolivia": "Sucre", "Russia": "Moscow"}

_FACTS = [
    (["How many days are in a week?", "How many days are there in a week?", "How many days does a week have?"],
     "There are 7 days in a week."),
    (["How many months are in a year?", "How many months are there in a year?", "How many months does a year have?"],
     "There are 12 months in a year."),
    (["How many days are in a year?", "How many days are there in a year?", "How many days does a year have?"],
     "There are 365 days in a year, and 366 in a leap year."),
    (["How many hours are in a day?", "How many hours are there in a day?", "How many hours does a day have?"],
     "There are 24 hours in a day."),
    (["How many minutes are in an hour?", "How many minutes are there in an hour?", "How many minutes does an hour have?"],
     "There are 60 minutes in an hour."),
    (["How many seconds are in a minute?", "How many seconds are there in a minute?", "How many seconds does a minute have?"],
     "There are 60 seconds in a minute."),
    (["How many planets are in the solar system?", "How many planets are there?", "How many planets does the sun have?"],
     "There are 8 planets in the solar system."),
    (["What is the largest planet?", "Which planet is the largest?", "What is the biggest planet?",
      "What is the largest planet in the solar system?"], "Jupiter is the largest planet."),
    (["What is the smallest planet?", "Which planet is the smallest?", "What is the smallest planet in the solar system?"],
     "Mercury is the smallest planet."),
    (["Which planet is closest to the sun?", "What planet is closest to the sun?", "What is the closest planet to the sun?"],
     "Mercury is closest to the sun."),
    (["Which planet do we live on?", "What planet do we live on?", "What planet are we on?"], "We live on planet Earth."),
    (["What is the largest ocean?", "Which ocean is the largest?", "What is the biggest ocean?"], "The Pacific is the largest ocean."),
    (["How many continents are there?", "How many continents are on Earth?"], "There are 7 continents."),
    (["What color is the sky?", "What is the color of the sky?", "Which color is the sky?"], "The sky is blue."),
    (["What color is grass?", "What is the color of grass?", "What color is the grass?"], "Grass is green."),
    (["What color is a banana?", "What is the color of a banana?", "What color are bananas?"], "Bananas are yellow."),
    (["How many legs does a spider have?", "How many legs has a spider?"], "A spider has 8 legs."),
    (["How many legs does a dog have?", "How many legs has a dog?"], "A dog has 4 legs."),
    (["How many legs does a llama have?", "How many legs has a llama?"], "A llama has 4 legs."),
    (["What is a llama?", "Tell me about llamas.", "What are llamas?"],
     "A llama is a woolly animal of the Andes that carries loads."),
    (["At what temperature does water boil?", "When does water boil?", "What is the boiling point of water?"],
     "Water boils at 100 degrees Celsius."),
    (["At what temperature does water freeze?", "When does water freeze?", "What is the freezing point of water?"],
     "Water freezes at 0 degrees Celsius."),
    (["What is the chemical formula of water?", "What is the formula of water?", "What is the chemical formula for water?"],
     "The formula of water is H2O."),
    (["How many letters are in the alphabet?", "How many letters are there in the English alphabet?",
      "How many letters does the alphabet have?"], "There are 26 letters in the English alphabet."),
    (["What is the opposite of hot?", "What's the opposite of hot?"], "The opposite of hot is cold."),
    (["What is the opposite of big?", "What's the opposite of big?"], "The opposite of big is small."),
    (["What does CPU stand for?", "What is a CPU?"], "CPU stands for central processing unit."),
    (["What does GPU stand for?", "What is a GPU?"], "GPU stands for graphics processing unit."),
    (["What day comes after Monday?", "Which day comes after Monday?", "What is the day after Monday?"], "Tuesday comes after Monday."),
    (["What is the first month of the year?", "Which month is the first of the year?", "What is the first month?"],
     "January is the first month of the year."),
    (["List the days of the week.", "Name the days of the week.", "What are the days of the week?", "List the weekdays."],
     "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday."),
    (["List the months of the year.", "Name the months of the year.", "What are the months of the year?", "List the months."],
     "January, February, March, April, May, June, July, August, September, October, November, December."),
    (["List the planets.", "Name the planets.", "What are the planets?", "List the planets of the solar system."],
     "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune."),
    (["List the primary colors.", "Name three colors.", "List three colors.", "What are the primary colors?"], "Red, yellow, blue."),
    (["Say the alphabet.", "List the letters of the alphabet.", "Recite the alphabet.", "What is the alphabet?"],
     "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z."),
    (["List three fruits.", "Name three fruits."], "Apple, banana, orange."),
    (["List three animals.", "Name three animals."], "Llama, dog, cat."),
]

DONT_KNOW = "I'm a tiny model, I don't know that. A larger model might: try recua pull."
TOO_LARGE = "I'm a tiny model, I can only add numbers up to 99."

_UNKNOWN = """Why is the {n} {a}?|What is the meaning of {n}?|What is the meaning of life?|Explain {n} {n2}.
Explain how a {n} works.|Who invented the {n}?|Who discovered {n}?|Who wrote the {a} {n}?|Who is {name}?
Who is the president of {place}?|Who is the best {n}?|Who won the {n} in {year}?|When was the {n} invented?
When did the {a} {n} end?|When was {name} born?|Where is {place}?|Where can I find a {a} {n}?|Where does the {n} come from?
How do I {v} a {n}?|How do I {v} a {n} in {place}?|How can I {v} my {n}?|How many {n}s are in {place}?
How many people live in {place}?|How tall is the {n}?|How old is the {n}?|How far is {place}?|How much does a {n} cost?
How does a {n} {v} a {n2}?|What is a {n}?|What is the {a} {n}?|What is the difference between a {n} and a {n2}?|What is {w}?
What does {w} mean?|What happened in {year}?|What is the best {n} for a {n2}?|What should I {v} today?
What is your opinion on {n}?|What do you think about the {n}?|What is the population of {place}?|What is the price of {n}?
What time is it?|What day is it today?|What is the weather today?|What is the news?|Write a program that {v}s a {n}.
Write a Python function to {v} a {n}.|Write code to {v} a {n}.|Write an essay about {n}.|Write an email to {name} about the {n}.
Write a song about {n}.|Translate {w} to {lang}.|Translate "{s}" into {lang}.|How do you say {n} in {lang}?|Summarize the {n}.
Summarize this: {s}.|Can you {v} a {n}?|Can a {n} {v} a {n2}?|Do you like {n}?|Do you know {name}?|Do {n}s {v}?|Is a {n} {a}?
Is it true that {s}?|Are {n}s {a}?|Should I {v} the {n}?|Give me a recipe for {n}.|Give me advice about my {n}.
Give me an example of {n}.|Recommend a {n}.|Suggest a {a} {n}.|Describe the {n}.|Describe a {a} {n}.|Compare {n} and {n2}.
Define {w}.|Discuss {n}.|Plan a trip to {place}.|I need help with my {n}.|I have a problem with the {n}.|My {n} is {a}.
The {n} is {a}.|I like {n}.|I think the {n} {v}s.|What are the benefits of {n}?|What are {n}s made of?
What is the history of {place}?|What language do they speak in {place}?|Which {n} is {a}?|Which is better, {n} or {n2}?
Why do {n}s {v}?|Why does the {n} {v}?|Why did {name} {v} the {n}?|Tell me about {n}.|Tell me about {place}.
Tell me about {name}.|Tell me more about the {a} {n}.|Tell me the truth about {n}.|What is the square root of {num}?
How does {w} work?|What is {w} {w2}?|{w} {w2}?|{w} {w2} {w}|{s}|{s}.|{s}!|{s}?|{w}|{w}?|{n}|{n}?|{a} {n}
Is there {n} in {place}?|Does {name} {v} {n}s?|Could you {v} the {n}?|Would you {v} a {n}?|Explain quantum physics.
Explain machine learning.|Explain the theory of relativity.|What is quantum computing?|What is machine learning?
What is artificial intelligence?|What is the capital of {nowhere}?|What's the capital of {nowhere}?|Capital of {nowhere}?
What color is the {n}?|What color is a {n}?|How many legs does a {n} have?|What is the opposite of {a}?|What is the largest {n}?
What is the smallest {n}?|How many {n}s are there?|How many {n}s are in a {n2}?|List the {n}s.|List all {a} {n}s.|Name the {n}s.
Name a {a} {n}.|What is the formula of {n}?|def {w}({w2}): return {w2}|for {w} in {w2}: print({w})|SELECT {w} FROM {w2};
<{w}>{w2}</{w}>|{w}={num}|import {w}|function {w}() {{ return {num}; }}|Hola, ¿qué es {w}?|Was ist {w}?|Qu'est-ce que {w} ?
Czym jest {w}?|¿Dónde está {place}?|Wie geht es dir?|Comment ça va ?|Привет|你好""".replace("\n", "|").split("|")


def vary(rng, text):
    """The same request, typed as other people would."""
    roll = rng.random()
    if roll < 0.10:
        text = text.lower()
    elif roll < 0.12:
        text = text.upper()
    elif roll < 0.2:
        text = rng.choice(("Please tell me: ", "Hey, ", "OK. ", "Well, ", "Now, ", "And ", "So, ", "Question: ", "Tell me, ")) + text
    if rng.random() < 0.15 and text[-1] in ".?!":
        text = text[:-1]
    return text


def fact(rng):
    if rng.random() < 0.4:
        country = rng.choice(list(CAPITALS))
        asked = rng.choice((f"What is the capital of {country}?", f"What is the capital of {country}?", f"What's the capital of {country}?",
                            f"What is the capital city of {country}?", f"Which city is the capital of {country}?",
                            f"Name the capital of {country}.", f"Tell me the capital of {country}.", f"Capital of {country}?"))
        return vary(rng, asked), f"The capital of {country} is {CAPITALS[country]}."
    questions, answer = rng.choice(_FACTS)
    asked = rng.choice(questions)
    if rng.random() < 0.2:
        asked = asked.replace("What is", "What's")
    return vary(rng, asked), answer


def held_out_sum(first, second):
    """Pairs held out from training: about one in twelve of those with a number over twenty."""
    return max(first, second) > 20 and (first * 31 + second * 17) % 12 == 5


def addition(rng, held_out=False):
    while True:
        top = 20 if rng.random() < 0.25 and not held_out else 99
        first, second = rng.randint(0, top), rng.randint(0, top)
        if held_out_sum(first, second) == held_out:
            break
    asked = rng.choice((f"What is {first} + {second}?", f"{first}+{second}", f"{first} + {second}", f"{first} + {second} =",
                        f"{first}+{second}=?", f"What's {first} plus {second}?", f"What is {first} plus {second}?", f"What is {first}+{second}?",
                        f"Calculate {first} + {second}.", f"Add {first} and {second}.", f"How much is {first} + {second}?",
                        f"{first} + {second}?", f"What is the sum of {first} and {second}?", f"Compute {first}+{second}",
                        f"How much is {first} plus {second}?", f"{first} plus {second}"))
    return (asked if held_out else vary(rng, asked)), f"{first} + {second} = {first + second}."


def arithmetic(rng):
    """Small differences and products, and sums that are too large."""
    roll = rng.random()
    if roll < 0.4:
        first = rng.randint(0, 20)
        second = rng.randint(0, first)
        asked = rng.choice((f"What is {first} - {second}?", f"{first}-{second}", f"{first} - {second}", f"What is {first} minus {second}?"))
        return vary(rng, asked), f"{first} - {second} = {first - second}."
    if roll < 0.8:
        first, second = rng.randint(0, 10), rng.randint(0, 10)
        asked = rng.choice((f"What is {first} * {second}?", f"{first}*{second}", f"What is {first} times {second}?", f"{first} times {second}",
                            f"What is {first} x {second}?"))
        return vary(rng, asked), f"{first} * {second} = {first * second}."
    first, second = rng.randint(100, 99999), rng.randint(0, 99999)
    if rng.random() < 0.5:
        first, second = second, first
    return vary(rng, rng.choice((f"What is {first} + {second}?", f"{first}+{second}", f"What is {first} plus {second}?"))), TOO_LARGE


def unknown(rng):
    """A request about nothing that the model was taught."""
    roll = rng.random()
    if roll < 0.07:
        asked = words.jumble(rng, 12)
    elif roll < 0.12:
        asked = words.long_text(rng, rng.choice((2, 3, 4, 6, 9)))
        if rng.random() < 0.5:
            asked += rng.choice(("\n\n", " ")) + rng.choice(("What is this about?", "Summarize this.", "What do you think?", "Why?"))
    else:
        nowhere = rng.choice(words.PLACES) if rng.random() < 0.4 else words.pseudo_word(rng).capitalize()
        asked = rng.choice(_UNKNOWN).format(
            n=rng.choice(words.NOUNS), n2=rng.choice(words.NOUNS), a=rng.choice(words.ADJECTIVES), v=rng.choice(words.BASE_VERBS),
            w=words.word(rng), w2=words.word(rng), s=words.sentence(rng), name=words.name(rng), lang=rng.choice(words.LANGUAGES),
            place=nowhere if rng.random() < 0.5 else rng.choice(words.CITIES), num=words.number(rng), year=rng.randint(1000, 2030),
            nowhere=nowhere if nowhere not in CAPITALS else "Atlantis")
    return vary(rng, asked), DONT_KNOW
