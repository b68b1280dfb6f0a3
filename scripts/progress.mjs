// Progress messages of the scripts. All go to stderr.

const out = process.stderr;
const isTerminal = Boolean(out.isTTY);

export function say(text) {
  out.write(`${text}\n`);
}

export function seconds(milliseconds) {
  const total = milliseconds / 1000;
  const whole = Math.round(total);
  return whole < 60 ? `${total.toFixed(1)} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/**
 * Runs `work` as step `label`: reports what it does, its progress and its duration. `work` gets
 * `report(fraction, note, left)`; `left` is the time that the rest will take, as text.
 */
export async function step(label, work) {
  const start = Date.now();
  let shown = 0;
  let dirty = false;
  const clear = () => {
    if (dirty) out.write('\r\x1b[2K');
    dirty = false;
  };
  const report = (fraction, note = '', left = '') => {
    const percent = Math.floor(fraction * 100);
    if (isTerminal) {
      const width = Math.max(20, (out.columns ?? 80) - 1);
      out.write(`\r\x1b[2K${`      ${String(percent).padStart(3)}%  ${left === '' ? '' : `${left}  `}${note}`.slice(0, width)}`);
      dirty = true;
    } else if (percent >= shown + 10 && percent < 100) {
      shown = percent - (percent % 10);
      say(`      ${shown}%  ${seconds(Date.now() - start)}${left === '' ? '' : `, ${left}`}`);
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

/**
 * Feeds `report` from the counters of ninja (`[12/345] …`) and make (`[ 12%] …`). After a tenth, it
 * estimates the rest from the pace so far.
 */
export function buildCounter(report, now = Date.now) {
  let first;
  let last = 1;
  const leftAt = (fraction) => {
    // A counter that goes back is that of another build.
    if (fraction < last) first = { fraction, ms: now() };
    last = fraction;
    const done = fraction - first.fraction;
    return fraction < 0.1 || done <= 0 || fraction >= 1 ? '' : leftText((now() - first.ms) / done * (1 - fraction));
  };
  return (line) => {
    const ninja = /^\[(\d+)\/(\d+)\]\s*(.*)$/.exec(line);
    if (ninja) {
      const fraction = Number(ninja[1]) / Number(ninja[2]);
      return report(fraction, `${ninja[1]}/${ninja[2]}  ${brief(ninja[3])}`, leftAt(fraction));
    }
    const make = /^\[\s*(\d+)%\]\s*(.*)$/.exec(line);
    if (make) report(Number(make[1]) / 100, brief(make[2]), leftAt(Number(make[1]) / 100));
  };
}

function leftText(ms) {
  const minutes = Math.round(ms / 60_000);
  return minutes < 1 ? 'less than a minute left' : `about ${minutes} min left`;
}

/** The file in a build line. */
function brief(text) {
  return text.replace(/\S*[/\\]([^/\\\s]+?)(\.o|\.obj)?$/, '$1');
}
