// The page's icons: SVG paths in a 24 by 24 box, in the color of the text. No files, no font.
import { html } from './html.js';

/** @type {Record<string, string>} */
const paths = {
  chat: 'M4 5h16v11H9l-5 4z',
  models: 'M12 3l8 4.500v9L12 21l-8-4.500v-9z M4 7.500l8 4.500 8-4.500 M12 12v9',
  now: 'M3 12h4l3-8 4 16 3-8h4',
  code: 'M8 7l-5 5 5 5 M16 7l5 5-5 5',
  plus: 'M12 5v14 M5 12h14',
  menu: 'M4 7h16 M4 12h16 M4 17h16',
  send: 'M12 19V5 M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  attach: 'M20 11l-8.500 8.500a5 5 0 0 1-7-7L13 4a3.300 3.300 0 0 1 4.700 4.700L9.200 17.200a1.600 1.600 0 0 1-2.300-2.300L14.500 7.300',
  copy: 'M9 9h11v11H9z M5 15H4V4h11v1',
  edit: 'M4 20l1-4L16 5l3 3L8 19z M14 7l3 3',
  retry: 'M20 11a8 8 0 1 0-2.300 6.300 M20 4v7h-7',
  goOn: 'M5 5v14l9-7z M18 5v14',
  left: 'M15 6l-6 6 6 6',
  right: 'M9 6l6 6-6 6',
  pin: 'M9 4h6l-1 6 4 4H6l4-4z M12 14v6',
  computer: 'M4 5h16v11H4z M2 20h20 M8 9l2 2-2 2 M12 13h4',
  here: 'M4 5h16v14H4z M4 9h16 M12 11v6 M9 14l3 3 3-3',
  tag: 'M4 4h8l8 8-8 8-8-8z M8.500 8.500h.010',
  bin: 'M5 7h14 M9 7V4h6v3 M7 7l1 13h8l1-13',
  save: 'M12 4v11 M7 10l5 5 5-5 M5 20h14',
  open: 'M12 15V4 M7 9l5-5 5 5 M5 20h14',
  settings: 'M4 7h10 M18 7h2 M4 17h2 M10 17h10 M14 5v4 M6 15v4',
  close: 'M6 6l12 12 M18 6L6 18',
  file: 'M6 3h8l4 4v14H6z M14 3v4h4',
  two: 'M4 5h7v14H4z M13 5h7v14h-7z',
  auto: 'M12 3a9 9 0 1 0 0 18z M12 3a9 9 0 0 1 0 18',
  light: 'M12 8a4 4 0 1 0 0 8a4 4 0 1 0 0-8z M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M19 5l-1.4 1.4M6.4 17.6 5 19',
  dark: 'M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z',
};

/** @param {{ name: string }} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${paths[name]} /></svg>`;
}

/**
 * An icon button. Its label is the accessible name and the tooltip.
 * @param {Record<string, any>} props
 */
export function IconButton({ icon, label, text = '', ...rest }) {
  return html`<button type="button" class="icon-button" aria-label=${label} title=${label} ...${rest}><${Icon} name=${icon} />${text}</button>`;
}
