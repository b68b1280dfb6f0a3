// Reads messages from the terminal: keys → editor → screen, with history, search and pastes. Keys
// typed while an answer is running wait for the next message, except Ctrl-C and Ctrl-Z, which act
// at once. Used by dialogue.ts.
import { RecuaError } from '../../../errors.js';
import { edit, emptyDraft, enter } from './editor.js';
import type { Draft } from './editor.js';
import { editOutside } from './external-editor.js';
import type { History } from './history.js';
import { HistoryWalk } from './history-walk.js';
import { aboveProgress, tame } from '../../terminal/output.js';
import { stopCode } from '../../terminal/signals.js';
import type { Entry, Input } from './input.js';
import { againLeaves } from './input.js';
import { meaningOf } from './keys.js';
import { Screen } from '../screen.js';
import type { Key, Terminal } from '../terminal.js';
import { inLines } from '../word-wrap.js';

/** Completions of a half-typed command. */
export type Completer = (text: string) => Promise<readonly string[]>;

const prompt = '> ';
/** A Ctrl-C this long after a paste's last key is the user's, not part of the paste. */
const lostAfterMs = 1_000;
/** Keys kept while an answer runs. */
const mostWaiting = 100_000;

export class LineInput implements Input {
  onInterrupt: () => void = () => {};
  onSay: () => void = () => {};
  onClear: () => void = () => {};
  keepsHistory = true;
  readonly recalls = 'The Up key brings the message back.';
  readonly #terminal: Terminal;
  readonly #screen: Screen;
  readonly #history: History;
  readonly #completer: Completer;
  #draft: Draft = emptyDraft;
  #walk: HistoryWalk;
  /** The text so far of a paste that has not ended, and when its last key came. */
  #paste: { text: string; ms: number } | undefined;
  #armed = false;
  /** Ctrl-X was typed: the next key has another meaning. */
  #prefixed = false;
  /** An external editor has the terminal. */
  #outside = false;
  #over = false;
  /** Waiting keys, and complete pastes, which must not lose their end. */
  #waiting: ([string | undefined, Key] | string)[] = [];
  #resolve: ((entry: Entry) => void) | undefined;
  /** The drawing after the keys that have arrived. */
  #coming: NodeJS.Immediate | undefined;

  constructor(terminal: Terminal, history: History, completer: Completer) {
    this.#terminal = terminal;
    this.#screen = new Screen(terminal);
    this.#history = history;
    this.#completer = completer;
    this.#walk = new HistoryWalk(history.entries);
    terminal.open({
      key: (text, key) => this.#key(text, key),
      resized: () => this.#draw(),
      resumed: () => {
        // Others wrote to the terminal meanwhile, at least the shell.
        this.onSay();
        this.#draw();
      },
    });
  }

  get columns(): number {
    return this.#terminal.columns;
  }

  read(initial: string): Promise<Entry> {
    if (this.#over) return Promise.resolve({ kind: 'leave', code: stopCode() });
    this.#draft = edit({ ...this.#draft, text: '', cursor: 0 }, { do: 'replace', text: initial });
    this.#walk = new HistoryWalk(this.#history.entries);
    this.#armed = false;
    const entry = new Promise<Entry>((resolve) => (this.#resolve = resolve));
    this.#draw();
    while (this.#resolve && this.#waiting.length > 0) {
      const next = this.#waiting.shift()!;
      if (typeof next === 'string') this.#insertPaste(next);
      else this.#key(...next);
    }
    return entry;
  }

  write(text: string): void {
    aboveProgress(() => this.#terminal.write(text.replaceAll('\n', '\r\n')));
  }

  say(text: string): void {
    if (this.#resolve && !this.#outside) this.#erase();
    this.onSay();
    this.write(`${inLines(tame(text), this.#terminal.columns)}\n`);
    this.#draw();
  }

  interrupt(): void {
    this.#key('\x03', { name: 'c', ctrl: true, sequence: '\x03' });
  }

  leave(): void {
    this.#over = true;
    this.#terminal.leave();
    this.#settle({ kind: 'leave', code: stopCode() });
  }

  close(): void {
    this.leave();
    this.#terminal.close();
  }

  /**
   * Many keys may arrive at once, as from a paste on a terminal that does not mark it: to draw
   * after each would take time that grows with the square of their number.
   */
  #drawSoon(): void {
    this.#coming ??= setImmediate(() => this.#draw());
  }

  #erase(): void {
    this.#forgetDrawing();
    this.#screen.erase();
  }

  #forgetDrawing(): void {
    clearImmediate(this.#coming);
    this.#coming = undefined;
  }

  #draw(): void {
    this.#forgetDrawing();
    if (!this.#resolve || this.#outside) return;
    const { query } = this.#walk;
    if (query === undefined) this.#screen.draw(prompt, this.#draft);
    else this.#screen.draw(`(search ${JSON.stringify(query)}) `, this.#draft);
  }

  #settle(entry: Entry): void {
    const resolve = this.#resolve;
    if (!resolve) return;
    this.#screen.finish(prompt, this.#draft);
    this.#resolve = undefined;
    resolve(entry);
  }

  #key(text: string | undefined, key: Key): void {
    if (this.#over && !this.#resolve) {
      // Leaving takes a moment; Ctrl-C cuts it short.
      if (meaningOf(text, key).do === 'interrupt') this.onInterrupt();
      return;
    }
    // Keys belong to the external editor then, Ctrl-C included.
    if (this.#outside) return;
    if (this.#takePaste(text, key)) return;
    const meaning = meaningOf(text, key);
    if (meaning.do === 'suspend') {
      if (this.#resolve) this.#erase();
      this.#terminal.suspend();
      return;
    }
    if (!this.#resolve) {
      if (meaning.do === 'interrupt') {
        // Stopping an answer also discards what was typed meanwhile.
        this.#waiting = [];
        this.onInterrupt();
      } else if (this.#waiting.length < mostWaiting) this.#waiting.push([text, key]);
      return;
    }
    if (meaning.do !== 'interrupt') this.#armed = false;
    const prefixed = this.#prefixed;
    this.#prefixed = meaning.do === 'prefix';
    if (prefixed && key.ctrl && key.name === 'e') return void this.#editOutside();
    if (this.#search(meaning)) return;
    this.#act(meaning);
  }

  /**
   * Whether the key belongs to a paste, in which keys are only text. While no message is being
   * read, a paste waits like any key. If the end of a paste got lost, the user's Ctrl-C ends it.
   */
  #takePaste(text: string | undefined, key: Key): boolean {
    if (this.#paste === undefined) {
      if (key.name !== 'paste-start') return false;
      this.#paste = { text: '', ms: performance.now() };
      return true;
    }
    const isLost = meaningOf(text, key).do === 'interrupt' && performance.now() - this.#paste.ms > lostAfterMs;
    if (key.name !== 'paste-end' && !isLost) {
      this.#paste.text += key.sequence ?? text ?? '';
      this.#paste.ms = performance.now();
      return true;
    }
    const { text: pasted } = this.#paste;
    this.#paste = undefined;
    if (this.#resolve) this.#insertPaste(pasted);
    else this.#waiting.push(pasted);
    return !isLost;
  }

  #insertPaste(pasted: string): void {
    this.#armed = false;
    this.#walk.endSearch();
    this.#change(edit(this.#draft, { do: 'insert', text: pasted }));
  }

  #act(meaning: ReturnType<typeof meaningOf>): void {
    switch (meaning.do) {
      case 'enter': {
        const means = enter(this.#draft);
        if (means.kind === 'break') this.#change(means.draft);
        else this.#send(means);
        return;
      }
      case 'break': return this.#change(edit(this.#draft, { do: 'insert', text: '\n' }));
      case 'interrupt': return this.#interrupted();
      case 'end':
        if (this.#draft.text === '') this.#settle({ kind: 'leave', code: 0 });
        else this.#change(edit(this.#draft, { do: 'delete', to: 'right' }));
        return;
      case 'older':
      case 'newer': return this.#upOrDown(meaning.do);
      case 'complete': return void this.#complete();
      case 'redraw':
        this.#terminal.write('\x1b[2J\x1b[H');
        return this.#draw();
      case 'insert': case 'move': case 'delete': case 'yank': case 'transpose': case 'replace':
        return this.#change(edit(this.#draft, meaning));
      case 'search': case 'cancel': case 'paste-start': case 'suspend': case 'prefix': case 'nothing': return;
    }
  }

  #change(draft: Draft): void {
    this.#draft = draft;
    this.#drawSoon();
  }

  #send({ text, fenced }: { text: string; fenced: boolean }): void {
    if (text.trim() === '') return this.#change({ ...this.#draft, text: '', cursor: 0 });
    if (this.keepsHistory) void this.#history.add(this.#draft.text);
    this.#settle({ kind: 'text', text, fenced });
  }

  #interrupted(): void {
    if (this.#draft.text !== '') {
      this.#screen.finish(prompt, this.#draft);
      this.#change({ ...this.#draft, text: '', cursor: 0 });
      this.onClear();
    } else if (this.#armed) this.#settle({ kind: 'leave', code: stopCode() });
    else {
      this.#armed = true;
      this.say(againLeaves);
    }
  }

  #upOrDown(way: 'older' | 'newer'): void {
    const { text, cursor } = this.#draft;
    const inside = way === 'older' ? text.lastIndexOf('\n', cursor - 1) >= 0 && cursor > 0 : text.indexOf('\n', cursor) >= 0;
    if (inside) return this.#change(edit(this.#draft, { do: 'move', to: way === 'older' ? 'up' : 'down' }));
    const found = this.#walk.step(way, text);
    if (found !== undefined) this.#change(edit(this.#draft, { do: 'replace', text: found }));
  }

  /** Whether the key belongs to a history search. */
  #search(meaning: ReturnType<typeof meaningOf>): boolean {
    if (this.#walk.query === undefined && meaning.do !== 'search') return false;
    const found = this.#walk.search(meaning, this.#draft.text);
    if (found.text !== undefined) this.#draft = edit(this.#draft, { do: 'replace', text: found.text });
    this.#drawSoon();
    return found.taken;
  }

  /** The edited text is sent only by Enter, so that closing the editor sends nothing. */
  async #editOutside(): Promise<void> {
    this.#walk.endSearch();
    this.#erase();
    this.#outside = true;
    let problem: string | undefined;
    try {
      this.#draft = edit(this.#draft, { do: 'replace', text: await this.#terminal.lend(() => editOutside(this.#draft.text)) });
    } catch (thrown) {
      problem = `recua: ${RecuaError.from(thrown).message}`;
    } finally {
      this.#outside = false;
    }
    if (problem === undefined) this.#draw();
    else this.say(problem);
  }

  async #complete(): Promise<void> {
    const { text, cursor } = this.#draft;
    if (!text.startsWith('/') || cursor !== text.length) return;
    const found = await this.#completer(text).catch(() => []);
    if (this.#draft.text !== text || found.length === 0 || !this.#resolve) return;
    const shared = found.reduce((a, b) => {
      let length = 0;
      while (length < a.length && a[length] === b[length]) length++;
      return a.slice(0, length);
    });
    if (shared.length > text.length) this.#change(edit(this.#draft, { do: 'replace', text: shared }));
    else if (found.length > 1) this.say(found.join('  '));
  }
}
