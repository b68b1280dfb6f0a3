// Whether and how answers are rendered on stdout. Called by the commands that show answers, before
// the first answer.
import { loadLibraries } from './libraries.js';
import type { Libraries } from './libraries.js';
import type { Size } from './live-rows.js';
import { makeLooks } from './looks.js';
import type { Looks } from './looks.js';
import { screenOf } from './screen.js';

export interface Rendering {
  libraries: Libraries;
  looks: Looks;
  /** Current size of the screen. */
  size(): Size;
}

/** A terminal whose cursor can be moved. */
export function isDrawable(output: { isTTY?: boolean } = process.stdout): boolean {
  return output.isTTY === true && process.env['TERM'] !== 'dumb';
}

/** Undefined if answers are not rendered. */
export async function loadRendering(): Promise<Rendering | undefined> {
  if (!isDrawable()) return undefined;
  return { libraries: await loadLibraries(), looks: makeLooks(!process.env['NO_COLOR']), size: () => screenOf(process.stdout) };
}
