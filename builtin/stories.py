"""Fixed long answers of the built-in model: long generations that tests can stream, stop and compare."""

SHORT = """Once upon a time, high in the mountains, there lived a small llama called Pia. Every morning she walked with her \
mother from the village to the market, and every evening she walked home again. The big llamas carried potatoes, wool and \
salt. Pia carried nothing, because she was too small.

"When can I carry something?" she asked. "When the road needs you," said her mother.

One night it snowed. The path was white, the bridge was gone, and the big llamas did not know where to go. But Pia had \
counted her steps every day. "Ninety steps to the old tree," she said, "then forty to the stone, and then down to the river." \
She walked in front, and all the others walked behind her, one after another, many loads on one path.

When they came to the village, the people gave Pia a red ribbon with a little bell. "What do I carry now?" she asked. "You \
carry the way," said her mother. And so she did, for many years. The end."""

LONG = """Once upon a time there was a lighthouse on a small island at the end of the world. Nobody knew who had built it. Its \
keeper was an old woman called Mara, and her only friend was a grey gull that had lost one toe.

Every evening Mara climbed the ninety steps, cleaned the glass, and lit the lamp. Every morning she put the lamp out, climbed \
down the ninety steps, and made a pot of tea. No ship had passed the island for eleven years. "Why do you light the lamp?" \
asked the gull. "Because it is evening," said Mara.

One autumn the storms came early. For three days the rain beat on the windows, and for three nights the wind sang in the \
chimney. On the fourth day the oil was almost gone. Mara looked at the empty barrels. There was enough for one more night, \
or for a whole winter of warm soup. She thought about it for a long time. Then she climbed the ninety steps, cleaned the \
glass, and lit the lamp.

Far away on the black water there was a boat. In the boat sat a boy called Tomas and his sister Lena. They had lost their \
oars, their map and most of their courage. "I see nothing," said Tomas. "Look again," said Lena. He looked again, and there, \
low between the waves, was a light as small as a seed. They tore a blanket in two, made a sail from one half, and wrapped \
themselves in the other. All night they followed the light.

In the morning the boat lay on the beach of the island, and the lamp was out. Mara came down with a pot of tea. "You are \
late," she said, "but the tea is still hot." The children laughed, and the gull stole a piece of bread.

They stayed all winter. Lena mended the roof, and Tomas learned to bake. They burned driftwood in the stove, they ate fish \
and seaweed soup, and in the evenings Mara told them stories of ships that were as long as a street. When the oil was gone, \
they built a fire on the top of the tower, so that the light never failed.

In spring a ship came, the first one in twelve years. Its captain had seen the fire from far away. "We thought that nobody \
lived here," he said. "Somebody always lives where there is a light," said Mara. The captain gave her forty barrels of oil, \
a bag of oranges, and a new pot for the tea.

The children went home with the ship, because their mother was waiting. But every autumn a boat came to the island, with two \
people in it who were a little taller each time. They carried flour, books and oil up the ninety steps. And every evening, \
when the sun went down, three people and one gull cleaned the glass together and lit the lamp.

"Why do we light it?" asked the gull, who had grown old and forgot things. "Because it is evening," they all said. And far \
away on the water somebody looked up, and saw the light, and was not lost. The end."""

POEM = """Many loads on one long path,
up the mountain, slow and steady,
hoof by hoof and word by word,
one more step when one is ready.

Snow may fall and wind may blow,
still the little bells are ringing;
those in front and those behind
hear the same old song and sing it."""

JOKE = "Why did the llama cross the road? Because it was a short path with a light load."

_REQUESTS = [
    (SHORT, ["Tell me a story.", "Tell me a short story.", "Write a story.", "Write a short story.", "Can you tell me a story?",
             "Write me a story.", "Write a story about a llama.", "Tell me a story about a llama.", "A story, please."]),
    (LONG, ["Tell me a long story.", "Write a long story.", "Write a very long story.", "Tell me a very long story.",
            "Write me a long story.", "Can you write a long story?", "Please write a long story.", "Write a long story about a lighthouse.",
            "Tell me a long story about a lighthouse.", "I want a long story."]),
    (POEM, ["Write a poem.", "Write a short poem.", "Tell me a poem.", "Write me a poem.", "Can you write a poem?", "A poem, please.",
            "Write a haiku.", "Write a poem about llamas."]),
    (JOKE, ["Tell me a joke.", "Tell a joke.", "Do you know a joke?", "Make me laugh.", "Tell me something funny."]),
]
_WEIGHTS = [3, 3, 1.5, 1]


def story(rng):
    answer, asked = rng.choices(_REQUESTS, _WEIGHTS)[0]
    text = rng.choice(asked)
    roll = rng.random()
    if roll < 0.15:
        text = text.lower()
    if rng.random() < 0.2:
        text = text.rstrip(".?")
    return text, answer
