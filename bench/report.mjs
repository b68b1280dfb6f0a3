// Turns runs into tables: medians, ratios with their spread, goals; compares two saved runs.

export const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

/**
 * The ratio of the `after` values to the `before` values: the median of all quotients and its 95 %
 * confidence interval, whatever the distribution (Hodges and Lehmann's estimate, in ratios).
 */
export function timesOf(after, before) {
  const quotients = after.flatMap((a) => before.map((b) => a / b)).sort((a, b) => a - b);
  const pairs = quotients.length;
  const reach = 1.96 * Math.sqrt((pairs * (after.length + before.length + 1)) / 12);
  const low = Math.max(0, Math.floor(pairs / 2 - reach));
  return { ratio: median(quotients), low: quotients[low], high: quotients[pairs - 1 - low] };
}

const show = (value) => (value === undefined || Number.isNaN(value) ? '–' : value >= 100 ? value.toFixed(0) : value.toPrecision(3));

/**
 * The rows of a load, one per number. `runs` maps each peer to the clients' output, round by round.
 */
export function summarize(name, numbers, runs, shape) {
  return Object.entries(numbers).map(([number, { unit, higher = false, goals = {}, plus, share, engine }]) => {
    const values = Object.fromEntries(Object.entries(runs).map(([peer, list]) => [peer, list.map((run) => run[number])]));
    const ratios = values.recua.map((value, round) => value / values['llama-server'][round]);
    const of = (peer) => median(values.recua.map((value, round) => value / values[peer][round]));
    return {
      load: name, number, unit, higher, goal: goals[shape], plus, ratios,
      ...(share && runs.greedy ? { share: { least: share, ratio: of('greedy') } } : {}),
      ...(engine && runs.engine ? { engine: { least: engine[shape], ratio: of('engine') } } : {}),
      medians: Object.fromEntries(Object.entries(values).map(([peer, list]) => [peer, median(list)])), ratio: median(ratios),
    };
  });
}

export const heading = `${'load'.padEnd(19)} ${'model'.padEnd(8)} ${'number'.padEnd(17)} ${'recua'.padStart(8)} ${'llama-server'.padStart(13)}  ratio (spread)`;

/** A goal is a ratio to llama-server; `plus`, in the number's unit, is an allowance on top. */
export const meetsGoal = ({ goal, higher, ratio, medians, plus = 0 }) => (higher ? ratio >= goal : plus > 0 ? medians.recua <= goal * medians['llama-server'] + plus : ratio <= goal);

export function line(row) {
  const { load, model, number, unit, medians, ratio, ratios, goal, higher, plus } = row;
  const met = goal === undefined ? '' : `  goal ${higher ? '≥' : '≤'} ${goal}${plus ? ` + ${plus} ${unit}` : ''}: ${meetsGoal(row) ? 'met' : 'missed'}`;
  return `${load.padEnd(19)} ${model.replace(/\.gguf$/, '').padEnd(8)} ${number.padEnd(17)} ${show(medians.recua).padStart(8)} ${show(medians['llama-server']).padStart(13)}  ${ratio.toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})${met}`;
}

/**
 * Compares two saved runs: how each ratio to llama-server changed. Absolute numbers of different
 * times do not compare.
 */
export function compare(before, after) {
  const key = ({ load, model, number }) => `${load} ${model} ${number}`;
  const old = new Map(before.rows.map((row) => [key(row), row]));
  const lines = after.rows.filter((row) => old.has(key(row))).map((row) => {
    const was = old.get(key(row)).ratio;
    return `${row.load.padEnd(19)} ${row.model.replace(/\.gguf$/, '').padEnd(8)} ${row.number.padEnd(17)} ${was.toFixed(2).padStart(6)} → ${row.ratio.toFixed(2).padStart(5)}  ${row.higher === row.ratio > was ? 'better' : row.ratio === was ? 'equal' : 'worse'}`;
  });
  return [`${before.date} → ${after.date}; ratios to llama-server`, ...lines].join('\n');
}
