// A deterministic stand-in for the native addon. Its next token depends on every token of the
// sequence as evaluated (a hash chain), so any mix-up of KV changes the output. It records each
// breach of the contract in addon.ts.
import type {
  ChatInput,
  ChatPrompt,
  TokenizeOptions,
  ContextOptions,
  EmbedderOptions,
  NativeModelInfo,
  NativeAddon,
  NativeContext,
  NativeEmbedder,
  NativeModel,
  NativeParser,
  NativeSampler,
  ParsedDelta,
  Pieces,
  PreparedChat,
  PrepareInput,
  SamplerOptions,
  StepInput,
  StepResult,
} from '#recua/addon/addon.js';
import { leastTokens } from '#recua/engine/text/text-length.js';

export const tokens = { bos: 256, eos: 257, tool: 258, eAcute: 259, faceBegin: 260, faceEnd: 261, world: 262 };
const special: Record<number, string> = { 256: '<bos>', 257: '<eos>', 258: '<tool>' };
const wide: Record<number, number[]> = { 259: [0xc3, 0xa9], 260: [0xf0, 0x9f], 261: [0x98, 0x80], 262: [...Buffer.from(' world')] };
const vocabSize = 263;

/** A prompt with one of these bytes makes a step fail, kills the process, or never ends. */
export const marks = {
  failStep: '\x06', kill: '\x07', endless: '~',
  /** Blocks forever: the step, the JavaScript thread, or all preparation from then on. */
  stuckStep: '\x03', stuckProcess: '\x04', stuckPool: '\x05',
};

export interface FakeOptions {
  recurrent?: boolean;
  slidingWindow?: number;
  /** False: copySequence resolves to false. */
  copies?: boolean;
  hasDecoder?: boolean;
  pooling?: NativeModelInfo['pooling'];
  contextTrain?: number;
  /** Fewest and most event-loop turns of a step. */
  turns?: [number, number];
  /** With chained steps, JS hears of a step only when the next but one has begun. */
  lateReports?: boolean;
  /** With chained steps, JS hears of this many at once on average. */
  mostUntold?: number;
  /** Guesses come true by chance, so a step gives up to this many tokens per sequence. */
  mostTokens?: number;
  /** The time that a step reports. */
  decodeMs?: number;
  /** Additional milliseconds of each step. */
  stepMs?: number;
  /** A step polls while it takes its time, like a computing backend. */
  polling?: boolean;
  loadMs?: number;
  loadError?: { code: string; message: string };
  /** Dies while loading. */
  killOnLoad?: boolean;
  /** A text to tokenize with `marks.kill` kills the process at once. */
  killsTokenizing?: boolean;
  /** The first step, which is part of the load, never ends. */
  stuckOnLoad?: boolean;
}

/** Bytes of a stashed token. */
export const stashBytesPerToken = 1000;
/** A recurrent state has one size, however many tokens it has read. */
const recurrentBytes = 250_000;
export const checkpointBytes = 5000;

export interface FakeAddon extends NativeAddon {
  /** Breaches of the contract. Must stay empty. */
  violations: string[];
  /** The arguments of each call of `tokenize`, besides its text. */
  tokenized: TokenizeOptions[];
  /** Chats, prompt and answer. */
  remembered: Int32Array[];
  /** Calls of `applyChatTemplate`. */
  rendered: number;
  stats: {
    steps: number;
    rows: number;
    copied: number;
    stashed: number;
    stashedTokens: number;
    mostStashedTokens: number;
    unstashed: number;
    openSamplers: number;
    openParsers: number;
    openContexts: number;
    openModels: number;
    embedCalls: number;
    aborts: number;
    followed: number;
    guessed: number;
    decided: number;
    resumed: number;
    checkpoints: number;
    rolledBack: number;
    largestStep: number;
  };
}

export function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

const mix = (a: number, b: number): number => {
  let h = Math.imul(a ^ Math.imul(b + 0x9e3779b9, 0x85ebca6b), 0xc2b2ae35);
  h ^= h >>> 15;
  return (Math.imul(h, 0x27d4eb2f) ^ (h >>> 13)) >>> 0;
};

export function fakeTokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Int32Array {
  const out: number[] = addSpecial ? [tokens.bos] : [];
  for (const part of parseSpecial ? text.split(/(<tool>|<eos>|<bos>)/) : [text]) {
    const id = parseSpecial ? Object.entries(special).find(([, name]) => name === part)?.[0] : undefined;
    if (id !== undefined) out.push(Number(id));
    else out.push(...Buffer.from(part));
  }
  return Int32Array.from(out);
}

export function pieceBytes(token: number, withSpecial: boolean): number[] {
  if (token < 256) return [token];
  if (special[token] !== undefined) return withSpecial ? [...Buffer.from(special[token])] : [];
  return wide[token]!;
}

interface Cell { token: number; hash: number; endless: boolean }

class FakeSampler implements NativeSampler {
  readonly seed: number;
  closed = false;
  readonly grammarBytes: number = 0;
  #count = 0;
  /** In a grammar `slow:text`, every third token is left to decide(). */
  readonly #slow: boolean;
  #undecided: number | undefined;
  readonly #script: Int32Array | undefined;
  readonly #failAfter: number;
  constructor(options: SamplerOptions, readonly owner: FakeAddon) {
    this.seed = options.seed ?? 42;
    const grammar = options.grammar ?? '';
    if (grammar === 'bad') throw coded('invalid_grammar', 'the grammar is bad');
    this.#slow = grammar.startsWith('slow:');
    if (this.#slow) this.#script = fakeTokenize(`${grammar.slice(5)}<eos>`, false, true);
    if (grammar.startsWith('say:')) this.#script = fakeTokenize(`${grammar.slice(4)}<eos>`, false, true);
    if (grammar.startsWith('stuck:')) this.#script = fakeTokenize(grammar.slice(6), false, true);
    this.#failAfter = grammar.startsWith('fail:') ? Number(grammar.slice(5)) : grammar.startsWith('stuck:') ? this.#script!.length : Infinity;
    owner.stats.openSamplers++;
  }

  sample(cell: Cell): number {
    if (this.closed) this.owner.violations.push('a closed sampler was used');
    if (this.#undecided !== undefined) this.owner.violations.push('an undecided sampler was used');
    const count = this.#count++;
    if (this.#slow && count % 3 === 1) {
      this.#undecided = this.#script![count] ?? tokens.eos;
      return -3;
    }
    if (count >= this.#failAfter) return -2;
    if (this.#script) return this.#script[count] ?? tokens.eos;
    const h = mix(mix(cell.hash, this.seed), count);
    const r = h % 100;
    if (r < 4) return cell.endless ? 120 : tokens.eos;
    if (r < 12) return tokens.eAcute;
    if (r < 18) return tokens.faceBegin;
    if (r < 24) return tokens.faceEnd;
    if (r < 27) return tokens.world;
    return 97 + ((h >>> 8) % 26);
  }

  logprobs(): { tokens: Int32Array; values: Float32Array } {
    return { tokens: new Int32Array(), values: new Float32Array() };
  }

  endThinking(): boolean {
    return false;
  }

  draws(): number {
    return this.#count;
  }

  async resume(tokens: Int32Array, draws: number): Promise<void> {
    if (tokens.length !== draws) this.owner.violations.push('a sampler was resumed behind other draws');
    this.#count = draws;
    this.owner.stats.resumed += tokens.length;
  }

  async decide(): Promise<number> {
    if (this.#undecided === undefined) this.owner.violations.push('a sampler had nothing to decide');
    await new Promise((resolve) => setTimeout(resolve, 2));
    if (this.closed) throw coded('generation_failed', 'cancelled');
    const token = this.#undecided!;
    this.#undecided = undefined;
    this.owner.stats.decided++;
    return token;
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.owner.stats.openSamplers--;
  }
}

/** The last token of each wanted row. */
function lastsOf({ tokens: all, counts }: StepResult): number[] {
  let at = -1;
  return counts ? Array.from(counts, (count) => all[(at += count)]!) : [...all];
}

class FakeContext implements NativeContext {
  readonly #kv: Cell[][];
  #paused = false;
  #stuck = false;
  #polls = 0;
  readonly #stashes = new Map<number, Cell[]>();
  #lastStash = 0;
  #last: Promise<unknown> = Promise.resolve();
  #stepping = false;
  #abort: (() => void) | undefined;
  #closed = false;
  #poison = 1;
  #random = 1;
  constructor(readonly options: ContextOptions, readonly fake: FakeOptions, readonly owner: FakeAddon) {
    this.#kv = Array.from({ length: options.sequences }, () => []);
    this.#stuck = fake.stuckOnLoad ?? false;
    owner.stats.openContexts++;
  }

  get contextSize() { return this.options.contextSize; }
  get sequences() { return this.options.sequences; }
  get batchSize() { return this.options.batchSize; }

  #queue<T>(work: () => T | Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(coded('closed', 'the context is closed'));
    const next = this.#last.then(work);
    this.#last = next.catch(() => {});
    return next;
  }

  #violation(text: string): Error {
    this.owner.violations.push(text);
    return coded('invalid_argument', text);
  }

  #row(sequence: number): Cell[] {
    const row = this.#kv[sequence];
    if (!row) throw this.#violation(`no sequence ${sequence}`);
    return row;
  }

  steps(input: StepInput, most: number, each: (results: StepResult[]) => void): Promise<StepResult[]> {
    if (this.#stepping) return Promise.reject(this.#violation('a step was submitted while another runs'));
    this.#stepping = true;
    const copy = {
      tokens: input.tokens.slice(),
      positions: input.positions.slice(),
      sequences: input.sequences.slice(),
      outputs: input.outputs.slice(),
      samplers: [...input.samplers],
    };
    let untold: StepResult[] = [];
    let told = Promise.resolve();
    const tell = (): void => {
      const results = untold;
      untold = [];
      if (results.length === 0) return;
      if (!this.fake.lateReports) return each(results);
      told = told.then(async () => {
        await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
        each(results);
      });
    };
    return this.#queue(async () => {
      try {
        this.#paused = false;
        const following = {
          ...copy,
          rooms: input.rooms?.slice(0, copy.samplers.length),
          tokens: copy.tokens.slice(),
          positions: copy.positions.slice(),
        };
        let result = this.#decode(input.rows, following);
        for (let done = 1; ; done++) {
          await this.#turns();
          if (this.#stuck) await new Promise(() => {});
          const report = result();
          const lasts = lastsOf(report);
          following.rooms?.forEach((_, i, rooms) => (rooms[i]! -= report.counts?.[i] ?? 1));
          if (
            done >= most ||
            this.#paused ||
            report.failures ||
            lasts.some((token) => token === tokens.eos || token === -3) ||
            following.rooms?.some((room) => room < 1)
          ) {
            untold.push(report);
            break;
          }
          if (lasts.length !== input.rows) throw this.#violation('only rows that decode can follow each other');
          untold.push(report);
          this.#random = mix(this.#random, untold.length);
          if (this.#random % (this.fake.mostUntold ?? 1) === 0) tell();
          following.tokens.set(lasts);
          for (let i = 0; i < input.rows; i++) following.positions[i]! += report.counts?.[i] ?? 1;
          this.owner.stats.followed++;
          result = this.#decode(input.rows, following);
        }
        for (const key of ['tokens', 'positions', 'sequences', 'outputs', 'samplers'] as const) {
          if (input[key].length !== copy[key].length || [...input[key]].some((value, i) => value !== copy[key][i])) this.#violation(`${key} were touched in flight`);
        }
        if (this.#abort === undefined) {
          this.#spoil(copy.sequences.subarray(0, input.rows));
          throw coded('cancelled', 'the step was aborted');
        }
        await told;
        return untold;
      } catch (error) {
        tell();
        await told;
        throw error;
      } finally {
        this.#stepping = false;
        this.#abort = undefined;
      }
    });
  }

  /** Appends the rows at once; the returned function samples. */
  #decode(rows: number, input: Omit<StepInput, 'rows'>): () => StepResult {
    if (rows < 1 || rows > this.options.batchSize) throw this.#violation(`${rows} rows in a step`);
    this.#abort = () => {};
    this.owner.stats.steps++;
    this.owner.stats.rows += rows;
    this.owner.stats.largestStep = Math.max(this.owner.stats.largestStep, rows);
    const asking: Cell[] = [];
    let fails = false;
    for (let i = 0; i < rows; i++) {
      const token = input.tokens[i];
      const row = this.#row(input.sequences[i]);
      if (token < 0 || token >= vocabSize) throw this.#violation(`token ${token}`);
      if (input.positions[i] !== row.length) throw this.#violation(`position ${input.positions[i]} after ${row.length} tokens`);
      if (row.length >= this.options.contextSize) throw this.#violation('the context is over-full');
      if (token === marks.kill.charCodeAt(0)) process.kill(process.pid, 'SIGKILL');
      if (token === marks.failStep.charCodeAt(0)) fails = true;
      if (token === marks.stuckStep.charCodeAt(0)) this.#stuck = true;
      while (token === marks.stuckProcess.charCodeAt(0)) ;
      this.#append(row, token);
      if (input.outputs[i] === 1) asking.push(row.at(-1)!);
    }
    if (asking.length !== input.samplers.length) throw this.#violation('samplers and wanted rows differ');
    if (fails) {
      this.#spoil(input.sequences.subarray(0, rows));
      throw coded('generation_failed', 'the decode failed');
    }
    return () => {
      const failures: { row: number; code: string; message: string }[] = [];
      const guesses = input.rooms && asking.length === rows ? (this.fake.mostTokens ?? 1) - 1 : 0;
      const sampled = asking.map((last, i) => {
        const given: number[] = [];
        for (let cell = last; ; cell = this.#append(this.#row(input.sequences[i]!), given.at(-1)!)) {
          const token = input.samplers[i] === null ? -1 : (input.samplers[i] as FakeSampler).sample(cell);
          given.push(token);
          if (token === -2) failures.push({ row: i, code: 'generation_failed', message: 'the grammar has no way on' });
          if (token < 0 || token === tokens.eos || given.length > guesses || given.length === input.rooms![i]) return given;
          this.#random = mix(this.#random, given.length);
          if (this.#random % 4 === 0) return given;
        }
      });
      this.owner.stats.guessed += sampled.reduce((sum, given) => sum + given.length - 1, 0);
      const drafted = guesses > 0 ? { counts: Int32Array.from(sampled, ({ length }) => length), guesses } : {};
      const draws = Int32Array.from(input.samplers, (sampler) => (sampler as FakeSampler | null)?.draws() ?? 0);
      return {
        tokens: Int32Array.from(sampled.flat()),
        ...drafted,
        draws,
        failures: failures.length > 0 ? failures : undefined,
        decodeMs: this.fake.decodeMs ?? 0,
        sampleMs: 0,
      };
    };
  }

  #append(row: Cell[], token: number): Cell {
    const before = row.at(-1) ?? { token: 0, hash: 1, endless: false };
    const cell = { token, hash: mix(before.hash, token), endless: before.endless || token === marks.endless.charCodeAt(0) };
    row.push(cell);
    return cell;
  }

  /** A failed step leaves undefined state: its next use gives other output. */
  #spoil(sequences: Int32Array): void {
    for (const sequence of new Set(sequences)) for (const cell of this.#kv[sequence]) cell.hash = mix(cell.hash, this.#poison++);
  }

  async #turns(): Promise<void> {
    const [least, most] = this.fake.turns ?? [1, 1];
    this.#random = mix(this.#random, 7);
    for (let turns = least + (this.#random % (most - least + 1)); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
    if (this.fake.stepMs) await new Promise((resolve) => setTimeout(resolve, this.fake.stepMs));
  }

  copyMs(): number {
    return 0.01;
  }

  polls(): number {
    return this.fake.polling ? ++this.#polls : 0;
  }

  copySequence(from: number, to: number, length: number): Promise<boolean> {
    return this.#queue(() => {
      const source = this.#row(from);
      if (this.#row(to).length > 0) throw this.#violation('copied into a sequence that is not empty');
      if (length > source.length || length < 1) throw this.#violation(`copied ${length} of ${source.length} tokens`);
      if (this.fake.copies === false || (this.fake.recurrent && length !== source.length)) return false;
      this.#kv[to] = source.slice(0, length).map((cell) => ({ ...cell }));
      this.owner.stats.copied += length;
      return true;
    });
  }

  removeSequence(sequence: number, from: number, to: number): Promise<boolean> {
    return this.#queue(() => {
      const row = this.#row(sequence);
      if (to !== -1) throw this.#violation('only tails are removed');
      if (this.fake.recurrent && from > 0 && from < row.length) return false;
      row.length = Math.min(row.length, from);
      return true;
    });
  }

  stashSequence(sequence: number, mostBytes = Infinity): Promise<{ id: number; sizeBytes: number }> {
    return this.#queue(() => {
      const row = this.#row(sequence);
      const sizeBytes = this.fake.recurrent ? recurrentBytes : row.length * stashBytesPerToken;
      if (row.length === 0) return { id: 0, sizeBytes: 0 };
      if (sizeBytes > mostBytes) return { id: 0, sizeBytes };
      this.#stashes.set(++this.#lastStash, row.map((cell) => ({ ...cell })));
      this.owner.stats.stashed++;
      const { stats } = this.owner;
      stats.stashedTokens += row.length;
      stats.mostStashedTokens = Math.max(stats.mostStashedTokens, stats.stashedTokens);
      return { id: this.#lastStash, sizeBytes };
    });
  }

  unstashSequence(id: number, sequence: number, length: number): Promise<boolean> {
    return this.#queue(() => {
      const stash = this.#stashes.get(id);
      if (!stash) throw this.#violation(`stash ${id} is gone`);
      if (this.#row(sequence).length > 0) throw this.#violation('unstashed into a sequence that is not empty');
      if (length > stash.length || length < 1) throw this.#violation(`unstashed ${length} of ${stash.length} tokens`);
      if (this.fake.recurrent && length !== stash.length) return false;
      this.#kv[sequence] = stash.slice(0, length).map((cell) => ({ ...cell }));
      this.owner.stats.unstashed++;
      return true;
    });
  }

  checkpointSequence(sequence: number, mostBytes = Infinity): Promise<{ id: number; sizeBytes: number }> {
    return this.#queue(() => {
      const row = this.#row(sequence);
      if (row.length === 0) return { id: 0, sizeBytes: 0 };
      if (checkpointBytes > mostBytes) return { id: 0, sizeBytes: checkpointBytes };
      this.#stashes.set(++this.#lastStash, row.map((cell) => ({ ...cell })));
      this.owner.stats.stashedTokens += row.length;
      this.owner.stats.checkpoints++;
      return { id: this.#lastStash, sizeBytes: checkpointBytes };
    });
  }

  rollBackSequence(checkpoint: number, sequence: number, length: number): Promise<boolean> {
    return this.#queue(() => {
      const taken = this.#stashes.get(checkpoint);
      const row = this.#row(sequence);
      if (!taken) throw this.#violation(`checkpoint ${checkpoint} is gone`);
      if (taken.length !== length || row.length < length) throw this.#violation(`rolled ${row.length} tokens back to ${length} by a checkpoint of ${taken.length}`);
      if (taken.some(({ token }, i) => token !== row[i]!.token)) throw this.#violation('rolled back to another conversation');
      this.#kv[sequence] = taken.map((cell) => ({ ...cell }));
      this.owner.stats.rolledBack++;
      return true;
    });
  }

  dropStash(id: number): Promise<boolean> {
    return this.#queue(() => {
      const stash = this.#stashes.get(id);
      if (!stash) throw this.#violation(`stash ${id} is dropped twice`);
      this.owner.stats.stashedTokens -= stash.length;
      return this.#stashes.delete(id);
    });
  }

  createStash(): number { return 0; }
  readStash(): void {}
  writeStash(): void {}
  pause(): void {
    this.#paused = true;
  }

  abort(): void {
    this.owner.stats.aborts++;
    this.#abort = undefined;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#last;
    this.owner.stats.openContexts--;
  }
}

class FakeEmbedder implements NativeEmbedder {
  closed = false;
  constructor(readonly options: EmbedderOptions, readonly owner: FakeAddon) { owner.stats.openContexts++; }
  polls() { return 0; }
  async embed(all: Int32Array, lengths: Int32Array): Promise<Float32Array> {
    this.owner.stats.embedCalls++;
    if (this.closed) throw coded('closed', 'the embedder is closed');
    if (lengths.length > 1 && all.length > 1024) this.owner.violations.push('an embedding call is too big');
    await new Promise((resolve) => setImmediate(resolve));
    if (all.includes(marks.stuckStep.charCodeAt(0))) await new Promise(() => {});
    if (all.includes(marks.kill.charCodeAt(0))) process.kill(process.pid, 'SIGKILL');
    if (all.includes(marks.failStep.charCodeAt(0))) throw coded('generation_failed', 'the embedding failed');
    const vectors = new Float32Array(lengths.length * 4);
    let at = 0;
    lengths.forEach((length, i) => {
      vectors.set(fakeVector(all.subarray(at, at + length)), i * 4);
      at += length;
    });
    if (at !== all.length) this.owner.violations.push('lengths and tokens differ');
    return vectors;
  }

  async close(): Promise<void> {
    if (!this.closed) this.owner.stats.openContexts--;
    this.closed = true;
  }
}

export function fakeVector(input: Int32Array): Float32Array {
  let hash = 3;
  for (const token of input) hash = mix(hash, token);
  const raw = [1, 2, 3, 4].map((i) => (mix(hash, i) % 2001) - 1000 + 0.5);
  const length = Math.hypot(...raw);
  return Float32Array.from(raw, (x) => x / length);
}

/** `<tool>name:arguments;` is a call; an unterminated call does not parse. */
class FakeParser implements NativeParser {
  #content = '';
  #calls: { id: string; name: string; arguments: string }[] = [];
  #open = true;
  constructor(readonly parseToolCalls: boolean, readonly stats: FakeAddon['stats']) { stats.openParsers++; }
  parse(text: string, partial: boolean): ParsedDelta {
    const [content, ...rest] = this.parseToolCalls ? text.split('<tool>') : [text];
    const calls = rest.map((call, i) => {
      if (!call.endsWith(';') && !partial) throw coded('generation_failed', 'a tool call has no end');
      const [name, args = ''] = call.replace(/;$/, '').split(/:(.*)/s);
      return { id: `call_${i}`, name, arguments: args };
    });
    const delta: ParsedDelta = {};
    if (content.length > this.#content.length) delta.content = content.slice(this.#content.length);
    const fresh = calls.filter((call, i) => this.#calls[i]?.arguments !== call.arguments && call.arguments !== '');
    if (fresh.length > 0) {
      delta.toolCalls = fresh.map((call) => {
        const index = calls.indexOf(call);
        const known = this.#calls[index];
        return known?.arguments ? { index, arguments: call.arguments.slice(known.arguments.length) } : { index, ...call };
      });
    }
    this.#content = content;
    this.#calls = calls;
    return delta;
  }

  message() { return { content: this.#content, reasoning: '', toolCalls: this.#calls }; }
  close() { if (this.#open) this.stats.openParsers--; this.#open = false; }
}

class FakeModel implements NativeModel {
  readonly info: NativeModelInfo;
  #closed = false;
  #stuckPool = false;
  constructor(
    readonly fake: FakeOptions,
    readonly owner: FakeAddon,
  ) {
    owner.stats.openModels++;
    this.info = {
      architecture: 'fake',
      fileType: 'F32',
      vocabSize,
      vocabType: 1,
      contextTrain: fake.contextTrain ?? 100_000,
      embeddingSize: 4,
      layers: 1,
      parameters: 1,
      sizeBytes: 1,
      bosToken: tokens.bos,
      eosToken: tokens.eos,
      sepToken: -1,
      fimPrefix: -1,
      fimSuffix: -1,
      fimMiddle: -1,
      fimRepository: -1,
      fimSeparator: -1,
      addBos: true,
      addEos: false,
      addSep: false,
      longestPiece: 6,
      takesSpaces: false,
      hasDecoder: fake.hasDecoder ?? true,
      hasEncoder: false,
      recurrent: fake.recurrent ?? false,
      slidingWindow: fake.slidingWindow ?? 0,
      pooling: fake.pooling ?? 'unspecified',
      hasChatTemplate: true,
    };
  }

  metadata() {
    return {};
  }

  chatTemplate() {
    return 'fake';
  }

  hasRankHead() {
    return true;
  }

  async tokenize(text: string, addSpecial: boolean, parseSpecial: boolean, options: TokenizeOptions = {}) {
    this.owner.tokenized.push(options);
    if (this.#closed) throw coded('closed', 'the model is closed');
    if (text.includes(marks.stuckPool)) this.#stuckPool = true;
    if (this.fake.killsTokenizing && text.includes(marks.kill)) process.kill(process.pid, 'SIGKILL');
    if (this.#stuckPool) await new Promise(() => {});
    await new Promise((resolve) => setImmediate(resolve));
    return fakeTokenize(text, addSpecial, parseSpecial);
  }

  async detokenize(all: Int32Array, withSpecial: boolean) {
    return Uint8Array.from([...all].flatMap((token) => pieceBytes(token, withSpecial)));
  }

  piece(token: number, withSpecial: boolean) {
    return Uint8Array.from(pieceBytes(token, withSpecial));
  }

  async pieces(withSpecial: boolean): Promise<Pieces> {
    const all = Array.from({ length: vocabSize }, (_, token) => pieceBytes(token, withSpecial));
    const offsets = new Uint32Array(vocabSize + 1);
    all.forEach((bytes, i) => (offsets[i + 1] = offsets[i] + bytes.length));
    const flags = new Uint8Array(vocabSize);
    flags[tokens.bos] = flags[tokens.tool] = 2;
    flags[tokens.eos] = 3;
    return { bytes: Uint8Array.from(all.flat()), offsets, flags };
  }

  async createContext(options: ContextOptions) {
    return new FakeContext(options, this.fake, this.owner);
  }

  async createEmbedder(options: EmbedderOptions) {
    return new FakeEmbedder(options, this.owner);
  }

  async createSampler(options: SamplerOptions) {
    await new Promise((resolve) => setImmediate(resolve));
    return new FakeSampler(options, this.owner);
  }

  async applyChatTemplate(input: ChatInput): Promise<ChatPrompt> {
    this.owner.rendered++;
    const messages = JSON.parse(input.messages) as { role: string; content: string | null }[];
    if (messages.some(({ role }) => role === 'tool')) throw coded('invalid_messages', 'the template knows no tools');
    return {
      literal: new Int32Array(0),
      prompt: `${messages.map(({ role, content }) => `${role}:${content ?? ''}\n`).join('')}assistant:`,
      grammar: input.grammar,
      grammarKind: 'user',
      grammarLazy: false,
      triggers: '[]',
      preserved: input.tools ? ['<tool>'] : [],
      continuation: false,
      thinking: [''],
      generationPrompt: 'assistant:',
      unenforced: [],
      stops: [],
      shape: 'fake',
    };
  }

  async prepareChat(input: PrepareInput, sampling: SamplerOptions): Promise<PreparedChat> {
    const messages = JSON.parse(input.messages) as { role: string; content: string | null }[];
    const least = leastTokens(this.info, ...messages.map(({ role, content }) => (role === 'assistant' ? '' : (content?.trim() ?? ''))));
    if (least >= input.contextSize) return { unenforced: [], count: least, atLeast: true };
    const { prompt, unenforced, stops } = await this.applyChatTemplate(input);
    const written = leastTokens(this.info, prompt);
    if (written >= input.contextSize) return { unenforced, count: written, atLeast: true };
    const read = await this.tokenize(prompt, true, true, { cancelled: input.cancelled! });
    if (read.length >= input.contextSize) return { unenforced, count: read.length, atLeast: false };
    if (input.cancelled![0] !== 0) throw coded('cancelled', 'the request was cancelled');
    const sampler = await this.createSampler(input.grammar ? { ...sampling, grammar: input.grammar } : sampling);
    const parser = new FakeParser(input.parseToolCalls, this.owner.stats);
    const preservedIds = Int32Array.from(input.tools ? [tokens.tool] : []);
    return {
      unenforced,
      count: read.length,
      atLeast: false,
      made: { tokens: read, sampler, parser, stops, thinks: true, enforcesCalls: true, showsTools: true, preservedIds },
    };
  }

  createParser(_: ChatPrompt, parseToolCalls: boolean) {
    return new FakeParser(parseToolCalls, this.owner.stats);
  }

  remember(all: Int32Array) {
    this.owner.remembered.push(all.slice());
  }

  remembers(all: Int32Array) {
    return this.owner.remembered.some((chat) => all.every((token, i) => chat[i] === token));
  }

  forget() {
    this.owner.remembered.length = 0;
  }

  limitGrammars() {
    return { count: 0, bytes: 0 };
  }

  async close() {
    if (!this.#closed) this.owner.stats.openModels--;
    this.#closed = true;
  }
}

export function fakeAddon(fake: FakeOptions = {}): FakeAddon {
  const addon: FakeAddon = {
    violations: [],
    tokenized: [],
    remembered: [],
    rendered: 0,
    stats: {
      steps: 0,
      rows: 0,
      copied: 0,
      stashed: 0,
      stashedTokens: 0,
      mostStashedTokens: 0,
      unstashed: 0,
      openSamplers: 0,
      openParsers: 0,
      openContexts: 0,
      openModels: 0,
      embedCalls: 0,
      aborts: 0,
      followed: 0,
      guessed: 0,
      decided: 0,
      resumed: 0,
      checkpoints: 0,
      rolledBack: 0,
      largestStep: 0,
    },
    version: { llamaCpp: 'fake', backends: ['fake'], mathThreads: 1 },
    devices: () => [],
    backends: () => [],
    loadBackends: () => [],
    loadBackend: () => [],
    rateBackend: () => 0,
    proveCpu: () => '',
    refuseAttention: () => {},
    refuseMatmul: () => {},
    setNuma: () => false,
    setLog: () => {},
    halt: () => {},
    loadModel: () => {
      let cancel = (): void => {};
      const promise = new Promise<NativeModel>((resolve, reject) => {
        if (fake.killOnLoad) process.kill(process.pid, 'SIGKILL');
        const timer = setTimeout(() => {
          if (fake.loadError) reject(coded(fake.loadError.code, fake.loadError.message));
          else resolve(new FakeModel(fake, addon));
        }, fake.loadMs ?? 0);
        cancel = () => {
          clearTimeout(timer);
          reject(coded('cancelled', 'the load was cancelled'));
        };
      });
      return { promise, progress: () => 0.5, cancel: () => cancel() };
    },
    heap: () => undefined,
    turns: () => ({ taken: 0, waited: 0, skipped: 0 }),
    attention: () => ({ kernels: [], best: '', taken: 0 }),
    attend: () => ({ out: new Float32Array(0), taken: false, ms: 0 }),
    matmul: () => ({ kernels: [], best: '', types: [], taken: 0 }),
    multiply: () => ({ out: new Float32Array(0), taken: false, ms: 0 }),
    compileSchema: async () => ({ grammar: 'root ::= "{}"', unenforced: [] }),
  };
  return addon;
}
