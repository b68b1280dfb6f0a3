// A dialogue on this process's terminal: chooses how messages are read, and ends the chat in order
// on signals. Called by chat.ts.
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
  /** Folder of the input history; undefined keeps none. */
  stateFolder: string | undefined;
  /** File of the saved chat that is resumed. */
  resumed: string | undefined;
  /** Prints the engine's log. While the chat runs, the log goes through the chat. */
  voice: { say(text: string): void };
  /** Show the bytes of answers unchanged. */
  raw: boolean;
}

/** Lines of the last exchange shown when a chat is resumed. */
const shownLines = 12;

export async function chatOnTerminal(parts: DialogueParts, { stateFolder, resumed, voice, raw }: Surroundings): Promise<number> {
  const history = await History.open(stateFolder);
  const drawable = isDrawable();
  const look: AnswerLook = {
    styles: drawable && !process.env['NO_COLOR'], terminal: process.stdout.isTTY,
    // A terminal that cannot erase wraps lines itself.
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
  // These handlers stay until the process ends, so that a signal does not cut off the cleanup.
  process.on('SIGINT', onInterrupt);
  process.on('SIGTERM', onStop);
  process.once('SIGHUP', onStop);
  try {
    dialogue = new Dialogue({ ...parts, look }, input);
    if (resumed !== undefined) {
      await dialogue.restoreKv();
      showLast(dialogue);
      dialogue.offerUnanswered();
    }
    return await dialogue.run();
  } finally {
    voice.say = say;
    input.close();
  }
}

/** Shows the end of a resumed conversation, so that the user sees where it stopped. */
function showLast({ conversation, input, look }: Dialogue): void {
  const last = conversation.exchanges.findLast(({ reply }) => reply !== undefined);
  if (!last) return;
  const asked = `> ${last.message}`.split('\n');
  const lines = [...asked, ...last.reply!.text.trimEnd().split('\n')];
  const from = Math.max(0, lines.length - shownLines);
  const head = [...(from > 0 ? ['…'] : []), ...lines.slice(from, asked.length)];
  if (head.length > 0) input.say(head.join('\n'));
  const shown = lines.slice(Math.max(from, asked.length));
  // The part that is cut off may have opened a code block.
  const fences = lines.slice(asked.length, Math.max(from, asked.length)).filter((line) => /^\s*(```|~~~)/.test(line));
  const text = [...(fences.length % 2 === 1 ? [fences.at(-1)!] : []), ...shown].join('\n');
  // Shown the same way as a new answer.
  const writer = new AnswerWriter((piece) => input.write(piece), look);
  writer.push({ content: text });
  writer.end();
  input.write(turnRule(look));
}
