// A list on the terminal to pick a row from, with the same keys as the message line. It is erased
// afterwards. Called by model-choice.ts and by the menu.
import { RecuaError } from '../../errors.js';
import { shorten } from '../terminal/rows.js';
import { watchSignals } from '../terminal/signals.js';
import { meaningOf } from './input/keys.js';
import { Terminal } from './terminal.js';
import type { Key } from './terminal.js';

interface PickOptions {
  /** A key for each row, at most nine. It picks the row at once, and so does the row's number. */
  letters?: readonly string[];
  /** The message if the user leaves. */
  what?: string;
}

/** Resolves to the index of the row; throws `cancelled` if the user leaves. */
export async function pick(rows: readonly string[], options?: PickOptions): Promise<number>;
/** The same, but Esc and Ctrl-D resolve to undefined. */
export async function pick(rows: readonly string[], options: PickOptions & { mayLeave: true }): Promise<number | undefined>;
export async function pick(rows: readonly string[], { letters = [], what = 'No model was chosen.', mayLeave = false }: PickOptions & { mayLeave?: boolean } = {}): Promise<number | undefined> {
  // Before the list is drawn: a signal must not leave it, and the terminal, as they are.
  const stop = watchSignals();
  const picker = new Picker(rows, letters, what, new Terminal(process.stdin, process.stdout));
  stop.signal.addEventListener('abort', () => picker.leave(), { once: true });
  picker.mayLeave = mayLeave;
  try {
    return await picker.picked;
  } finally {
    stop.release();
    picker.close();
  }
}

class Picker {
  readonly picked: Promise<number | undefined>;
  /** Esc is not a failure. */
  mayLeave = false;
  readonly #letters: readonly string[];
  readonly #what: string;
  readonly #rows: readonly string[];
  readonly #terminal: Terminal;
  readonly #onResize = () => this.#draw();
  #at = 0;
  /** The digits typed so far. */
  #number = '';
  #drawnRows = 0;
  #settle!: { resolve(at: number | undefined): void; reject(error: RecuaError): void };

  constructor(rows: readonly string[], letters: readonly string[], what: string, terminal: Terminal) {
    this.#rows = rows;
    this.#letters = letters;
    this.#what = what;
    this.#terminal = terminal;
    this.picked = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    terminal.open({ key: (text, key) => this.#key(text, key), resized: this.#onResize, resumed: this.#onResize });
    this.#draw();
  }

  leave(): void {
    this.#settle.reject(new RecuaError('cancelled', this.#what));
  }

  close(): void {
    this.#erase();
    this.#terminal.close();
  }

  #key(text: string | undefined, key: Key): void {
    const meaning = meaningOf(text, key);
    const number = meaning.do === 'insert' && /^\d$/.test(meaning.text) ? this.#number + meaning.text : '';
    this.#number = '';
    switch (meaning.do) {
      case 'older': return this.#move(this.#at - 1);
      case 'newer': return this.#move(this.#at + 1);
      case 'enter': return this.#settle.resolve(this.#at);
      case 'interrupt':
        return this.leave();
      case 'cancel': case 'end':
        return this.mayLeave ? this.#settle.resolve(undefined) : this.leave();
      case 'suspend':
        this.#erase();
        return this.#terminal.suspend();
      case 'insert': return this.#letters.length > 0 ? this.#pick(meaning.text) : this.#type(number);
      default: return;
    }
  }

  #pick(letterOrNumber: string): void {
    const at = /^[1-9]$/.test(letterOrNumber) ? Number(letterOrNumber) - 1 : this.#letters.indexOf(letterOrNumber);
    if (at >= 0 && at < this.#rows.length) this.#settle.resolve(at);
    else if (letterOrNumber === 'q' && this.mayLeave) this.#settle.resolve(undefined);
  }

  /** Another digit continues the number, if the list has enough rows. */
  #type(number: string): void {
    if (number === '') return;
    const digits = Number(number) <= this.#rows.length ? number : number.at(-1)!;
    if (Number(digits) < 1 || Number(digits) > this.#rows.length) return;
    this.#number = digits;
    this.#move(Number(digits) - 1);
  }

  #move(to: number): void {
    this.#at = Math.min(Math.max(to, 0), this.#rows.length - 1);
    this.#draw();
  }

  /** Draws as many rows around the chosen one as the screen holds. */
  #draw(): void {
    const { columns, rows: height } = this.#terminal;
    const room = Math.max(1, Math.min(this.#rows.length, height - 2));
    const first = Math.min(Math.max(0, this.#at - Math.floor(room / 2)), this.#rows.length - room);
    const width = String(this.#rows.length).length;
    const lines = this.#rows.slice(first, first + room).map((row, index) => {
      const at = first + index;
      const letter = this.#letters[at] === undefined ? '' : `${this.#letters[at]}  `;
      return shorten(`${at === this.#at ? '>' : ' '} ${String(at + 1).padStart(width)}  ${letter}${row}`, columns - 1);
    });
    this.#erase();
    this.#terminal.write(lines.map((line) => `${line}\r\n`).join(''));
    this.#drawnRows = lines.length;
  }

  #erase(): void {
    if (this.#drawnRows > 0) this.#terminal.write(`\x1b[${this.#drawnRows}A\r\x1b[J`);
    this.#drawnRows = 0;
  }
}
