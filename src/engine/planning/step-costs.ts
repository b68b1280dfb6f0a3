// What steps, reading and copies take on this machine with this model: one model of costs, learned
// from what steps took. All that is peculiar to kernels is in here: which rows go through the
// weights together, and how attention is computed. Pure: told of each step, asked before the next.

/** What one sequence brings to a step: so many rows behind so many tokens. */
export interface Part {
  slot: number;
  depth: number;
  rows: number;
}

/** What a planner asks. */
export interface Costs {
  /** Something was measured. */
  readonly known: boolean;
  /** Milliseconds of a step: most likely, and at most as far as that is known. */
  stepMs(parts: readonly Part[]): number;
  mostMs(parts: readonly Part[]): number;
}

/** llama.cpp takes at most so many rows through the weights at once. */
const passRows = 512;
/** Its attention works in tiles of so many rows of a sequence; fewer go row by row. */
const tileRows = 64;
/** A pass's time is a line between these: 1, 2, 4 … 512 rows. */
const knots = Math.log2(passRows) + 1;
/** Behind the knots: milliseconds for each row and token before it, row by row and in tiles. */
const byRow = knots;
const byTile = knots + 1;
const size = knots + 2;

// What is taken to be so until it was measured, in units of one row's time; the first step says
// how long that is. Each with about how wrong it may be.
const weights = 8;
const weightsError = 16;
const rowError = 1;
const knotError = 0.3;
const attention = 0.0003;
const attentionError = 0.003;
/** How much steps of one kind differ, as a part of their time. */
const noise = 0.1;
/** The first steps are slow for other reasons: so much more in the first, half in the next. */
const firstNoise = 0.5;
/** How much what was learned may have changed with each step that could show it. */
const drift = 0.01;
/** What is this many times as far off as expected says no more: another program was busy. */
const farthest = 3;
/** … and what turns out faster makes errors at most so many times as large, squared. */
const largestDoubt = 100;
/** Milliseconds per row before anything was measured, where tokens to read and to copy compare. */
const firstRowMs = 0.16;
/** … and of a copied token. */
const firstCopyMs = 0.01;

export class StepCosts implements Costs {
  /** By knot, then of attention; and how sure each is, with what it depends on. */
  readonly #learned = new Float64Array(size);
  readonly #errors = Array.from({ length: size }, () => new Float64Array(size));
  /** As learned, but nothing is for less than nothing, and more rows take no less time. */
  readonly #used = new Float64Array(size);
  readonly #terms = new Float64Array(size);
  readonly #shared = new Float64Array(size);
  #steps = 0;
  #copyMs = firstCopyMs;

  constructor() {
    this.#begin(firstRowMs);
  }

  get known(): boolean {
    return this.#steps > 0;
  }

  stepMs(parts: readonly Part[]): number {
    this.#describe(parts);
    return this.#expected();
  }

  /**
   * More rows than were tried yet count as dear. Attention does not: else what was slow once would
   * never be tried again.
   */
  mostMs(parts: readonly Part[]): number {
    this.#describe(parts);
    const ms = this.#expected();
    const all = this.#share();
    this.#terms.fill(0, byRow);
    return ms + Math.sqrt(Math.max(0, Math.min(all, this.#share())));
  }

  /** What reading so many tokens takes, from some depth on, in steps that do little else. */
  readMs(tokens: number, depth = 0): number {
    return tokens * (this.#used[knots - 1]! / passRows + this.#used[byTile]! * (depth + tokens / 2));
  }

  /** What copying the KV of so many tokens takes, to another sequence or into memory. */
  copyMs(tokens: number): number {
    return tokens * this.#copyMs;
  }

  /** A copy took so long. */
  copied(tokens: number, ms: number): void {
    if (tokens > 0) this.#copyMs += (Math.min(ms / tokens, 4 * this.#copyMs) - this.#copyMs) / 4;
  }

  /** What one pass over the weights takes: what is saved where two steps become one. */
  get passMs(): number {
    return this.#used[0]!;
  }

  /** A step took so long: a Kalman filter, whose noise is in proportion to the time. */
  learn(parts: readonly Part[], ms: number): void {
    if (ms <= 0 || parts.length === 0) return;
    this.#describe(parts);
    if (this.#steps === 0) this.#begin((ms / this.#expected()) * firstRowMs);
    this.#steps++;
    const expected = this.#expected(this.#learned);
    const share = this.#share();
    const noisy = ((noise + firstNoise / this.#steps) * Math.max(expected, ms / farthest)) ** 2;
    const news = Math.min(ms - expected, farthest * Math.sqrt(share + noisy));
    // Others make a step slower, never faster: then what it shows is less sure than it seemed.
    const unsure = news < 0 && share > 0 ? Math.max(1, Math.min(largestDoubt, ((news / farthest) ** 2 - noisy) / share)) : 1;
    const spread = unsure * share + noisy;
    const shrink = unsure ** 2 / spread - (unsure > 1 ? (unsure - 1) / share : 0);
    for (let i = 0; i < size; i++) {
      this.#learned[i]! += ((unsure * this.#shared[i]!) / spread) * news;
      const row = this.#errors[i]!;
      for (let j = 0; j < size; j++) row[j]! -= shrink * this.#shared[i]! * this.#shared[j]!;
      if (this.#terms[i]! > 0) row[i]! += (drift * this.#used[i]!) ** 2;
    }
    this.#clamp();
  }

  /** As if nothing were known but what a row takes. */
  #begin(rowMs: number): void {
    for (let i = 0; i < size; i++) {
      const rows = 2 ** i;
      this.#learned[i] = rowMs * (i < knots ? weights + rows : attention);
      for (let j = 0; j < size; j++) {
        const same = i === j ? 1 : 0;
        const both = i < knots && j < knots;
        const error = both ? weightsError ** 2 + rowError ** 2 * rows * 2 ** j + same * (knotError * (weights + rows)) ** 2 : same * attentionError ** 2;
        this.#errors[i]![j] = rowMs ** 2 * error;
      }
    }
    this.#clamp();
  }

  #clamp(): void {
    let least = 1e-6;
    for (let i = 0; i < size; i++) {
      if (i < knots) this.#used[i] = least = Math.max(least, this.#learned[i]!);
      else this.#used[i] = Math.max(0, this.#learned[i]!);
    }
  }

  #expected(of = this.#used): number {
    let ms = 0;
    for (let i = 0; i < size; i++) ms += of[i]! * this.#terms[i]!;
    return ms;
  }

  /** How wrong the step's time may be for what is not known, squared; and each one's part in it. */
  #share(): number {
    let square = 0;
    for (let i = 0; i < size; i++) {
      const row = this.#errors[i]!;
      let sum = 0;
      for (let j = 0; j < size; j++) sum += row[j]! * this.#terms[j]!;
      this.#shared[i] = sum;
      square += sum * this.#terms[i]!;
    }
    return square;
  }

  /**
   * How much of each there is in a step. Rows of sequences whose numbers follow each other go in
   * lockstep: a pass has equally many of each that still has some.
   */
  #describe(parts: readonly Part[]): void {
    this.#terms.fill(0);
    const left = parts.map((part) => ({ ...part })).sort((a, b) => a.slot - b.slot);
    for (let first = 0; first < left.length;) {
      if (left[first]!.rows === 0) {
        first++;
        continue;
      }
      let end = first + 1;
      let rows = left[first]!.rows;
      while (end < left.length && left[end]!.rows > 0 && left[end]!.slot <= left[end - 1]!.slot + 1) rows = Math.min(rows, left[end++]!.rows);
      rows = Math.min(rows, Math.max(1, Math.floor(passRows / (end - first))));
      this.#addPass(rows * (end - first));
      for (let i = first; i < end; i++) {
        const part = left[i]!;
        const tiled = Math.ceil(rows / tileRows) * tileRows;
        this.#terms[rows < tileRows ? byRow : byTile]! += (rows < tileRows ? rows : tiled) * (part.depth + rows / 2);
        part.depth += rows;
        part.rows -= rows;
      }
    }
  }

  #addPass(rows: number): void {
    const place = Math.min(Math.log2(rows), knots - 1);
    const below = Math.floor(place);
    const above = (rows - 2 ** below) / 2 ** below;
    this.#terms[below]! += 1 - above;
    if (above > 0) this.#terms[below + 1]! += above;
  }
}
