// Reads a run's raw TAP: a file is a top-level subtest, its tests are one level deeper.

/**
 * `{ passed, failed }`; skipped and todo tests count as neither. A file that fails without a failed
 * test of its own counts as one.
 */
export function countTap(text) {
  let passed = 0;
  let failed = 0;
  let failedInFile = 0;
  for (const line of text.split('\n')) {
    const match = /^( {4})?(not )?ok \d+(.*)$/.exec(line);
    if (!match) continue;
    const [, inner, not, rest] = match;
    if (/ # (skip|todo)\b/i.test(rest)) continue;
    if (inner) {
      if (not) failedInFile++;
      else passed++;
    } else {
      failed += not ? Math.max(1, failedInFile) : failedInFile;
      failedInFile = 0;
    }
  }
  return { passed, failed: failed + failedInFile };
}

/**
 * A filter for lines of TAP: passes on the verdict of each file, and each failure with its
 * diagnosis.
 */
export function failureLines(print) {
  let diagnosing = false;
  let afterFailure = false;
  return (line) => {
    const isDiagnosis = /^\s+---$/.test(line);
    if (diagnosing || (afterFailure && isDiagnosis)) {
      print(line);
      diagnosing = !/^\s+\.\.\.$/.test(line);
      afterFailure = false;
      return;
    }
    afterFailure = /^\s*not ok /.test(line);
    if (afterFailure || /^ok /.test(line) || /^Bail out!/.test(line.trim())) print(line);
  };
}
