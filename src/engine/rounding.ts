/** A number as far as clocks tell it: for milliseconds and for rates made of them. */
export function thousandths(value: number): number {
  return Math.round(value * 1000) / 1000;
}
