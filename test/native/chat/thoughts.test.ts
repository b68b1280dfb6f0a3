// Thoughts are separated from the answer in each chat format, wherever the streamed text is cut:
// the pieces join to the whole.
import { readFileSync, readdirSync } from 'node:fs';
import t from 'tap';
import type { ChatPrompt, NativeModel } from '#recua/addon/addon.js';
import { chatPrompt, loadBuiltin } from '../setup.js';

let model: NativeModel;
t.before(async () => { model = await loadBuiltin(); });
t.teardown(() => model.close());

const folder = new URL('../../../vendor/llama.cpp/models/templates/', import.meta.url);
const thought = 'Is 2 < 3? Yes: é 🎉.';
/** In llama.cpp these have no thoughts, or the prompt's opening counts as part of them. */
const otherwise = /^(LFM2-8B|LFM2.5-Instruct|Apriel-1.6)/;
const said = 'So it is, <b>2</b>.';

interface Read {
  content: string;
  reasoning: string;
}

/** In steps of this many characters; undefined if the text is not in the format. */
async function read(ask: () => Promise<ChatPrompt>, text: string, size: number): Promise<{ joined: Read; whole: Read } | undefined> {
  const parser = model.createParser(await ask(), true);
  const joined = { content: '', reasoning: '' };
  const characters = [...text];
  try {
    for (let end = size; ; end += size) {
      const partial = end < characters.length;
      const delta = parser.parse(characters.slice(0, end).join(''), partial);
      joined.content += delta.content ?? '';
      joined.reasoning += delta.reasoning ?? '';
      if (!partial) break;
    }
  } catch {
    return undefined;
  }
  const { content, reasoning } = parser.message();
  parser.close();
  return { joined, whole: { content, reasoning } };
}

for (const name of readdirSync(folder).filter((one) => one.endsWith('.jinja'))) {
  const template = readFileSync(new URL(name, folder), 'utf8');
  t.test(`${name}: thoughts are recognized however the text is cut`, async (t) => {
    for (const enableThinking of [true, false]) {
      const ask = () => chatPrompt(model, 'Go', { template, enableThinking });
      const prompt = await ask();
      const [open, ...ends] = prompt.thinking;
      const close = ends[0];
      if (!open || !close) return t.comment('no marks of thoughts');
      const { generationPrompt: begun } = prompt;
      const lastEnd = Math.max(...ends.map((end) => begun.lastIndexOf(end)));
      const isOpen = begun.lastIndexOf(open) > lastEnd;
      const isClosed = lastEnd >= 0 && !isOpen;
      const both = [`${open}${thought}${close}${said}`, `${open}\n${thought}\n${close}\n\n${said}`];
      const closed = [`${thought}${close}${said}`, `\n${thought}\n${close}\n\n${said}`];
      const answers = isOpen ? [...closed, thought] : [said, ...(isClosed ? [] : [...both, `${open}${thought}`, closed[0]!])];
      for (const text of answers) {
        const shown = `${enableThinking ? 'thinking' : 'not thinking'}: ${JSON.stringify(text)}`;
        const reads = await Promise.all([text.length, 1, 2, 3, 5].map((size) => read(ask, text, size)));
        const [first] = reads;
        if (!first) {
          t.comment(`${shown} is none of the format's`);
          continue;
        }
        const told = { content: first.whole.content.trim(), reasoning: first.whole.reasoning.trim() };
        if (enableThinking && !otherwise.test(name) && (isOpen ? closed : both).includes(text))
          t.strictSame(told, { content: said, reasoning: thought }, shown);
        for (const one of reads) t.strictSame(one, { joined: first.whole, whole: first.whole }, shown);
      }
    }
  });
}
