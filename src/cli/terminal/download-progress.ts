// How far a download is, on stderr: a bar with speed and time left on a terminal, a line for every
// tenth elsewhere, nothing when quiet. Used by pull.
import { sizeText } from '../../models/byte-size.js';
import type { DownloadPhase } from '../../models/download/download.js';
import { say } from './output.js';

/** Speed is that of the last seconds, so that a pause shows. */
const windowMs = 5000;
const drawMs = 125;
const linesPerDownload = 10;
const longestFigures = '100 % of 99.9 GiB, 99.9 MiB/s, 59 min 59 s left'.length;

export class DownloadProgress {
  readonly #totalBytes: number;
  readonly #quiet: boolean;
  /** Draws the bar; undefined where there is none. */
  #timer: NodeJS.Timeout | undefined;
  #doneBytes = 0;
  #phase: DownloadPhase = 'checking';
  #samples: { atMs: number; bytes: number }[] = [];
  #nextLine = 1;

  constructor({ totalBytes, haveBytes, quiet }: { totalBytes: number; haveBytes: number; quiet: boolean }) {
    this.#totalBytes = totalBytes;
    this.#quiet = quiet;
    this.#doneBytes = haveBytes;
    this.#nextLine = Math.floor(this.#fraction * linesPerDownload) + 1;
    if (quiet || !process.stderr.isTTY || totalBytes === 0) return;
    this.#timer = setInterval(() => this.#draw(), drawMs);
    this.#draw();
  }

  update(doneBytes: number): void {
    this.#doneBytes = Math.min(doneBytes, this.#totalBytes);
    const now = performance.now();
    this.#samples.push({ atMs: now, bytes: doneBytes });
    while (this.#samples.length > 2 && now - this.#samples[1]!.atMs > windowMs) this.#samples.shift();
    // What comes in thousands a second is remembered in hundreds.
    if (this.#samples.length > 512) this.#samples = this.#samples.filter((_, index) => index % 2 === 0);
    if (this.#timer === undefined && !this.#quiet && this.#phase !== 'checking') this.#sayTenths();
  }

  phase(phase: DownloadPhase): void {
    if (phase !== this.#phase) this.#samples = [];
    this.#phase = phase;
  }

  /** A line for people above the bar. */
  note(text: string): void {
    if (this.#quiet) return;
    if (this.#timer) process.stderr.write('\r\x1b[J');
    say(text);
    if (this.#timer) this.#draw();
  }

  end(): void {
    if (!this.#timer) return;
    this.#draw();
    clearInterval(this.#timer);
    this.#timer = undefined;
    process.stderr.write('\n');
  }

  /**
   * A terminal may have been made narrower since. One that breaks lines anew keeps the cursor with
   * its letter, so it rests on the line's first, and what the line was broken into is below it and
   * cleared; and a line that is too long by now is cut, not broken. Both modes of that are set and
   * reset in one write, since the terminal of a program that was killed keeps them.
   */
  #draw(): void {
    process.stderr.write(`\r\x1b[?7l${this.#barLine()}\x1b[J\x1b[?7h\r`);
  }

  get #fraction(): number {
    return this.#totalBytes === 0 ? 1 : this.#doneBytes / this.#totalBytes;
  }

  #sayTenths(): void {
    const tenth = Math.floor(this.#fraction * linesPerDownload);
    if (tenth < this.#nextLine) return;
    this.#nextLine = tenth + 1;
    say(this.#figures());
  }

  #barLine(): string {
    const figures = this.#figures();
    // The figures change their length, the bar does not.
    const width = Math.min(40, (process.stderr.columns || 80) - longestFigures - 4);
    if (width < 5) return figures.slice(0, (process.stderr.columns || 80) - 1);
    const filled = Math.floor(width * this.#fraction);
    return `[${'='.repeat(filled)}${' '.repeat(width - filled)}] ${figures}`;
  }

  /** `42 % of 4.1 GiB, 12.0 MiB/s, 3 min left`. */
  #figures(): string {
    const base = `${String(Math.floor(this.#fraction * 100)).padStart(3)} % of ${sizeText(this.#totalBytes)}`;
    if (this.#phase === 'checking') return `${base}, checking`;
    const speed = this.#bytesPerSecond();
    const waiting = this.#phase === 'waiting' ? ', by another recua' : '';
    if (speed < 1 || this.#fraction >= 1) return `${base}${waiting}`;
    return `${base}${waiting}, ${sizeText(Math.round(speed))}/s, ${durationText((this.#totalBytes - this.#doneBytes) / speed)} left`;
  }

  #bytesPerSecond(): number {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    if (!first || !last || last.bytes <= first.bytes) return 0;
    // Measured to now: while nothing comes, the speed sinks.
    return (last.bytes - first.bytes) / (Math.max(1, performance.now() - first.atMs) / 1000);
  }
}

/** `3 s`, `4 min 10 s`, `2 h 5 min`. */
export function durationText(seconds: number): string {
  const whole = Math.max(1, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const hours = Math.floor(whole / 3600);
  return hours < 100 ? `${hours} h ${Math.floor(whole % 3600 / 60)} min` : 'days';
}
