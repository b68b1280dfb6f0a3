// Shows an answer as it comes: without control characters, rendered or wrapped between words, and
// with thinking set apart from the answer. One per answer, or per answer that is shown again.
import type { Delta } from '../../engine/protocol.js';
import { MarkdownWriter, widestRule } from '../markdown/markdown-writer.js';
import type { Rendering } from '../markdown/rendering.js';
import { tame } from '../terminal/output.js';
import { WordWrap } from './word-wrap.js';

export interface AnswerLook {
  /** Whether thinking is dimmed; otherwise words mark it. */
  styles: boolean;
  /** Whether it is shown on a terminal, which the model's text must not control. */
  terminal: boolean;
  /** Columns to wrap at; Infinity for no wrapping. */
  columns(): number;
  /** How to render Markdown; undefined to show it unchanged. */
  markdown?: Rendering | undefined;
  /** Write the answer's bytes unchanged, even on a terminal. */
  raw?: boolean;
}

export class AnswerWriter {
  readonly #write: (text: string) => void;
  readonly #look: AnswerLook;
  readonly #wrap: WordWrap;
  readonly #markdown: MarkdownWriter | undefined;
  #thinking = false;
  #begun = false;
  #lineOpen = false;

  constructor(write: (text: string) => void, look: AnswerLook) {
    this.#write = write;
    this.#look = look;
    this.#wrap = new WordWrap(() => look.columns());
    const { markdown } = look;
    this.#markdown = markdown && new MarkdownWriter(write, markdown.size, markdown.libraries, markdown.looks);
  }

  push({ reasoning, content }: Delta): void {
    if (reasoning) this.#think(reasoning);
    if (content) this.#say(content);
  }

  /** Ends the last line, if it is open. */
  end(): void {
    this.#endThinking();
    this.#markdown?.end();
    if (this.#lineOpen) this.#write('\n');
    this.#lineOpen = false;
  }

  /** Call before other output, which then starts at the beginning of a row. */
  giveWay(): void {
    this.#markdown?.giveWay();
    if (this.#lineOpen) this.#show('\n');
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
    if (this.#look.raw) {
      this.#write(text);
      this.#lineOpen = !text.endsWith('\n');
      return;
    }
    // Many templates leave line breaks between thinking and answer, or before it.
    const shown = this.#begun ? text : text.trimStart();
    if (shown === '') return;
    this.#begun = true;
    if (this.#markdown) this.#markdown.push(this.#safe(shown));
    else this.#show(this.#safe(shown));
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

/** The line between two turns; '' if answers are not rendered. */
export function turnRule({ markdown }: AnswerLook): string {
  if (!markdown) return '';
  const { dim } = markdown.looks;
  const line = '─'.repeat(Math.min(markdown.size().columns, widestRule));
  return dim === '' ? `${line}\n` : `\x1b[${dim}m${line}\x1b[0m\n`;
}
