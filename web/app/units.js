// Numbers formatted for people.

/** @param {number} value */
export const count = (value) => Math.round(value).toLocaleString('en');

/** @param {string} text */
export const characters = ({ length }) => `${count(length)} ${length === 1 ? 'character' : 'characters'}`;

/** @param {number} value */
export function bytes(value) {
  if (value >= 2 ** 30) return `${(value / 2 ** 30).toFixed(1)} GiB`;
  if (value >= 2 ** 20) return `${(value / 2 ** 20).toFixed(value >= 100 * 2 ** 20 ? 0 : 1)} MiB`;
  return value >= 2 ** 10 ? `${Math.round(value / 2 ** 10)} KiB` : `${value} B`;
}

/** @param {number} ms */
export function duration(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

/** @param {number} perSecond */
export const speed = (perSecond) => `${perSecond >= 100 ? count(perSecond) : perSecond.toFixed(1)} tok/s`;

/** @param {number} value 0 to 1 */
export const percent = (value) => `${Math.round(value * 100)} %`;
