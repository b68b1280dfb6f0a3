"""Word lists and random text for the training conversations of the built-in model.

All of it was written for Recua or comes from a seeded random generator, so the text has no other source. Used by the skill
files; independent of turns and tokens.
"""

NAMES = """Alice Bob Carol David Emma Frank Grace Henry Irene Jack Karen Liam Maria Nora Oscar Paula Quentin Rosa Sam Tina
Ursula Victor Wendy Xavier Yara Zoe Anna Ben Clara Daniel Eva Felix Gina Hugo Ines Jonas Kira Leo Mia Noah Olga Peter Rita
Simon Tom Uma Vera Will Yusuf Zara Mohammed Fatima Chen Wei Mei Hiroshi Yuki Sakura Raj Priya Arjun Lakshmi Kofi Amara Chidi
Ngozi Kwame Thabo Zanele Sven Astrid Bjorn Freya Pierre Chloe Luc Giulia Marco Paolo Sofia Carlos Diego Lucia Pedro Dmitri
Ivan Katya Natasha Tomas Jana Milan Goran Zsofia Laszlo Eoin Niamh Sean Aoife Rhys Cerys Omar Leila Hassan Noor Ali Ahmed
Elif Mehmet Aylin Nguyen Linh Somchai Malee Putri Budi Tane Moana Kai Nalani Quispe Inti Killa Wayra Jose Renée Zoë Jürgen
Søren Łucja Øyvind Ángel Nuño François Chloé Günther Björk Agnieszka Małgorzata Đorđe Šimon Žofie José Márcia João""".split()

HELD_OUT_NAMES = ["Ana", "Zorblax", "Wilhelmina", "Ifeoma", "Łukasz", "Kate", "Bartholomew", "Ximena", "Tuan", "Oleksandr",
                  "Sigrid", "Jamal", "Beatrix", "Nils", "Penelope", "Qorvath", "Mikaela", "Dag", "Thelonious", "Ruby"]

NOUNS = """apple river house mountain book door window garden cloud bread table lamp road forest bridge stone bird horse
dog cat fish boat train ticket letter pencil paper phone kettle spoon plate cup chair sofa carpet mirror hat coat shoe button
wheel engine hammer nail rope basket bottle candle clock map key coin box wall roof street market school village city island
beach lake valley hill field farm tree leaf flower seed grass wind rain snow storm sun moon star planet sky ocean wave sand
desert camel llama wolf fox bear rabbit mouse owl eagle bee spider whale shark frog turtle music song drum guitar violin
picture story poem word number color shape line circle square teacher doctor farmer baker painter sailor driver pilot king
queen friend neighbor child brother sister mother father team game ball goal prize machine computer screen server model
memory file folder network signal battery cable robot rocket telescope microscope energy heat light sound metal gold silver
iron copper glass wood leather wool cotton sugar salt pepper rice soup cheese butter honey coffee tea milk juice lemon orange
banana potato tomato onion carrot history science law money price bank office factory army church museum theater library
hospital airport station harbor tunnel tower castle palace temple language question answer idea dream secret plan""".split()

ADJECTIVES = """big small old new red blue green yellow white black quick slow tall short long warm cold happy sad brave quiet
loud bright dark soft hard heavy light clean dirty rich poor strong weak young ancient modern simple strange famous hidden
broken golden silver wooden empty full sharp round flat deep shallow wild gentle lazy clever honest patient hungry tired
purple orange pink grey brown fresh sweet bitter salty cheap expensive early late near far""".split()

VERBS = """sees finds takes brings likes opens closes paints builds breaks carries follows watches hears knows wants needs
loves sells buys washes moves turns drops lifts holds pushes pulls counts reads writes draws eats drinks cooks plants grows
visits leaves crosses climbs hides shows sends keeps loses remembers forgets""".split()

BASE_VERBS = """build make cook fix grow paint repair choose plant draw sell buy clean move learn teach measure design install
configure write read translate explain improve train protect store find catch open close carry cut mix bake sew fold""".split()

PLACES = """Atlantis Norway Texas Africa Patagonia Siberia Bavaria Scotland Sicily Kenya Vietnam Chile Cuba Iceland Morocco Nepal
Tuscany Oregon Wales Ghana Bolivia Finland Jordan Malta Angola Laos Qatar Oman Fiji Togo Chad Mali Peru2""".replace("Peru2", "").split()

CITIES = """Paris London Rome Berlin Madrid Lisbon Tokyo Oslo Vienna Dublin Athens Cairo Lima Quito Bogota Havana Nairobi
Lagos Delhi Mumbai Seoul Beijing Sydney Toronto Chicago Boston Seattle Denver Miami Dallas Prague Warsaw Kyiv Zurich Geneva
Milan Naples Porto Seville Lyon Nice Ghent Bergen Turku Riga Vilnius Zagreb Sofia Izmir Baku Tbilisi Dakar Accra Hanoi Manila
Jakarta Perth Auckland Cusco Arequipa Montevideo Valencia Marseille Krakow""".split() + ["New York", "San Francisco",
    "Buenos Aires", "Cape Town", "Mexico City", "Los Angeles", "Kuala Lumpur", "Hong Kong", "São Paulo", "Málaga", "Zürich"]

COLORS = "red blue green yellow purple orange white black pink brown gold silver turquoise".split()

COMMON = """hello world hi hey ok OK yes no test testing foo bar baz ping pong please thanks thank goodbye bye welcome recua Recua
one two three four five six seven eight nine ten lorem ipsum dolor sit amet true false null abc xyz done ready go stop start
I you he she it we they this that these those is are was were be have has had do does did can could will would should may
the a an and or but not of to in on at by for from with about into over after before again more most some any all each
very just only also now then here there when where why how what which who my your his her our their me him them us
good bad great nice sorry maybe never always today tomorrow yesterday morning night day week year time people man woman thing
name age number word capital planet story count repeat say tell answer help token stream request reply tiny llamas loads
jumps quick fox lazy runs sits mat ate said went made came think want need like love work live""".split()

LANGUAGES = "French German Spanish Italian Latin Polish Dutch Swedish Japanese Chinese Arabic Hindi Russian Greek Quechua".split()

_ONSETS = ["b", "br", "c", "ch", "cl", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "kl", "l", "m", "n", "p", "ph", "pl", "qu",
           "r", "s", "sh", "sk", "st", "t", "th", "tr", "v", "w", "x", "y", "z", "zh", ""]
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ee", "io", "ou", "y", "oo", "ie", "au"]
_CODAS = ["", "", "", "n", "r", "l", "s", "x", "m", "nd", "rt", "ck", "th", "ng", "t", "d", "p", "lm", "sk", "z", "b"]
_FOREIGN = "éèáàñöüäßøåłśžčřőçãâêíóúîøæðþżęą"
_SCRIPTS = [(0x3B1, 0x3C9), (0x430, 0x44F), (0x4E00, 0x5200), (0x3042, 0x3093), (0x5D0, 0x5EA), (0x627, 0x64A), (0xAC00, 0xAD00),
            (0x1F600, 0x1F640), (0x905, 0x939), (0x2190, 0x21FF)]


def pseudo_word(rng, syllables=None):
    """A pronounceable invented word, lowercase."""
    count = syllables or rng.choice((1, 2, 2, 2, 3, 3, 4))
    word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(count))
    if rng.random() < 0.05:
        at = rng.randrange(len(word) + 1)
        word = word[:at] + rng.choice(_FOREIGN) + word[at:]
    return word


def letters(rng, longest=9):
    """Random letters, mostly lowercase."""
    alphabet = "abcdefghijklmnopqrstuvwxyz" if rng.random() < 0.7 else "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, longest)))


def script_word(rng):
    """A word in another script, or a few symbols: bytes that the other generators never produce."""
    low, high = rng.choice(_SCRIPTS)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 4)))


def name(rng, held_out=False):
    """A person's name: listed, or composed; sometimes double, hyphenated or oddly cased."""
    if held_out:
        return rng.choice(HELD_OUT_NAMES)
    roll = rng.random()
    if roll < 0.35:
        result = rng.choice(NAMES)
    elif roll < 0.9:
        result = pseudo_word(rng).capitalize()
    elif roll < 0.95:
        result = letters(rng, 8).capitalize()
    else:
        result = script_word(rng) if rng.random() < 0.3 else pseudo_word(rng).capitalize() + rng.choice(_FOREIGN)
    if result in HELD_OUT_NAMES:
        return name(rng)
    roll = rng.random()
    if roll < 0.05:
        return result.lower()
    if roll < 0.07:
        return result.upper()
    if roll < 0.12:
        return result + rng.choice((" ", "-")) + rng.choice(NAMES)
    return result


def number(rng):
    """One to eight digits, mostly few."""
    digits = rng.choice((1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8))
    return str(rng.randint(0 if digits == 1 else 10 ** (digits - 1), 10 ** digits - 1))


def word(rng):
    """One word of any kind."""
    roll = rng.random()
    if roll < 0.62:
        return rng.choice(rng.choice((NOUNS, NOUNS, ADJECTIVES, VERBS, BASE_VERBS, COMMON, COMMON)))
    if roll < 0.84:
        return pseudo_word(rng)
    if roll < 0.92:
        return letters(rng)
    if roll < 0.96:
        return rng.choice(NAMES)
    return number(rng) if rng.random() < 0.7 else script_word(rng)


def sentence(rng):
    """A short grammatical sentence of ordinary words, without final punctuation."""
    def thing():
        return rng.choice(("the", "a", "my", "every", "the", "this")) + " " + (
            rng.choice(ADJECTIVES) + " " if rng.random() < 0.6 else "") + rng.choice(NOUNS)
    text = f"{thing()} {rng.choice(VERBS)} {thing()}"
    roll = rng.random()
    if roll < 0.25:
        text += f" {rng.choice(('in', 'near', 'behind', 'over', 'under', 'with', 'and'))} {thing()}"
    elif roll < 0.35:
        text += f", and {thing()} {rng.choice(VERBS)} {thing()}"
    return text[0].upper() + text[1:]


def jumble(rng, most=14):
    """Random words with occasional punctuation."""
    count = rng.randint(1, most) if rng.random() < 0.6 else rng.randint(1, 4)
    parts = []
    for _ in range(count):
        item = word(rng)
        roll = rng.random()
        if roll < 0.12:
            item = item.capitalize()
        elif roll < 0.15:
            item = item.upper()
        elif roll < 0.17:
            item = rng.choice(("({})", "'{}'", "[{}]", "#{}", "@{}", "*{}*", "{}/{}", "{}_{}", "{}-{}")).replace("{}", item)
        if rng.random() < 0.08:
            item += rng.choice(",,,;:.!?")
        parts.append(item)
    return " ".join(parts)


def phrase(rng, most=14):
    """Any short text worth copying: a sentence, random words, a single word, a number."""
    roll = rng.random()
    if roll < 0.38:
        return sentence(rng) + rng.choice((".", ".", "", "!", "?"))
    if roll < 0.8:
        return jumble(rng, most) + rng.choice(("", "", "", ".", "!", "?", "..."))
    if roll < 0.95:
        single = word(rng)
        return single if rng.random() < 0.6 else single.capitalize() + rng.choice(("", "", ".", "!"))
    return number(rng)


def long_text(rng, sentences):
    """Several sentences, as a pasted text or a long system prompt."""
    return " ".join(sentence(rng) + "." if rng.random() < 0.8 else jumble(rng, 10) + "." for _ in range(sentences))
