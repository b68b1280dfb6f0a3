// Opens a text in the user's editor ($VISUAL, else $EDITOR, else the system's), for Ctrl-X Ctrl-E.
// Called by line-input.ts, which lends the terminal to the editor while it runs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RecuaError } from '../../../errors.js';

/**
 * Resolves to the edited text. Throws `file_unreadable` if the editor fails; the text is then
 * unchanged.
 */
export async function editOutside(text: string, environment: NodeJS.ProcessEnv = process.env): Promise<string> {
  const windows = process.platform === 'win32';
  const editor = environment['VISUAL'] || environment['EDITOR'] || (windows ? 'notepad' : 'vi');
  const failed = (why: string, cause?: unknown) => new RecuaError('file_unreadable', `The editor ${editor} ${why}; the message is unchanged. Set VISUAL or EDITOR to another editor.`, { cause });
  // Private: only the user may read a message.
  const folder = await mkdtemp(join(tmpdir(), 'recua-'));
  const path = join(folder, 'message.md');
  try {
    await writeFile(path, text === '' || text.endsWith('\n') ? text : `${text}\n`, { mode: 0o600 });
    // The variable holds a command with arguments, as in git and other tools.
    const child = windows ? spawn(`${editor} "${path}"`, { stdio: 'inherit', shell: true }) : spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', path], { stdio: 'inherit' });
    const [code, signal] = await once(child, 'exit').catch((cause: unknown) => {
      throw failed(`cannot be started: ${(cause as Error).message}`, cause);
    }) as [number | null, string | null];
    if (code !== 0) throw failed(code === null ? `was killed by ${signal}` : `failed with exit code ${code}`);
    return (await readFile(path, 'utf8')).replace(/\r\n/g, '\n').replace(/\n$/, '');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
