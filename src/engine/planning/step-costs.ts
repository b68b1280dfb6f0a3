// Predicts how long steps, prompt reading (prefill) and KV copies take on this machine with this
// model. The scheduler asks before each step; the loop reports the measured time after it. Pure.
//
// The model is linear: a step's time is a sum of coefficients (milliseconds) times amounts.
//
//   - Passes. A pass reads the weights once, for up to 512 rows (tokens). Its time depends on the
//     rows: known at 10 knots (1, 2, 4 … 512 rows), linear between them.
//   - Attention. Each row attends to the tokens before it, so its time grows with rows × tokens.
//     llama.cpp has two kernels with different speeds: row by row, and in tiles of 64 rows.
//
// That makes 12 coefficients. `#describe` turns a step into 12 amounts (`#terms`); the prediction
// is the dot product. `learn` corrects the coefficients from each measured step with a Kalman
// filter: it keeps a covariance matrix, so it knows how uncertain each coefficient is and which of
// them a measurement can correct. Everything that depends on llama.cpp's kernels is in this file:
// which rows share a pass, and how attention is computed.

/**
 * One sequence's share of a step: `rows` tokens to evaluate, after `depth` tokens in the KV cache.
 */
export interface Part {
  slot: number;
  depth: number;
  rows: number;
}

/** The scheduler's view. */
export interface Costs {
  /** At least one step was measured. */
  readonly known: boolean;
  /** Milliseconds of a step: the expected time, and a cautious upper estimate. */
  stepMs(parts: readonly Part[]): number;
  mostMs(parts: readonly Part[]): number;
}

/** Most rows in one of llama.cpp's passes over the weights. */
const passRows = 512;
/** Attention uses tiles of this many rows of one sequence; fewer rows are computed one by one. */
const tileRows = 64;
/** Coefficients 0 … 9: a pass's milliseconds at 1, 2, 4 … 512 rows. */
const knots = Math.log2(passRows) + 1;
/** Coefficients 10 and 11: attention's milliseconds per row × token, row by row and in tiles. */
const byRow = knots;
const byTile = knots + 1;
const size = knots + 2;

// Prior: assumed coefficients and their standard errors, in units of one row's time. The first
// measured step sets that unit. A pass of n rows is assumed to take `weights + n` units.
const weights = 8;
const weightsError = 16;
const rowError = 1;
/** Relative error of each knot by itself; the errors above are common to all knots. */
const knotError = 0.3;
const attention = 0.0003;
const attentionError = 0.003;
/** Measurement noise: the standard deviation of equal steps, as a fraction of their time. */
const noise = 0.1;
/** Extra noise of the first steps, which are slow for other reasons: 0.5, then 0.25, 0.17 … */
const firstNoise = 0.5;
/** Coefficients change over time: each step adds this relative error to those it used. */
const drift = 0.01;
/**
 * A step this many standard deviations too slow is an outlier: another program was busy. The excess
 * is ignored.
 */
const farthest = 3;
/**
 * The first step may be slow for other reasons: it also loads a GPU's kernels, or reads the file. A
 * step of at least `tellingRows` that takes less than this share of the prior sets a new unit.
 */
const mistaken = 1 / 4;
const tellingRows = 8;
/** A step that is much too fast multiplies variances by at most this. */
const largestDoubt = 100;
/** Milliseconds per row before the first measurement, for comparing reading with copying. */
const firstRowMs = 0.16;
/** To copy a token takes this share of a row's time, until a copy was measured. */
const copyShare = 1 / 16;
/** How many of the last copies count. */
const keptCopies = 8;

/** A coefficient of the prior, in units of one row's time. */
function prior(coefficient: number): number {
  return coefficient < knots ? weights + 2 ** coefficient : attention;
}

/**
 * How long copies of one kind take: as long per token as the fastest of the last ones. Other
 * programs can make a copy slower, never faster.
 */
export class CopyCosts {
  readonly #guess: () => number;
  /** Milliseconds per token of the last copies. */
  readonly #last: number[] = [];

  /** `guess`: milliseconds per token; counts as a copy until two were measured. */
  constructor(guess: () => number) {
    this.#guess = guess;
  }

  /** Milliseconds to copy the KV of `tokens`. */
  ms(tokens: number): number {
    return tokens * Math.min(...this.#last, this.#last.length < 2 ? this.#guess() : Infinity);
  }

  /** Reports a measured copy. */
  measured(tokens: number, ms: number): void {
    if (tokens === 0) return;
    this.#last.push(ms / tokens);
    if (this.#last.length > keptCopies) this.#last.shift();
  }

  /**
   * Reports that a copy was left out because it would take too long. Then nothing is measured, so
   * that slow copies must not count for ever.
   */
  leftOut(): void {
    this.#last.forEach((perToken, i) => (this.#last[i] = perToken * (127 / 128)));
  }
}

export class StepCosts implements Costs {
  /** The Kalman filter's state: the 12 coefficients and their covariance matrix. */
  readonly #learned = new Float64Array(size);
  readonly #errors = Array.from({ length: size }, () => new Float64Array(size));
  /** The coefficients, clamped for predictions: never negative, and more rows never take less. */
  readonly #used = new Float64Array(size);
  /** The described step: the amount of each coefficient in it. */
  readonly #terms = new Float64Array(size);
  /** From `#share()`: each coefficient's covariance with the step's time (`#errors` × `#terms`). */
  readonly #shared = new Float64Array(size);
  #steps = 0;
  /** The prior's unit. */
  #rowMs = firstRowMs;
  /** Copies of KV to another sequence. */
  readonly copies = new CopyCosts(() => copyShare * this.#rowMs);
  /** Copies of KV into the stash's memory and back. A GPU's KV leaves the GPU for that. */
  readonly stashes = new CopyCosts(() => copyShare * this.#rowMs);

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
   * Expected time plus one standard deviation, so row counts not tried yet count as expensive. The
   * uncertainty of attention is left out: otherwise a kind of step that was slow once would never
   * be tried again.
   */
  mostMs(parts: readonly Part[]): number {
    this.#describe(parts);
    const ms = this.#expected();
    const all = this.#share();
    this.#terms.fill(0, byRow);
    return ms + Math.sqrt(Math.max(0, Math.min(all, this.#share())));
  }

  /** Milliseconds to read (prefill) `tokens` after `depth` others, in full passes. */
  readMs(tokens: number, depth = 0): number {
    return tokens * (this.#used[knots - 1]! / passRows + this.#used[byTile]! * (depth + tokens / 2));
  }

  /** Milliseconds of a pass with one row: what merging two steps into one saves. */
  get passMs(): number {
    return this.#used[0]!;
  }

  /**
   * Reports a measured step. This is one Kalman update, with three changes: the noise is
   * proportional to the step's time, a step that is too slow counts at most as `farthest`, and a
   * step that is too fast raises the uncertainty first.
   */
  learn(parts: readonly Part[], ms: number): void {
    if (ms <= 0 || parts.length === 0) return;
    this.#describe(parts);
    const rowMs = ms / this.#unitsOf();
    const rows = parts.reduce((sum, part) => sum + part.rows, 0);
    if (this.#steps === 0 || (rows >= tellingRows && rowMs < mistaken * this.#rowMs)) this.#begin(rowMs);
    this.#steps++;
    const expected = this.#expected(this.#learned);
    const share = this.#share();
    const noisy = ((noise + firstNoise / this.#steps) * Math.max(expected, ms / farthest)) ** 2;
    const news = Math.min(ms - expected, farthest * Math.sqrt(share + noisy));
    // Other programs can make a step slower, never faster. So if a step is too fast to be noise,
    // the coefficients are wrong: raise their variance until the step is within `farthest`.
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

  /** The described step by the prior, in units of one row's time. */
  #unitsOf(): number {
    let units = 0;
    for (let i = 0; i < size; i++) units += prior(i) * this.#terms[i]!;
    return units;
  }

  /** Resets to the prior, given one row's time. */
  #begin(rowMs: number): void {
    this.#rowMs = rowMs;
    for (let i = 0; i < size; i++) {
      const rows = 2 ** i;
      this.#learned[i] = rowMs * prior(i);
      for (let j = 0; j < size; j++) {
        const same = i === j ? 1 : 0;
        const both = i < knots && j < knots;
        const error = both
          ? weightsError ** 2 + rowError ** 2 * rows * 2 ** j + same * (knotError * (weights + rows)) ** 2
          : same * attentionError ** 2;
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

  /** The variance of the described step's prediction; fills `#shared` on the way. */
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
   * Fills `#terms` the way llama.cpp splits a step into passes. Sequences with consecutive slot
   * numbers go in lockstep: a pass takes equally many rows from each of them, until one has none
   * left. A gap in the numbers starts another pass.
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
      while (end < left.length && left[end]!.rows > 0 && left[end]!.slot <= left[end - 1]!.slot + 1)
        rows = Math.min(rows, left[end++]!.rows);
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

  /** Adds a pass, split between the two knots around its row count. */
  #addPass(rows: number): void {
    const place = Math.min(Math.log2(rows), knots - 1);
    const below = Math.floor(place);
    const above = (rows - 2 ** below) / 2 ** below;
    this.#terms[below]! += 1 - above;
    if (above > 0) this.#terms[below + 1]! += above;
  }
}
