// A moving chart of recent values, drawn as SVG and scaled to the largest.
import { html } from '../app/html.js';

const width = 300;
const height = 80;

/**
 * @param {{ label: string, values: number[], most: number, text: (value: number) => string }} props
 *   `most` is how many values the width holds
 */
export function Curve({ label, values, most, text }) {
  const now = values.at(-1) ?? 0;
  const top = Math.max(...values, 0);
  const scale = top === 0 ? 1 : top * 1.1;
  /** @param {number} value @param {number} at */
  const point = (value, at) => `${(width - (values.length - 1 - at) * (width / (most - 1))).toFixed(1)},${(height - value / scale * (height - 2) - 1).toFixed(1)}`;
  const line = values.map(point).join(' ');
  const first = values.length === 0 ? width : width - (values.length - 1) * (width / (most - 1));
  return html`<figure class="curve">
    <figcaption><span>${label}</span><strong>${text(now)}</strong></figcaption>
    <svg viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label=${`${label}: now ${text(now)}, peak ${text(top)}`}>
      <polygon points=${`${first.toFixed(1)},${height} ${line} ${width},${height}`} />
      <polyline points=${values.length > 1 ? line : ''} vector-effect="non-scaling-stroke" />
    </svg>
    <p class="dim">peak ${text(top)}</p>
  </figure>`;
}
