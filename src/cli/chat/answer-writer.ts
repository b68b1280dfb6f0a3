// Shows an answer as it comes: tamed, with what the model thinks set apart from what it says. One per answer.
import type { Delta } from '../../engine/protocol.js';
import { tame } from '../output.js';

export interface AnswerLook {
  /** Thinking may be dimmed; else it is marked with words. */
  styles: boolean;
  /** It is shown on a terminal, which the model's text must not drive. */
  terminal: boolean;
}

export class AnswerWriter {
  readonly #write: (text: string) => void;
  readonly #look: AnswerLook;
  #thinking = false;
  #begun = false;
  #lineOpen = false;

  constructor(write: (text: string) => void, look: AnswerLook) {
    this.#write = write;
    this.#look = look;
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
    const safe = this.#safe(shown);
    this.#show(this.#look.styles ? `\x1b[2m${safe}\x1b[22m` : safe, safe);
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

  #show(text: string, visible = text): void {
    if (visible === '') return;
    this.#write(text);
    this.#lineOpen = !visible.endsWith('\n');
  }
}
