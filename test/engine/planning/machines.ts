// Machines with recorded or made-up step costs, and a simulation of loads on them.
import { Plan } from '#recua/engine/planning/scheduler.js';
import { Sequence } from '#recua/engine/planning/sequence.js';
import type { Part } from '#recua/engine/planning/step-costs.js';
import { random } from '../requests.js';

/**
 * Milliseconds of a pass by its rows (linear between the given points), and of a row's attention to
 * one earlier token: row by row, and in tiles of 64.
 */
export interface Machine {
  pass: [rows: number, ms: number][];
  byRow: number;
  byTile: number;
}
const straight = (weights: number, row: number): [number, number][] => [[1, weights + row], [512, weights + 512 * row]];

export const machines: Record<string, Machine> = {
  'row by row is ten times as slow as by tiles': { pass: straight(5, 0.7), byRow: 0.0196, byTile: 0.0015 },
  'row by row is hardly slower than by tiles': { pass: straight(5, 0.7), byRow: 0.0045, byTile: 0.0018 },
  'no tiles': { pass: straight(5, 0.7), byRow: 0.002, byTile: 0.002 },
  'a large model': { pass: straight(100, 6), byRow: 0.05, byTile: 0.005 },
  'a graphics card': { pass: straight(4, 0.02), byRow: 0.00002, byTile: 0.00002 },
  'two cores, 135m (docs/design/scheduling.md)': { pass: [[1, 9.9], [4, 27], [8, 38], [33, 43], [64, 100], [128, 220], [256, 380], [512, 740]], byRow: 0.0031, byTile: 0.0018 },
  'a Xeon with AMX, attention of ggml': { pass: [[1, 9.1], [8, 14], [64, 45], [512, 341]], byRow: 0.0195, byTile: 0.0009 },
  'a Xeon with AMX, own attention': { pass: [[1, 8.7], [8, 12], [64, 35], [512, 256]], byRow: 0.003, byTile: 0.00027 },
  'a slow laptop': { pass: straight(200, 8), byRow: 0.004, byTile: 0.004 },
};

function passMs({ pass }: Machine, rows: number): number {
  const above = Math.max(1, pass.findIndex(([until]) => until >= rows));
  const [[fromRows, fromMs], [toRows, toMs]] = [pass[above - 1]!, pass[above]!];
  return fromMs + ((toMs - fromMs) * (rows - fromRows)) / (toRows - fromRows);
}

/** As llama.cpp does it: a pass takes equally many rows from all neighbors that have some. */
export function stepMs(machine: Machine, parts: readonly Part[]): number {
  const left = parts.map((part) => ({ ...part })).sort((a, b) => a.slot - b.slot);
  let ms = 0;
  for (;;) {
    const from = left.findIndex(({ rows }) => rows > 0);
    if (from < 0) return ms;
    let to = from + 1;
    while (left[to] && left[to]!.rows > 0 && left[to]!.slot === left[to - 1]!.slot + 1) to++;
    const together = left.slice(from, to);
    const rows = Math.min(Math.max(1, Math.floor(512 / together.length)), ...together.map((part) => part.rows));
    ms += passMs(machine, rows * together.length);
    for (const part of together) {
      ms += (rows < 64 ? rows * machine.byRow : Math.ceil(rows / 64) * 64 * machine.byTile) * (part.depth + rows / 2);
      part.depth += rows;
      part.rows -= rows;
    }
  }
}

/**
 * This many tokens answer a prompt; the turns of a conversation follow each other. `at` counts
 * tokens that a lone stream would have got.
 */
export interface Turn {
  at: number;
  prompt: number;
  answer: number;
}

/** The planner, which learns from each step. */
export interface Planner {
  plan: (running: readonly Sequence[], plan: Plan) => void;
  took?: (parts: readonly Part[], ms: number, plan: Plan) => void;
}

export interface Outcome {
  /** Times of each turn, by conversation. */
  firstTokenMs: number[][];
  /** `leastMs` is the time of the judge's step, or of one with a tile of the deepest prompt. */
  steps: { atMs: number; ms: number; parts: Part[]; beside: boolean; leastMs: number }[];
}

/**
 * Runs conversations on a machine. `noise` with a seed adds ±10 % and occasional outliers. `judge`
 * plans the same steps, but its plans are not followed.
 */
export function simulate(
  machine: Machine,
  conversations: readonly Turn[][],
  { plan: decide, took }: Planner,
  seed = 0,
  judge?: Planner,
): Outcome {
  const next = random(seed + 1);
  const plan = new Plan();
  const judged = new Plan();
  const running: Sequence[] = [];
  const turns = conversations.map((all) => all.map((turn) => ({ ...turn, atMs: turn.at * passMs(machine, 1) })));
  for (let i = 0; i < 20; i++) next();
  const live = new Map<Sequence, { conversation: number; sinceMs: number }>();
  const held = conversations.map(() => 0);
  const outcome: Outcome = { firstTokenMs: conversations.map(() => []), steps: [] };
  const busy = new Set<number>();
  let nowMs = 0;
  for (let steps = 0; steps < 100_000; steps++) {
    for (const [i, rest] of turns.entries()) {
      const [turn] = rest;
      if (busy.has(i) || !turn || turn.atMs > nowMs) continue;
      rest.shift();
      const sequence = new Sequence(new Int32Array(held[i]! + turn.prompt).fill(1), turn.answer, 1_000_000);
      sequence.join(i, held[i]!);
      running.push(sequence);
      live.set(sequence, { conversation: i, sinceMs: Math.max(nowMs, turn.atMs) });
      busy.add(i);
    }
    if (running.length === 0) {
      const nextMs = Math.min(...turns.flatMap(([turn]) => (turn ? [turn.atMs] : [])));
      if (nextMs === Infinity) break;
      nowMs = nextMs;
      continue;
    }
    if (judge) {
      judged.longBefore = plan.longBefore;
      judged.wholeBefore = plan.wholeBefore;
      judge.plan(running, judged);
    }
    decide(running, plan);
    if (plan.rows === 0) throw new Error('nothing is done');
    const parts = plan.parts();
    const trueMs = stepMs(machine, parts);
    const read = parts.filter(({ rows }) => rows > 1).sort((a, b) => b.depth - a.depth);
    const tile = parts.flatMap((part) => (part === read[0] ? [{ ...part, rows: 65 }] : part.rows > 1 ? [] : [part]));
    const ms = seed > 0 ? trueMs * (0.9 + 0.2 * next()) * (next() < 0.005 ? 3 : 1) : trueMs;
    outcome.steps.push({
      atMs: nowMs,
      ms: trueMs,
      parts,
      beside: running.some(({ state, generated }) => state === 'decode' && generated > 4),
      leastMs: judge ? Math.max(stepMs(machine, judged.parts()), stepMs(machine, tile)) : 0,
    });
    took?.(parts, ms, plan);
    nowMs += ms;
    for (const [i, sequence] of plan.sequences.entries()) {
      sequence.advance(plan.counts[i]!);
      if (sequence.pending > 0) continue;
      const { conversation, sinceMs } = live.get(sequence)!;
      if (sequence.generated === 0) outcome.firstTokenMs[conversation]!.push(nowMs - sinceMs);
      sequence.accept(7, false);
      if (sequence.state !== 'finished') continue;
      running.splice(running.indexOf(sequence), 1);
      busy.delete(conversation);
      held[conversation] = sequence.evaluated;
    }
  }
  return outcome;
}

const many = (count: number, turn: (i: number) => Turn): Turn[][] => Array.from({ length: count }, (_, i) => [turn(i)]);
/** The first load on every machine, which makes its speed known. */
const before: Turn[] = [{ at: 0, prompt: 300, answer: 20 }, { at: 0, prompt: 700, answer: 20 }];
export const beginAt = 2000;

export const loads: Record<string, Turn[][]> = {
  'a long prompt beside a stream': [[...before, { at: beginAt, prompt: 40, answer: 600 }], [{ at: beginAt + 50, prompt: 2500, answer: 30 }]],
  'a long prompt beside 8 streams': [...many(8, () => ({ at: beginAt, prompt: 40, answer: 400 })), [...before, { at: beginAt + 150, prompt: 2500, answer: 30 }]],
  'two agents': [0, 1].map((i) => [...(i === 0 ? before : []), ...Array.from({ length: 6 }, (_, turn) => ({ at: beginAt + 70 * i, prompt: turn === 0 ? 2500 : 500, answer: 40 + 25 * i }))]),
  '16 prompts at once': [before, ...many(16, (i) => ({ at: beginAt, prompt: 60 + (i % 4), answer: 48 }))],
  '64 prompts at once': [before, ...many(64, (i) => ({ at: beginAt, prompt: 60 + (i % 4), answer: 32 }))],
  'short prompts beside a long one': [[...before, { at: beginAt, prompt: 5000, answer: 30 }], ...many(10, (i) => ({ at: beginAt + 30 * i, prompt: 30 + 5 * i, answer: 20 }))],
};
