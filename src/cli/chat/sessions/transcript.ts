// Exports a conversation as Markdown, or as JSON in the shape that chat APIs take. Used by /export
// and `sessions export`.
import { open, rm } from 'node:fs/promises';
import { dirname, extname, resolve } from 'node:path';
import { RecuaError } from '../../../errors.js';
import { misuse, quote } from '../../flags/flags.js';
import { SavedConversation } from './conversation.js';
import type { Session } from './session.js';
import { toJson } from '../../terminal/output.js';

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
  return toJson({ model, messages: new SavedConversation(system, exchanges).messages() });
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
    const written = kind === '.md' ? asMarkdown(transcribed, title) : asMessages(transcribed);
    const exported = await open(path, 'wx', 0o600);
    try {
      await exported.writeFile(written);
    } catch (thrown) {
      await rm(path, { force: true });
      throw thrown;
    } finally {
      await exported.close();
    }
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === 'EEXIST' ? `There is already a file ${path}; choose another name.` : code === 'ENOENT' ? `There is no folder ${dirname(path)}; make it first, or choose another.` : `${path} cannot be written: ${message}`;
    throw new RecuaError('file_unreadable', why, { cause });
  }
  return path;
}

function quoted(text: string): string {
  return text.trim().split('\n').map((line) => `> ${line}`).join('\n');
}
