/** Rounds milliseconds, and rates made of them, to three decimals. */
export function thousandths(value: number): number {
  return Math.round(value * 1000) / 1000;
}
