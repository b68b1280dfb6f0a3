// The report of `npm test`: prints all details of a failure immediately, a line per part when its
// last file is done, and which files still run. In a log, it prints a line per file.
import { Transform } from 'node:stream';
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { failureLines, partLine, partOf, sourceOf, TapFiles } from './tap-result.mjs';

const isTerminal = Boolean(process.stdout.isTTY);
/** How often to log which files still run; this file's test sets it. */
const tellMs = Number(process.env.REPORT_EVERY_MS ?? 30_000);

export default class Reporter extends Transform {
  #rest = '';
  #reader = new TapFiles();
  #print = failureLines((line) => this.#say(line));
  /** Unfinished files of each part, and the results of finished ones. */
  #waiting = new Map();
  #done = new Map();
  /** Names of running files, each with its start time. */
  #running = new Map();
  #total = 0;
  #finished = 0;
  #timer;

  constructor() {
    super({ encoding: 'utf8' });
    t.on('subtestAdd', ({ name }) => {
      const part = partOf(name);
      this.#waiting.set(part, (this.#waiting.get(part) ?? 0) + 1);
      this.#total++;
    });
    t.on('subtestStart', ({ name }) => this.#running.set(name, performance.now()));
    t.on('subtestEnd', ({ name }) => this.#running.delete(name));
    this.#timer = setInterval(() => isTerminal ? this.#draw() : this.#tell(), isTerminal ? 500 : tellMs);
    this.#timer.unref();
  }

  _transform(chunk, encoding, done) {
    const lines = (this.#rest + chunk.toString()).split('\n');
    this.#rest = lines.pop();
    for (const line of lines) this.#take(line);
    done();
  }

  _flush(done) {
    clearInterval(this.#timer);
    if (this.#rest) this.#take(this.#rest);
    this.#clear();
    done();
  }

  #take(line) {
    this.#print(line);
    const file = this.#reader.take(line);
    if (!file) return;
    this.#finished++;
    if (!isTerminal || !file.ok) this.#say(`${file.ok ? 'ok    ' : 'FAILED'} ${file.name}  ${file.seconds.toFixed(1)} s`);
    const part = partOf(file.name);
    const done = [...this.#done.get(part) ?? [], file];
    this.#done.set(part, done);
    if (done.length === this.#waiting.get(part)) this.#say(partLine(part, done));
  }

  #say(line) {
    this.#clear();
    this.push(`${line}\n`);
  }

  /** `test/a.test.ts 12 s, …`: files that have run for at least this long. */
  #runningFor(leastMs) {
    const now = performance.now();
    return [...this.#running].filter(([, start]) => now - start >= leastMs).map(([name, start]) => `${sourceOf(name)} ${Math.round((now - start) / 1000)} s`).join(', ');
  }

  #tell() {
    const late = this.#runningFor(tellMs);
    if (late) this.#say(`still running: ${late}`);
  }

  #draw() {
    const line = `${this.#finished}/${this.#total}  ${this.#runningFor(0)}`;
    process.stdout.write(`\r\x1b[2K${line.slice(0, Math.max(20, (process.stdout.columns ?? 80) - 1))}`);
  }

  #clear() {
    if (isTerminal) process.stdout.write('\r\x1b[2K');
  }
}
