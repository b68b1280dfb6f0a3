// The next turn of a chat evaluates only its new tokens, with every vendored template. This
// measures the table in docs/design/exact-history.md.
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { chatInput, firstTurn, kinds, nextMessages, promptTokens, speller, templateFiles, templateOf, vocabulary, type Kind } from './exact-history.js';

const common = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at++;
  return at;
};

const commonText = (a: Buffer, b: Buffer): number => common(a, b);

/** Words that tokenize differently after a cut inside one. */
const cutWord = 16;

interface Row { again: number; fresh: number; changed: boolean; evaluated: number; least: number }

/**
 * For one template and kind: the tokens that the next turn evaluates, and those of them that are
 * not new.
 */
async function measure(
  model: NativeModel,
  file: string,
  kind: Kind,
  spell: ReturnType<typeof speller>,
  flags: Uint8Array,
): Promise<Row | undefined> {
  const template = templateOf(file);
  const turn = await firstTurn(model, template, kind);
  if (!turn) return undefined;
  model.forget();
  const isSpecial = new Set<number>();
  const canonical = await model.tokenize(turn.raw, false, true);
  // Special tokens stay; the text between them is spelled in an unlikely way.
  const said: number[] = [];
  let run: number[] = [];
  let at = 0;
  const raw = Buffer.from(turn.raw);
  const flush = async (): Promise<void> => {
    if (run.length === 0) return;
    let bytes = Buffer.from(await model.detokenize(Int32Array.from(run), true));
    // With some vocabularies the tokens of a text begin with an extra space.
    if (!raw.subarray(at, at + bytes.length).equals(bytes)) bytes = bytes.subarray(1);
    at += bytes.length;
    said.push(...spell(bytes, said.length + 1, (token) => isSpecial.has(token)));
    run = [];
  };
  for (const token of canonical) {
    if ((flags[token]! & 2) === 0 && !isMark(model, token)) {
      run.push(token);
      continue;
    }
    await flush();
    said.push(token);
    at += model.piece(token, true).length;
  }
  await flush();
  const { eosToken } = model.info;
  const chat = Int32Array.from([...turn.promptTokens, ...said, eosToken]);
  const input = chatInput(nextMessages(turn, kind), template, kind);
  let without;
  try {
    without = await promptTokens(model, input);
  } catch {
    return undefined; // the template refuses such a turn
  }
  model.remember(chat);
  const prompt = await promptTokens(model, input);
  const rendered = await model.applyChatTemplate(input);
  const [text, before] = [Buffer.from(rendered.prompt), Buffer.from(turn.prompt + turn.raw)];
  const same = commonText(text, before);
  const rest = await model.tokenize(text.subarray(same).toString(), false, true);
  const reused = common(prompt, chat);
  const bytes = async (tokens: Int32Array) => Buffer.from(await model.detokenize(tokens, true)).toString();
  if ((await bytes(prompt)) !== (await bytes(without))) throw new Error(`${file}: another text`);
  return {
    again: without.length - common(without, chat),
    fresh: prompt.length - reused,
    changed: same < before.length,
    evaluated: prompt.length - reused,
    least: rest.length,
  };
}

const marks = new Map<NativeModel, Set<number>>();
function isMark(model: NativeModel, token: number): boolean {
  return marks.get(model)!.has(token);
}

for (const [name, chosen] of [['qwen2', Object.keys(kinds)], ['llama-spm', ['plain']]] as [string, Kind[]][]) {
  t.test(`with the vocabulary ${name} the next turn evaluates only its new tokens, by every template`, async (t) => {
    const model = await vocabulary(name);
    t.teardown(() => model.close());
    marks.set(model, new Set());
    const pieces = await model.pieces(true);
    const spell = speller(pieces);
    for (const kind of chosen) {
      let measured = 0;
      let whole = 0;
      const later: string[] = [];
      for (const file of templateFiles) {
        // SPM treats this character as a space, and its tokens do not give the character back.
        if (name === 'llama-spm' && templateOf(file).includes('▁')) continue;
        const row = await measure(model, file, kind, spell, pieces.flags);
        if (!row) continue;
        measured++;
        if (!row.changed) whole++;
        else later.push(file);
        t.ok(row.evaluated <= row.least + (row.changed ? cutWord : 0), `${kind}, ${file}: ${row.evaluated} evaluated, ${row.least} new${row.changed ? ', from a change on' : ''}; ${row.again} without`);
      }
      t.comment(`${name}, ${kind}: ${measured} templates, ${whole} evaluate what is new alone; from a change on: ${later.join(' ')}`);
      const fewer = name === 'llama-spm' ? 12 : 0;
      const [least, leastWhole] = { plain: [55, 38], reasoning: [55, 20], tool: [40, 36] }[kind];
      t.ok(measured >= least! - fewer && whole >= leastWhole! - fewer, `${measured} templates, by ${whole} of them nothing is evaluated again`);
    }
  });
}
