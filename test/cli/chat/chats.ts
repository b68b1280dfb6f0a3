// Shared by tests of a chat: a chat with the built-in model on a pseudo-terminal, with its own
// home. It ends with its test.
import { join } from 'node:path';
import { readFileSync, readdirSync } from 'node:fs';
import type { Test as TapTest } from 'tap';
import { Pty } from '../pty.js';
import type { PtyOptions } from '../pty.js';

/** The part of tap's test object that is used here. */
export type Test = Pick<TapTest, 'testdir' | 'teardown'>;

/** An answer that does not end within a test by itself. */
export const endless = ['-g', 'root ::= [a-z] root', '-n', '1000000', '--temp', '1'];
/** An answer that is always the same. */
export const always = (text: string) => ['-g', `root ::= ${JSON.stringify(text)}`];

/**
 * `t.testdir()` for a folder in which processes write until a teardown ends them: tap removes a
 * folder before it calls teardowns, unless the first of these came before the folder.
 */
export function sharedFolder(t: Test, content: Parameters<Test['testdir']>[0] = {}): string {
  t.teardown(() => {});
  return t.testdir(content);
}

/** Started, but maybe not ready yet. */
export function startChat(
  t: Test,
  args: readonly string[],
  { home = sharedFolder(t), env = {}, ...more }: PtyOptions & { home?: string } = {},
): Pty & { home: string } {
  const pty = new Pty(['chat', ...args], { env: { SERVICE_HOME: home, ...env }, ...more });
  t.teardown(() => pty.dispose());
  return Object.assign(pty, { home });
}

/** At its first prompt. */
export async function openChat(
  t: Test,
  args: readonly string[] = [],
  options: PtyOptions & { home?: string } = {},
): Promise<Pty & { home: string }> {
  const pty = startChat(t, ['builtin', '--threads', '1', ...args], options);
  await pty.prompt();
  return pty;
}

export interface SavedMessage {
  role: string;
  content: string;
  ended?: string;
  unanswered?: boolean;
  usage?: { prompt_tokens: number; cached_tokens: number };
}

export function sessionFiles(home: string): string[] {
  return readdirSync(join(home, 'sessions')).filter((name) => name.endsWith('.json')).sort();
}

export function readSaved(
  home: string,
  name?: string,
): { model: string; system: string; template: string; sampling: Record<string, number>; messages: SavedMessage[] } {
  return JSON.parse(readFileSync(join(home, 'sessions', name === undefined ? sessionFiles(home)[0]! : `${name}.json`), 'utf8'));
}

export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
}

/** The engine process of a chat or a server. */
export function engineOf(pid: number): number {
  return childrenOf(pid).find((child) => readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('engine'))!;
}
