// Runs the built command line on a real pseudo-terminal and reads what a person would see there.
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import pty from '@lydell/node-pty';
import xterm from '@xterm/headless';
import { mainPath, root, withHome } from './recua.js';

export interface PtyOptions {
  env?: Record<string, string>;
  columns?: number;
  rows?: number;
  cwd?: string;
  /** A program other than the command line, for example a shell that runs it. */
  program?: string;
}

const patienceMs = 30_000;

function descendants(pid: number): number[] {
  if (process.platform !== 'linux') return [];
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
    return children.flatMap((child) => [child, ...descendants(child)]);
  } catch {
    return [];
  }
}

/** A zombie that nobody has waited for yet no longer runs. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

export class Pty {
  readonly #process: pty.IPty;
  readonly #terminal: xterm.Terminal;
  readonly #watchers = new Set<() => void>();
  /** Every byte that arrived. */
  raw = '';
  #ended = false;
  readonly ended: Promise<{ exitCode: number; signal: number | undefined }>;

  constructor(args: readonly string[], { env = {}, columns = 80, rows = 24, cwd = root, program }: PtyOptions = {}) {
    this.#terminal = new xterm.Terminal({ cols: columns, rows, allowProposedApi: true, scrollback: 2000 });
    const { NO_COLOR, ...inherited } = process.env;
    this.#process = pty.spawn(program ?? process.execPath, program === undefined ? [mainPath, ...args] : [...args], {
      name: env['TERM'] ?? 'xterm-256color', cols: columns, rows, cwd, env: { ...inherited, TERM: 'xterm-256color', ...withHome(env) } as Record<string, string>,
    });
    this.#process.onData((data) => {
      this.raw += data;
      this.#terminal.write(data, () => { for (const watch of this.#watchers) watch(); });
    });
    this.ended = new Promise((resolve) => {
      this.#process.onExit(({ exitCode, signal }) => {
        // Queued after the last write, so that the screen has all of it.
        this.#terminal.write('', () => {
          this.#ended = true;
          for (const watch of this.#watchers) watch();
          resolve({ exitCode, signal });
        });
      });
    });
  }

  get pid(): number {
    return this.#process.pid;
  }

  type(text: string): void {
    this.#process.write(text);
  }

  resize(columns: number, rows: number): void {
    this.#terminal.resize(columns, rows);
    this.#process.resize(columns, rows);
  }

  /** Resizes the screen only, as in the moment before the program hears of its narrower window. */
  resizeUnheard(columns: number, rows: number): void {
    this.#terminal.resize(columns, rows);
  }

  kill(signal: string): void {
    if (!this.#ended) this.#process.kill(signal);
  }

  /**
   * Closes the terminal, as closing its window does: the kernel sends SIGHUP. node-pty's `destroy`
   * would send another, which may come after the handlers are gone.
   */
  hangUp(): void {
    (this.#process as unknown as { _socket: Socket })._socket.destroy();
  }

  /** All lines, including scrolled ones, without empty ones at the end. */
  lines(): string[] {
    const buffer = this.#terminal.buffer.active;
    const lines = Array.from({ length: buffer.length }, (_, row) => buffer.getLine(row)!.translateToString(true).trimEnd());
    while (lines.at(-1) === '') lines.pop();
    return lines;
  }

  text(): string {
    return this.lines().join('\n');
  }

  /** Column of the cursor and the text of its line. */
  cursor(): { column: number; line: string } {
    const { cursorX, cursorY, baseY } = this.#terminal.buffer.active;
    return { column: cursorX, line: this.#terminal.buffer.active.getLine(baseY + cursorY)!.translateToString(true).trimEnd() };
  }

  /** Whether a text is shown dim. */
  isDim(text: string): boolean {
    const row = this.lines().findIndex((line) => line.includes(text));
    const cell = this.#terminal.buffer.active.getLine(row)?.getCell(this.lines()[row]!.indexOf(text));
    return cell !== undefined && cell.isDim() !== 0;
  }

  /**
   * Waits until the screen shows something; rejects with the screen after a while, or if the
   * process ends first.
   */
  async until(condition: RegExp | (() => boolean), what = String(condition)): Promise<void> {
    const holds = typeof condition === 'function' ? condition : () => condition.test(this.text());
    await new Promise<void>((resolve, reject) => {
      const finish = (action: () => void) => {
        clearTimeout(timer);
        this.#watchers.delete(watch);
        action();
      };
      const fail = (why: string) => finish(() => reject(new Error(`${why} before ${what}. The screen:\n${this.text()}`)));
      const watch = () => {
        if (holds()) finish(resolve);
        else if (this.#ended) fail('The process ended');
      };
      const timer = globalThis.setTimeout(() => fail('Time ran out'), patienceMs);
      this.#watchers.add(watch);
      watch();
    });
  }

  /** An empty prompt, with the cursor after it. */
  async prompt(): Promise<void> {
    await this.until(() => this.cursor().line === '>' && this.cursor().column === 2, 'an empty prompt');
  }

  /**
   * Sends a line and waits for the next prompt. Returns the text shown between the two, without the
   * line between turns.
   */
  async say(line: string): Promise<string> {
    const before = this.lines().length;
    this.type(`${line}\r`);
    await this.until(() => this.lines().length > before, `a reaction to ${line}`);
    await this.prompt();
    const shown = this.lines().slice(before, -1);
    return (/^─+$/.test(shown.at(-1) ?? '') ? shown.slice(0, -1) : shown).join('\n');
  }

  async leave(): Promise<number> {
    this.type('\x04');
    return (await this.ended).exitCode;
  }

  /**
   * Ends the process and its children, and waits until they are gone: a process that still writes
   * would block the removal of the test's folder.
   */
  async dispose(): Promise<void> {
    const others = this.#ended ? [] : descendants(this.pid);
    this.kill('SIGKILL');
    for (const other of others) {
      try { process.kill(other, 'SIGKILL'); } catch { /* It has ended. */ }
    }
    await this.ended;
    while (others.some(isRunning)) await setTimeout(5);
    this.#terminal.dispose();
  }
}
