// Formats counts, times and texts from files for people. Called by commands that report something.

/** A count of a model's parameters. */
export function parameters(count: number): string {
  for (const [size, suffix] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']] as const) {
    if (count >= size) return `${(count / size).toFixed(2)} ${suffix}`;
  }
  return String(count);
}

/** How long ago something was, in the largest fitting unit. */
export function ago(timeMs: number, nowMs = Date.now()): string {
  const seconds = Math.max(0, Math.floor((nowMs - timeMs) / 1000));
  for (const [size, unit] of [[31_557_600, 'year'], [2_629_800, 'month'], [86_400, 'day'], [3600, 'hour'], [60, 'minute']] as const) {
    const count = Math.floor(seconds / size);
    if (count >= 1) return `${count} ${unit}${count === 1 ? '' : 's'} ago`;
  }
  return 'just now';
}

/** Text from a file, or a file name, for a terminal: control characters become escapes. */
export function plain(value: string): string {
  return quoted(value).slice(1, -1).replaceAll('\\"', '"').replaceAll('\\\\', '\\');
}

/** The same as a JSON string, for texts that may hold quotation marks. */
export function quoted(value: string): string {
  // JSON leaves these characters as they are.
  return JSON.stringify(value).replace(/[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
