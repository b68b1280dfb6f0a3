// Counts the tests in a run's raw TAP: a file is a top-level subtest, its tests are one level deeper.

/** `{ passed, failed }`; skipped and todo tests count as neither. A file that fails without a failed test of its own counts as one. */
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
