// Runs → tables: medians, ratios with their spread, goals; and two saved runs side by side.

export const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

const show = (value) => (value === undefined || Number.isNaN(value) ? '–' : value >= 100 ? value.toFixed(0) : value.toPrecision(3));

/** The rows of a load: one for each of its numbers. `runs` is peer → a list of what clients printed, round by round. */
export function summarise(name, numbers, runs, shape) {
  return Object.entries(numbers).map(([number, { unit, higher = false, goals = {} }]) => {
    const values = Object.fromEntries(Object.entries(runs).map(([peer, list]) => [peer, list.map((run) => run[number])]));
    const ratios = values.recua.map((value, round) => value / values['llama-server'][round]);
    return {
      load: name, number, unit, higher, goal: goals[shape], ratios,
      medians: Object.fromEntries(Object.entries(values).map(([peer, list]) => [peer, median(list)])), ratio: median(ratios),
    };
  });
}

export const heading = `${'load'.padEnd(20)} ${'number'.padEnd(18)} ${'recua'.padStart(8)} ${'llama-server'.padStart(13)}  ratio (spread)`;

export function line({ load, number, medians, ratio, ratios, goal, higher }) {
  const met = goal === undefined ? '' : `  goal ${higher ? '≥' : '≤'} ${goal}: ${(higher ? ratio >= goal : ratio <= goal) ? 'met' : 'missed'}`;
  return `${load.padEnd(20)} ${number.padEnd(18)} ${show(medians.recua).padStart(8)} ${show(medians['llama-server']).padStart(13)}  ${ratio.toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})${met}`;
}

/** Two saved runs: how each ratio to llama-server moved. Absolute numbers of different times do not compare. */
export function compare(before, after) {
  const key = ({ load, number }) => `${load} ${number}`;
  const old = new Map(before.rows.map((row) => [key(row), row]));
  const lines = after.rows.filter((row) => old.has(key(row))).map((row) => {
    const was = old.get(key(row)).ratio;
    return `${row.load.padEnd(20)} ${row.number.padEnd(18)} ${was.toFixed(2).padStart(6)} → ${row.ratio.toFixed(2).padStart(5)}  ${row.higher === row.ratio > was ? 'better' : row.ratio === was ? 'equal' : 'worse'}`;
  });
  return [`${before.model}, ${before.date} → ${after.model}, ${after.date}; ratios to llama-server`, ...lines].join('\n');
}
