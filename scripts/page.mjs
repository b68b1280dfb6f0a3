// For the scripts that open the page: Chromium, and a server of the built-in model.
import { accessSync, constants } from 'node:fs';
import { spawn } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
/** The names in PATH that the tests of the page look for, too. */
const names = ['chromium', 'chromium-browser', 'google-chrome', 'chromium-headless-shell'];

/** The path of Chromium: RECUA_CHROMIUM, else the first in PATH. */
export function findChromium() {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const found = names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  const path = process.env.RECUA_CHROMIUM ?? found;
  if (path === undefined) throw new Error('Expected Chromium in PATH, or RECUA_CHROMIUM with its path; there is none.');
  return path;
}

/** Starts `recua api builtin` on a free port. */
export async function startRecua() {
  const child = spawn(process.execPath, [join(root, 'dist', 'cli', 'main.js'), 'api', 'builtin', '--port', '0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  for await (const piece of child.stderr) {
    said += piece;
    const [, port] = /listens on http:\/\/\S+:(\d+)/.exec(said) ?? [];
    if (port) {
      child.stderr.resume();
      return { child, port: Number(port) };
    }
  }
  throw new Error(`The server did not start: ${said}`);
}
