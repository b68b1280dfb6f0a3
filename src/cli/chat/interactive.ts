// A dialogue on this process's own terminal: chooses how messages are read, and ends it in order on
// signals. Called by chat.ts.
import { AnswerWriter, turnRule } from './answer-writer.js';
import type { AnswerLook } from './answer-writer.js';
import { Dialogue } from './dialogue.js';
import type { DialogueParts } from './dialogue.js';
import { History } from './input/history.js';
import { complete } from './in-chat-commands.js';
import type { Input } from './input/input.js';
import { LineInput } from './input/line-input.js';
import { isDrawable, loadRendering } from '../markdown/rendering.js';
import { PlainInput } from './input/plain-input.js';
import { noteStop } from '../terminal/signals.js';
import type { StopName } from '../terminal/signals.js';
import { Terminal } from './terminal.js';

export interface Surroundings {
  /** Where history is kept; undefined keeps none. */
  stateFolder: string | undefined;
  /** The file of the saved chat that goes on. */
  resumed: string | undefined;
  /** How the engine's log speaks: as long as the chat runs, through it. */
  voice: { say(text: string): void };
  /** Answers are shown as the bytes that they are. */
  raw: boolean;
}

/** Lines of the last exchange shown when a chat goes on. */
const shownLines = 12;

export async function chatOnTerminal(parts: DialogueParts, { stateFolder, resumed, voice, raw }: Surroundings): Promise<number> {
  const history = await History.open(stateFolder);
  const drawable = isDrawable();
  const look: AnswerLook = {
    styles: drawable && !process.env['NO_COLOR'], terminal: process.stdout.isTTY,
    // Where nothing can be erased, the terminal breaks lines.
    columns: () => (drawable ? input.columns : Infinity),
    markdown: raw ? undefined : await loadRendering(), raw,
  };
  let dialogue: Dialogue | undefined;
  const input: Input = drawable
    ? new LineInput(new Terminal(process.stdin, process.stdout), history, async (text) => (dialogue ? await complete(dialogue, text) : []))
    : new PlainInput(history);
  const { say } = voice;
  voice.say = (text) => input.say(text);
  const onInterrupt = () => input.interrupt();
  const onStop = (name: NodeJS.Signals) => {
    noteStop(name as StopName);
    input.onInterrupt();
    input.leave();
  };
  // They stay until the process ends: the closing of a terminal often tells twice, and must not cut
  // off what is still to be done.
  process.on('SIGINT', onInterrupt);
  process.on('SIGTERM', onStop);
  process.once('SIGHUP', onStop);
  process.on('SIGHUP', () => undefined);
  try {
    dialogue = new Dialogue({ ...parts, look }, input);
    if (resumed !== undefined) {
      await dialogue.restoreKv(resumed);
      showLast(dialogue);
      dialogue.offerUnanswered();
    }
    return await dialogue.run();
  } finally {
    voice.say = say;
    input.close();
  }
}

/** The end of a conversation that goes on, so that it is clear where it was left. */
function showLast({ conversation, input, look }: Dialogue): void {
  const last = conversation.exchanges.findLast(({ reply }) => reply !== undefined);
  if (!last) return;
  const asked = `> ${last.message}`.split('\n');
  const lines = [...asked, ...last.reply!.text.trimEnd().split('\n')];
  const from = Math.max(0, lines.length - shownLines);
  const head = [...(from > 0 ? ['…'] : []), ...lines.slice(from, asked.length)];
  if (head.length > 0) input.say(head.join('\n'));
  const shown = lines.slice(Math.max(from, asked.length));
  // What is cut off may have opened a block of code.
  const fences = lines.slice(asked.length, Math.max(from, asked.length)).filter((line) => /^\s*(```|~~~)/.test(line));
  const text = [...(fences.length % 2 === 1 ? [fences.at(-1)!] : []), ...shown].join('\n');
  // As it was shown when it came.
  const writer = new AnswerWriter((piece) => input.write(piece), look);
  writer.push({ content: text });
  writer.end();
  input.write(turnRule(look));
}
