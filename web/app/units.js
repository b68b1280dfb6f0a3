// Numbers formatted for people.

/** @param {number} value */
export const count = (value) => Math.round(value).toLocaleString('en');

/** @param {string} text */
export const characters = ({ length }) => `${count(length)} ${length === 1 ? 'character' : 'characters'}`;

/** @param {number} value */
export function bytes(value) {
  // What rounds to 1024 of a unit is 1.0 of the next.
  if (value >= 1_023.5 * 2 ** 20) return `${(value / 2 ** 30).toFixed(1)} GiB`;
  if (value >= 1_023.5 * 2 ** 10) return `${(value / 2 ** 20).toFixed(value >= 100 * 2 ** 20 ? 0 : 1)} MiB`;
  return value >= 2 ** 10 ? `${Math.round(value / 2 ** 10)} KiB` : `${value} B`;
}

/** @param {number} ms */
export function duration(ms) {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** @param {number} perSecond */
export const speed = (perSecond) => `${perSecond >= 100 ? count(perSecond) : perSecond.toFixed(1)} tok/s`;

/** @param {number} value 0 to 1 */
export const percent = (value) => `${Math.round(value * 100)} %`;
