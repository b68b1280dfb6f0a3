// `recua search <words>`: repositories of the hub that have GGUF files and match the words.
import { mostFound, type HubRepository } from '../../models/hub/hub.js';
import { command } from '../command.js';
import { integer, misuse, on, perCall } from '../flags/flags.js';
import { searchHub } from '../hub-search.js';
import { print, say, toJson } from '../terminal/output.js';

export const search = command({
  name: 'search',
  aliases: [],
  operands: '<words…>',
  summary: 'Find models on the Hugging Face hub',
  details: 'Lists repositories that have GGUF files, the most downloaded first. To list the models of one: recua pull <repo>.',
  examples: [
    ['recua search qwen3 4b', 'Find repositories by words in their names'],
    ['recua search embedding --limit 5 --json', 'Print the first five as JSON'],
  ],
  flags: {
    limit: perCall(integer(['--limit'], 'n', 'List at most this many repositories', { fallback: 15, min: 1, max: mostFound })),
    json: perCall(on(['--json'], 'Print JSON')),
  },
  async run({ values, operands }) {
    const words = operands.join(' ').trim();
    if (words === '') throw misuse('Expected words to search for: recua search <words>, like recua search qwen3 4b.');
    const { found: all, endpoint } = await searchHub(words);
    const found = all.slice(0, values.limit);
    await print(
      values.json
        ? toJson({ query: words, repositories: found.map(({ name, ...numbers }) => ({ repository: name, ...numbers })) })
        : await tableOf(found),
    );
    if (found.length === 0 && !values.json) say(`No repository on ${endpoint} has GGUF files and matches ${JSON.stringify(words)}.`);
    else if (!values.json) say(`Try: recua pull ${found[0]!.name}`);
    return 0;
  },
});

async function tableOf(found: readonly HubRepository[]): Promise<string> {
  if (found.length === 0) return '';
  const { rows } = await import('../terminal/rows.js');
  return rows([['REPOSITORY', 'DOWNLOADS', 'LIKES', 'ACCESS'], ...found.map(({ name, downloads, likes, gated }) => [
    name, downloads.toLocaleString('en'), likes.toLocaleString('en'), gated ? 'license first' : 'open',
  ])]);
}
