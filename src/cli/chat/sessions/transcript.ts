// Exports a conversation as Markdown, or as JSON in the shape that chat APIs take. Used by /export
// and `sessions export`.
import { writeFile } from 'node:fs/promises';
import { extname, resolve } from 'node:path';
import { RecuaError } from '../../../errors.js';
import { misuse, quote } from '../../flags/flags.js';
import { SavedConversation } from './conversation.js';
import type { Session } from './session.js';

export type Transcribed = Pick<Session, 'model' | 'system' | 'exchanges' | 'createdAt'>;

export function asMarkdown({ model, system, exchanges, createdAt }: Transcribed, title: string): string {
  return `${[
    `# ${title}`,
    `Model ${model}, begun ${createdAt}`,
    ...(system === '' ? [] : ['## System', system]),
    ...exchanges.flatMap(({ message, reply }) => [
      '## User', message,
      ...(reply ? ['## Assistant', ...(reply.reasoning === '' ? [] : [quoted(reply.reasoning)]), reply.text, ...(reply.ended === 'stop' ? [] : [`*(${endedBecause(reply.ended)})*`])] : []),
    ]),
  ].join('\n\n')}\n`;
}

export function asMessages({ model, system, exchanges }: Transcribed): string {
  return `${JSON.stringify({ model, messages: new SavedConversation(system, exchanges).messages() }, null, 2)}\n`;
}

export function endedBecause(ended: string): string {
  if (ended === 'length') return 'cut off';
  return ended === 'failed' ? 'interrupted by an error' : ended;
}

/** Writes a .md or .json file; never overwrites one. Returns its path. */
export async function exportTo(file: string, transcribed: Transcribed, title: string): Promise<string> {
  const kind = extname(file).toLowerCase();
  if (kind !== '.md' && kind !== '.json') throw misuse(`Expected a file name that ends in .md or .json, got ${quote(file)}.`);
  const path = resolve(file);
  try {
    await writeFile(path, kind === '.md' ? asMarkdown(transcribed, title) : asMessages(transcribed), { flag: 'wx', mode: 0o600 });
  } catch (cause) {
    const there = (cause as NodeJS.ErrnoException).code === 'EEXIST';
    throw new RecuaError('file_unreadable', there ? `There is already a file ${path}; choose another name.` : `${path} cannot be written: ${(cause as Error).message}`, { cause });
  }
  return path;
}

function quoted(text: string): string {
  return text.trim().split('\n').map((line) => `> ${line}`).join('\n');
}
