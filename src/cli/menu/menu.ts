// `recua` alone on a terminal: a menu. Each entry is a command line, which the caller runs. Called
// by call.ts.
import { createInterface } from 'node:readline/promises';
import { isWhole } from '../../models/cache/cached-models.js';
import { searchHub } from '../hub-search.js';
import { hubEndpoint, readRepositoryName } from '../../models/names/repository-name.js';
import { findPlaces } from '../../models/places.js';
import { scanStore } from '../../models/store.js';
import type { ListedModel } from '../../models/store.js';
import { RecuaError } from '../../errors.js';
import { lastModel, modelRow } from '../chat/model-choice.js';
import { pick } from '../chat/model-picker.js';
import { say, sayError } from '../terminal/output.js';
import { screenOf } from '../markdown/screen.js';
import { plain } from '../terminal/wording.js';
import { inLines } from '../chat/word-wrap.js';

type Call = (argv: readonly string[]) => Promise<number>;

interface Choice {
  letter: string;
  text: string;
  /** Resolves to undefined if the menu should open again. */
  run(): Promise<number | undefined>;
}

const mostFound = 15;
/** Greater exit codes come from signals. */
const firstSignalCode = 128;

/** Runs until a command was run or the user leaves. Resolves to the exit code. */
export async function openMenu(call: Call): Promise<number> {
  for (let isFirst = true; ; isFirst = false) {
    const { choices, told } = await choicesNow(call);
    if (isFirst) told.forEach(tell);
    const at = await pick(choices.map(({ text }) => text), { letters: choices.map(({ letter }) => letter), what: 'Nothing was chosen.', mayLeave: true });
    if (at === undefined) return 0;
    const code = await choices[at]!.run();
    if (code !== undefined) return code;
  }
}

/** `told`: what to say before them, once. */
async function choicesNow(call: Call): Promise<{ choices: Choice[]; told: string[] }> {
  const places = findPlaces();
  const models = (await scanStore(places)).filter(isWhole).sort((a, b) => (b.lastUsedMs ?? 0) - (a.lastUsedMs ?? 0));
  const last = await lastModel(places) ?? models[0]?.name;
  const help: Choice = { letter: 'h', text: 'Help: every command', run: () => call(['help']) };
  const get = (text: string): Choice => ({ letter: 'p', text, run: () => getModel(call) });
  const told = ['Recua runs language models on this machine. Choose with a number or a letter, or with Up, Down and Enter; Esc or q leaves.'];
  if (models.length === 0) {
    told.push('The only model here is a tiny built-in one, builtin, which shows how things work and knows nothing. Press p to get a real one.');
    const choices = [
      get('Get a model from the hub'),
      { letter: 'c', text: last === undefined || last === 'builtin' ? 'Chat with builtin, the tiny built-in model' : plain(`Chat with ${last}`), run: () => call(['chat', last ?? 'builtin']) },
      { letter: 's', text: 'Serve builtin: an HTTP API, and a page to chat', run: () => serve(call, 'builtin') },
      help,
    ];
    return { choices, told };
  }
  const choices = [
    { letter: 'c', text: plain(`Chat with ${last!}`), run: () => call(['chat', last!]) },
    { letter: 'm', text: `Choose another model to chat with (${models.length} on this machine, and builtin)`, run: () => chatWithOther(models, call) },
    get('Get another model from the hub'),
    { letter: 's', text: 'Serve the models here: an HTTP API, and a page to chat', run: () => serve(call) },
    help,
  ];
  return { choices, told };
}

/** If the server cannot start, it has said why, and the menu opens again. */
async function serve(call: Call, ...names: string[]): Promise<number | undefined> {
  const code = await call(['api', ...names]);
  return code === 0 || code > firstSignalCode ? code : undefined;
}

async function chatWithOther(models: readonly ListedModel[], call: Call): Promise<number | undefined> {
  tell('Which model? Esc goes back.');
  const at = await pick([...models.map(modelRow), 'builtin (the tiny built-in one)'], { what: 'Nothing was chosen.', mayLeave: true });
  return at === undefined ? undefined : await call(['chat', models[at]?.name ?? 'builtin']);
}

/**
 * Asks for search words, a repository among the results, and one of its models, then pulls the
 * model. Resolves to an exit code if a signal ended that.
 */
async function getModel(call: Call): Promise<number | undefined> {
  const words = await ask('Words to search for, such as qwen3 4b, or owner/repo; Esc goes back: ');
  if (words === '') return undefined;
  try {
    const name = words.includes('/') ? words : await findRepo(words);
    if (name === undefined) return undefined;
    const { repo, revision, word, file } = readRepositoryName(name, hubEndpoint());
    const code = await call(['pull', name]);
    // Either a model was named, or the pull failed and said why.
    if (word !== undefined || file !== undefined || code !== 0) return code > firstSignalCode ? code : undefined;
    const model = await ask('Which one, by its quantization, such as Q4_K_M; Esc goes back: ');
    const pulled = model === '' ? 0 : await call(['pull', `${repo}:${model}`, ...(revision === undefined ? [] : ['--revision', revision])]);
    return pulled > firstSignalCode ? pulled : undefined;
  } catch (thrown) {
    if (RecuaError.from(thrown).code === 'cancelled') throw thrown;
    sayError(thrown);
    return undefined;
  }
}

async function findRepo(words: string): Promise<string | undefined> {
  const { found, endpoint } = await searchHub(words);
  if (found.length === 0) {
    say(`No repository on ${endpoint} has GGUF files and matches ${JSON.stringify(words)}.`);
    return undefined;
  }
  tell('Which repository? The most downloaded come first; Esc goes back.');
  const rows = found.slice(0, mostFound).map(({ name, downloads, gated }) => plain(`${name} (${downloads.toLocaleString('en')} downloads${gated ? ', license first' : ''})`));
  const at = await pick(rows, { what: 'Nothing was chosen.', mayLeave: true });
  return at === undefined ? undefined : found[at]!.name;
}

/** Reads a line from the user: empty after Esc. Throws `cancelled` on Ctrl-C. */
async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  const onKey = (_: string | undefined, key: { name?: string }): void => {
    if (key.name !== 'escape') return;
    process.stdout.write('\n');
    lines.close();
  };
  process.stdin.on('keypress', onKey);
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.on('SIGINT', () => {
        process.stdout.write('\n');
        reject(new RecuaError('cancelled', 'Nothing was chosen.'));
      });
      lines.on('close', () => resolve(''));
      void lines.question(question).then((answer) => resolve(answer.trim()), () => resolve(''));
    });
  } finally {
    process.stdin.off('keypress', onKey);
    lines.close();
  }
}

function tell(text: string): void {
  say(inLines(text, screenOf(process.stderr).columns));
}
