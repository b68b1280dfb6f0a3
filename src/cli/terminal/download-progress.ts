// The progress of a download, on stderr: a bar with speed and time left on a terminal, a line per
// tenth elsewhere, nothing when quiet. Used by pull.
import { sizeText } from '../../models/byte-size.js';
import type { DownloadPhase } from '../../models/download/download.js';
import { say } from './output.js';
import { screenOf } from '../markdown/screen.js';

/** The speed covers this time, so that a pause shows. */
const windowMs = 5000;
const drawMs = 125;
const linesPerDownload = 10;
const longestFigures = '100 % of 99.9 GiB, 99.9 MiB/s, 59 min 59 s left'.length;

export class DownloadProgress {
  readonly #totalBytes: number;
  readonly #quiet: boolean;
  /** Draws the bar; undefined without a bar. */
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
    // With thousands of updates per second, hundreds of samples are enough.
    if (this.#samples.length > 512) this.#samples = this.#samples.filter((_, index) => index % 2 === 0);
    if (this.#timer === undefined && !this.#quiet && this.#phase !== 'checking') this.#sayTenths();
  }

  phase(phase: DownloadPhase): void {
    if (phase !== this.#phase) this.#samples = [];
    this.#phase = phase;
  }

  /** Prints a line above the bar. */
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
   * The terminal may have become narrower since. A terminal that rewraps lines keeps the cursor on
   * its character. So the cursor rests on the line's first character: everything the line was
   * wrapped into is below it, and gets cleared. With wrapping off, a line that is now too long is
   * cut. The mode is set and reset in one write, because a terminal keeps it if the program is
   * killed.
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
    // The figures vary in length; the bar must not.
    const { columns } = screenOf(process.stderr);
    const width = Math.min(40, columns - longestFigures - 4);
    if (width < 5) return figures.slice(0, columns - 1);
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
    // Measured up to now, so that the speed drops while nothing arrives.
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
