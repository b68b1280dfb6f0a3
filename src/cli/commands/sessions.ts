// `recua sessions`: manages saved chats from outside a chat: list, show, remove, export.
import { findPlaces } from '../../models/places.js';
import { RecuaError } from '../../errors.js';
import { tryLock } from '../../system/lock-file.js';
import { SavedConversation } from '../chat/sessions/conversation.js';
import { anyModel, NewerFormat } from '../chat/sessions/session.js';
import { checkIsChat, findSession, listSessions, loadSession, lockPathOf, nameOf, removeSession } from '../chat/sessions/session-store.js';
import { asMarkdown, asMessages, exportTo } from '../chat/sessions/transcript.js';
import { command } from '../command.js';
import { choice, misuse, on, perCall } from '../flags/flags.js';
import { canAsk, confirm } from '../terminal/confirm.js';
import { print, say, tame, toJson } from '../terminal/output.js';

const json = perCall(on(['--json'], 'Print JSON'));

interface Listed {
  name: string;
  path: string;
  updated_at: string;
  model: string | null;
  exchanges: number | null;
  error?: string;
}

/** As `2026-01-31 10:00`. A file that somebody edited may hold any text. */
function localTime(given: string): string {
  const time = new Date(given);
  return Number.isNaN(time.getTime()) ? given : time.toLocaleString('sv').slice(0, '2026-01-31 10:00'.length);
}

const list = command({
  name: 'list',
  aliases: ['ls'],
  operands: '',
  summary: 'List the saved chats, newest first',
  details: '',
  flags: { json },
  async run({ values, operands }) {
    if (operands.length > 0) throw misuse(`Expected nothing after sessions list, got ${operands.join(' ')}.`);
    const rows: Listed[] = [];
    const about: string[] = [];
    // One after the other: thousands at once would take as many open files, and the memory of all.
    for (const { name, path, updatedMs } of await listSessions(findPlaces().sessions)) {
      // One damaged file must not hide the others.
      const session = await loadSession(path).catch((thrown: unknown) => RecuaError.from(thrown));
      const sound = session instanceof RecuaError ? undefined : session;
      rows.push({
        name, path, updated_at: new Date(updatedMs).toISOString(), model: sound?.model ?? null, exchanges: sound?.exchanges.length ?? null,
        ...(session instanceof RecuaError ? { error: session.message } : {}),
      });
      about.push(session instanceof RecuaError
        ? session instanceof NewerFormat ? 'newer format' : 'damaged'
        : `${session.exchanges.length} ${session.exchanges.length === 1 ? 'exchange' : 'exchanges'} with ${session.model === anyModel ? 'any model' : session.model}`);
    }
    if (values.json) await print(toJson({ sessions: rows }));
    else if (rows.length === 0) say('There are no saved chats.');
    else {
      const { rows: inColumns } = await import('../terminal/rows.js');
      await print(inColumns([['NAME', 'CHANGED', 'CHAT'], ...rows.map((row, at) => [row.name, localTime(row.updated_at), about[at]!])]));
    }
    return 0;
  },
});

const show = command({
  name: 'show',
  aliases: [],
  operands: '<session>',
  summary: 'Print a saved chat',
  details: '',
  flags: { json },
  async run({ values, operands }) {
    const path = await findSession(findPlaces().sessions, oneName('show', operands));
    const session = await loadSession(path);
    if (values.json) {
      await print(
        toJson({
          name: nameOf(path),
          path,
          model: session.model,
          template: session.template,
          created_at: session.createdAt,
          updated_at: session.updatedAt,
          messages: new SavedConversation(session.system, session.exchanges).messages(),
        }),
      );
      return 0;
    }
    const { table } = await import('../chat/sessions/statistics.js');
    const { model, createdAt, updatedAt } = session;
    const text = [
      table([['Name', nameOf(path)], ['Model', model], ['Begun', localTime(createdAt)], ['Last turn', localTime(updatedAt)], ...(session.system === '' ? [] : [['System', session.system] as const])]),
      ...session.exchanges.flatMap(({ message, reply }) => [`> ${message.replaceAll('\n', '\n  ')}`, reply ? reply.text : '(no answer)']),
    ].join('\n\n');
    await printTame(`${text}\n`);
    return 0;
  },
});

const rm = command({
  name: 'rm',
  aliases: ['remove'],
  operands: '<session>...',
  summary: 'Remove saved chats',
  details: 'Takes names, or paths of chats elsewhere. Removes nothing unless all of them are saved chats and none is open. On a terminal it asks first.',
  flags: { yes: perCall(on(['--yes', '-y'], 'Do not ask')) },
  async run({ values, operands }) {
    if (operands.length === 0) throw misuse('Expected the name of a saved chat: recua sessions rm <session>.');
    const folder = findPlaces().sessions;
    const paths = [...new Set(await Promise.all(operands.map((name) => findSession(folder, name))))];
    for (const path of paths) await checkIsChat(folder, path);
    const locks = [];
    try {
      for (const path of paths) {
        const lock = await tryLock(lockPathOf(path));
        if (!lock) throw new RecuaError('session_locked', `The chat ${nameOf(path)} is open in another process; close it there first. Nothing was removed.`);
        locks.push(lock);
      }
      const question = paths.length === 1 ? `Remove the chat ${nameOf(paths[0]!)} for good?` : `Remove these ${paths.length} chats for good?`;
      if (!values.yes && canAsk() && !await confirm(question, 'Stopped; nothing was removed.')) {
        say('Nothing was removed.');
        return 1;
      }
      for (const path of paths) {
        await removeSession(folder, path);
        say(`Removed ${nameOf(path)}.`);
      }
    } finally {
      for (const lock of locks) await lock.release();
    }
    return 0;
  },
});

const exportCommand = command({
  name: 'export',
  aliases: [],
  operands: '<session> [file]',
  summary: 'Write a saved chat as Markdown or JSON',
  details: 'The file\'s extension, .md or .json, selects the format; without a file, it prints to stdout. The JSON has the messages in the form that chat APIs take.',
  flags: { format: choice(['--format'], 'Print in this format if no file is given', ['md', 'json']) },
  async run({ values, operands }) {
    const [name, file, ...surplus] = operands;
    if (surplus.length > 0) throw misuse(`Expected a name and a file, got also ${surplus.join(' ')}.`);
    const path = await findSession(findPlaces().sessions, oneName('export', name === undefined ? [] : [name]));
    const session = await loadSession(path);
    if (file === undefined) await printTame(values.format === 'json' ? asMessages(session) : asMarkdown(session, nameOf(path)));
    else say(`Written to ${await exportTo(file, session, nameOf(path))}`);
    return 0;
  },
});

export const sessions = command({
  name: 'sessions',
  aliases: [],
  operands: '<subcommand>',
  summary: 'Manage saved chats',
  details: '',
  subcommands: [list, show, rm, exportCommand],
  flags: {},
  run: () => Promise.reject(misuse('Expected list, show, rm or export: recua sessions <subcommand>.')),
});

/** The text must not control a terminal; a file or a pipe gets it unchanged. */
async function printTame(text: string): Promise<void> {
  await print(process.stdout.isTTY ? tame(text) : text);
}

function oneName(subcommand: string, operands: readonly string[]): string {
  const [name, ...surplus] = operands;
  if (name === undefined) throw misuse(`Expected the name of a saved chat: recua sessions ${subcommand} <session>. recua sessions list shows them.`);
  if (surplus.length > 0) throw misuse(`Expected one name, got also ${surplus.join(' ')}.`);
  return name;
}
