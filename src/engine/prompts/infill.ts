// A gap in code → the prompt of models trained to fill it in (FIM), as in llama-server: other
// files, then the text before the gap and the text behind it. Called by chat.
import { RecuaError } from '../../errors.js';
import type { Infill } from '../protocol.js';
import type { Preparing } from './chat.js';
import { headOf, mostUsed, tailOf } from './known-tokens.js';

/** In training, the name of a repository came first. */
const repository = 'myproject\n';
/** Separates files for models without a token for that. */
const separator = '\n\n--- snippet ---\n\n';

/** `begun`: the beginning of the middle. `room`: tokens to leave for the answer if possible. */
export async function infillTokens(
  { model, contextSize, cancelled }: Preparing,
  { prefix, suffix, extra }: Infill,
  begun: string,
  room: number,
): Promise<{ tokens: Int32Array; warnings: string[] }> {
  const { fimPrefix, fimSuffix, fimMiddle, fimRepository, fimSeparator, addBos, bosToken } = model.info;
  if (fimPrefix < 0 || fimSuffix < 0 || fimMiddle < 0) {
    throw new RecuaError(
      'infill_unsupported',
      'This model has no tokens for a prefix, a suffix and the middle between them; it only continues texts.',
      { param: 'model' },
    );
  }
  const read = async (text: string, special = false): Promise<number[]> =>
    Array.from(await model.tokenize(text, false, special, { cancelled }));
  const middle = await read(begun, true);
  const mostText = mostUsed(contextSize, model.info);
  const before = await read(tailOf(prefix, mostText));
  const after = await read(headOf(suffix, mostText));
  const files: number[] = fimRepository >= 0 ? [fimRepository, ...(await read(repository))] : [];
  for (const { filename, text } of lastOf(extra, mostText, fimSeparator >= 0)) {
    const mark = fimSeparator >= 0 ? [fimSeparator, ...(await read(`${filename}\n`))] : await read(separator);
    for (const token of [...mark, ...(await read(text))]) files.push(token);
  }
  if (fimSeparator >= 0) files.push(fimSeparator, ...(await read('filename\n')));
  const frame = 3 + middle.length + (addBos && bosToken >= 0 ? 1 : 0);
  const most = contextSize - 1 - frame - Math.min(room, Math.floor(contextSize / 2));
  const [first, last] = shares(before.length, after.length, most);
  const kept = Math.max(0, Math.min(files.length, most - first - last));
  const warnings =
    first < before.length || last < after.length
      ? [`The prefix and the suffix were cut to the ${first} and ${last} tokens next to the gap: the context has no room for more.`]
      : [];
  const tokens = Int32Array.from([
    ...files.slice(files.length - kept),
    ...(addBos && bosToken >= 0 ? [bosToken] : []),
    fimPrefix,
    ...before.slice(before.length - first),
    ...middle,
    fimSuffix,
    ...after.slice(0, last),
    fimMiddle,
  ]);
  return { tokens, warnings };
}

/**
 * The last files, with as many characters of their texts as can be used; and of their names, if the
 * prompt shows them.
 */
function lastOf(files: Infill['extra'], most: number, named: boolean): Infill['extra'] {
  const last: Infill['extra'][number][] = [];
  for (let left = most, at = files.length - 1; at >= 0 && left > 0; at--) {
    const { filename, text } = files[at]!;
    left -= text.length;
    const name = named ? tailOf(filename, Math.max(0, left)) : '';
    last.unshift({ filename: name, text: tailOf(text, left + text.length) });
    left -= name.length;
  }
  return last;
}

/** How much of both fits: the prefix gets three quarters, plus what the suffix leaves. */
function shares(before: number, after: number, most: number): [number, number] {
  const room = Math.max(0, most);
  if (before + after <= room) return [before, after];
  const last = Math.min(after, Math.max(Math.floor(room / 4), room - before));
  return [Math.min(before, room - last), last];
}
