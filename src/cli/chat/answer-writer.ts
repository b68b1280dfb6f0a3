// Shows an answer as it comes: tamed, broken between words, with what the model thinks set apart
// from what it says. One per answer, or per answer that is shown again.
import type { Delta } from '../../engine/protocol.js';
import { tame } from '../terminal/output.js';
import { WordWrap } from './word-wrap.js';

export interface AnswerLook {
  /** Thinking may be dimmed; else it is marked with words. */
  styles: boolean;
  /** It is shown on a terminal, which the model's text must not drive. */
  terminal: boolean;
  /** Columns to wrap at; Infinity where nothing is wrapped. */
  columns(): number;
}

export class AnswerWriter {
  readonly #write: (text: string) => void;
  readonly #look: AnswerLook;
  readonly #wrap: WordWrap;
  #thinking = false;
  #begun = false;
  #lineOpen = false;

  constructor(write: (text: string) => void, look: AnswerLook) {
    this.#write = write;
    this.#look = look;
    this.#wrap = new WordWrap(() => look.columns());
  }

  push({ reasoning, content }: Delta): void {
    if (reasoning) this.#think(reasoning);
    if (content) this.#say(content);
  }

  /** Ends the line, whatever came. */
  end(): void {
    this.#endThinking();
    if (this.#lineOpen) this.#write('\n');
    this.#lineOpen = false;
  }

  #think(text: string): void {
    const shown = this.#thinking ? text : text.trimStart();
    if (shown === '') return;
    if (!this.#thinking) {
      this.#thinking = true;
      if (!this.#look.styles) this.#show('[thinking]\n');
    }
    this.#show(this.#safe(shown), this.#look.styles);
  }

  #say(text: string): void {
    this.#endThinking();
    // Many templates leave line breaks between thinking and answer, or before it.
    const shown = this.#begun ? text : text.trimStart();
    if (shown === '') return;
    this.#begun = true;
    this.#show(this.#safe(shown));
  }

  #endThinking(): void {
    if (!this.#thinking) return;
    this.#thinking = false;
    if (this.#lineOpen) this.#show('\n');
    this.#show(this.#look.styles ? '\n' : '[/thinking]\n');
  }

  #safe(text: string): string {
    return this.#look.terminal ? tame(text) : text;
  }

  #show(text: string, dim = false): void {
    if (text === '') return;
    const wrapped = this.#wrap.push(text);
    this.#write(dim ? `\x1b[2m${wrapped}\x1b[22m` : wrapped);
    this.#lineOpen = !text.endsWith('\n');
  }
}
