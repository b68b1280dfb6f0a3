// Reads a run's raw TAP: a file is a top-level subtest, its tests are one level deeper.

/** The source of a compiled test. */
export function sourceOf(name) {
  return name.replace(/^dist-test\/(.*)\.js$/, 'test/$1.ts');
}

/** The part of a test file: the first folder below `test`. */
export function partOf(name) {
  return /^test\/([^/]+)\//.exec(sourceOf(name))?.[1] ?? 'repository';
}

/**
 * Reads a run line by line. `take` returns `{ name, ok, passed, failed, skipped, reasons,
 * failures, seconds }` at the line that ends a file; a failure is a test's name with its first
 * failed assertion. A file that fails without a failed test counts as one failure.
 */
export class TapFiles {
  #file = emptyFile();
  #assertion = '';

  take(line) {
    this.#assertion ||= /^ {8,}not ok \d+ - (.*?)(?: # .*)?$/.exec(line)?.[1] ?? '';
    const match = /^( {4})?(not )?ok \d+(?: - (.*?))?(?: # (.*))?$/.exec(line);
    if (!match) return undefined;
    const [, inner, not, name = '', note = ''] = match;
    const directive = /^(skip|todo)\b ?(.*)$/i.exec(note);
    const file = this.#file;
    if (directive) {
      file.skipped++;
      if (/skip/i.test(directive[1])) file.reasons.push(directive[2]);
    } else if (inner) {
      if (not) {
        file.failed++;
        file.failures.push([name, this.#assertion].filter((part) => part !== '').join(': '));
      } else file.passed++;
    }
    this.#assertion = '';
    if (inner) return undefined;
    this.#file = emptyFile();
    if (not && !directive) file.failed ||= 1;
    const time = /time=([\d.]+)(ms|s|m)\b/.exec(note);
    const seconds = time ? Number(time[1]) * { ms: 0.001, s: 1, m: 60 }[time[2]] : 0;
    return { ...file, name: sourceOf(name), ok: file.failed === 0, seconds };
  }

  /** The last file's results in an interrupted run. */
  get rest() {
    return this.#file;
  }
}

function emptyFile() {
  return { passed: 0, failed: 0, skipped: 0, reasons: [], failures: [] };
}

/** `{ passed, failed, skipped, files }` of a whole run's text. */
export function countTap(text) {
  const reader = new TapFiles();
  const files = text.split('\n').map((line) => reader.take(line)).filter((file) => file !== undefined);
  const sum = (key) => files.reduce((total, file) => total + file[key], reader.rest[key]);
  return { passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped'), files };
}

/** A line of the table of parts: numbers of files and tests, and their total time. */
export function partLine(part, files) {
  const sum = (key) => files.reduce((total, file) => total + file[key], 0);
  const count = (number, noun) => `${String(number).padStart(5)} ${noun}`;
  return `${part.padEnd(11)}${count(files.length, files.length === 1 ? 'file ' : 'files')}${count(sum('passed'), 'passed')}${count(sum('failed'), 'failed')}${count(sum('skipped'), 'skipped')}${sum('seconds').toFixed(1).padStart(8)} s`;
}

/**
 * Filters TAP lines: passes on each failure with its diagnosis. Omits how a file was started,
 * unless none of its tests failed.
 */
export function failureLines(print) {
  let diagnosing = false;
  let afterFailure = false;
  let isTold = false;
  return (line) => {
    const isDiagnosis = /^\s+---$/.test(line);
    if (diagnosing || (afterFailure && isDiagnosis)) {
      print(line);
      diagnosing = !/^\s+\.\.\.$/.test(line);
      afterFailure = false;
      return;
    }
    afterFailure = /^\s*not ok /.test(line) && !(isTold && line.startsWith('not'));
    if (/^(not )?ok /.test(line)) isTold = false;
    else if (afterFailure) isTold = true;
    if (afterFailure || /^Bail out!/.test(line.trim())) print(line);
  };
}
