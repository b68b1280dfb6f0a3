// Progress messages of the scripts. All go to stderr.

const out = process.stderr;
const isTerminal = Boolean(out.isTTY);

export function say(text) {
  out.write(`${text}\n`);
}

export function seconds(milliseconds) {
  const total = milliseconds / 1000;
  return total < 60 ? `${total.toFixed(1)} s` : `${Math.floor(total / 60)} min ${Math.round(total % 60)} s`;
}

/**
 * Runs `work` as step `label`: reports what it does, its progress and its duration. `work` gets
 * `report(fraction, note)`.
 */
export async function step(label, work) {
  const start = Date.now();
  let shown = 0;
  let dirty = false;
  const clear = () => {
    if (dirty) out.write('\r\x1b[2K');
    dirty = false;
  };
  const report = (fraction, note = '') => {
    const percent = Math.floor(fraction * 100);
    if (isTerminal) {
      const width = Math.max(20, (out.columns ?? 80) - 1);
      out.write(`\r\x1b[2K${`      ${String(percent).padStart(3)}%  ${note}`.slice(0, width)}`);
      dirty = true;
    } else if (percent >= shown + 10 && percent < 100) {
      shown = percent - (percent % 10);
      say(`      ${shown}%  ${seconds(Date.now() - start)}`);
    }
  };
  say(label);
  try {
    const note = await work(report);
    clear();
    say(`      done in ${seconds(Date.now() - start)}${note ? `: ${note}` : ''}`);
  } finally {
    clear();
  }
}

/** Feeds `report` from the counters of ninja (`[12/345] …`) and make (`[ 12%] …`). */
export function buildCounter(report) {
  return (line) => {
    const ninja = /^\[(\d+)\/(\d+)\]\s*(.*)$/.exec(line);
    if (ninja) return report(Number(ninja[1]) / Number(ninja[2]), `${ninja[1]}/${ninja[2]}  ${brief(ninja[3])}`);
    const make = /^\[\s*(\d+)%\]\s*(.*)$/.exec(line);
    if (make) report(Number(make[1]) / 100, brief(make[2]));
  };
}

/** The file in a build line. */
function brief(text) {
  return text.replace(/\S*[/\\]([^/\\\s]+?)(\.o|\.obj)?$/, '$1');
}
