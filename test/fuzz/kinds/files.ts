// Files that Recua keeps or is given, and that people, other versions and broken disks change:
// saved chats, aliases, the config file, files of models and of API keys, the record of the managed
// server, the journal of a download. An unusable file is refused by name, or counts as absent.
import fc from 'fast-check';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readModelsFile } from '#recua/cli/flags/models-file.js';
import { FlagSettings } from '#recua/cli/flags/settings.js';
import { parseArguments } from '#recua/cli/flags/arguments.js';
import { loadSession } from '#recua/cli/chat/sessions/session-store.js';
import { writeSession, type Session } from '#recua/cli/chat/sessions/session.js';
import { chatSettings } from '#recua/cli/flags/answer-flags.js';
import { readRecord } from '#recua/cli/serve/state-file.js';
import { allCommands, loadCommand } from '#recua/cli/table.js';
import { readAliases } from '#recua/models/aliases.js';
import { partialPlaces } from '#recua/models/cache/hub-cache.js';
import { notedBytes, readJournal } from '#recua/models/download/partial-journal.js';
import { findPlaces } from '#recua/models/places.js';
import { ApiKeys } from '#recua/server/access/api-keys.js';
import { lockHolder } from '#recua/system/lock-file.js';
import { edited, editedText, edits, jsonOf, textEdits, unchanged, type Edit, type TextEdit } from '../edits.js';
import { kind, outcomeOf, type Outcome } from '../kind.js';

const names = ['chat', 'aliases', 'config', 'models', 'keys', 'key lines', 'record', 'journal', 'lock'] as const;

interface Case {
  file: typeof names[number];
  edits: Edit[];
  textEdits: TextEdit[];
  encoding: 'utf8' | 'latin1' | 'utf16le';
}

const session: Session = {
  model: 'builtin', system: 'Be short.', template: 'auto', settings: chatSettings(), createdAt: '2026-01-31T10:00:00.000Z', updatedAt: '2026-01-31T10:00:00.000Z', exchanges: [
    { message: 'Hi', sentAt: '2026-01-31T10:00:00.000Z', reply: { text: 'Hello', reasoning: 'x', ended: 'stop', usage: { promptTokens: 1, cachedTokens: 0, completionTokens: 2 }, timings: { queueMs: 1, promptMs: 1, generateMs: 1 }, seed: 5 } }, { message: 'And?', sentAt: 'x' }],
};
const identity = { pid: 123, startedAt: '5', bootId: 'x' };
const sound: Record<Case['file'], unknown> = {
  chat: JSON.parse(writeSession(session)),
  aliases: { aliases: { small: { repo: 'owner/model', file: 'm.gguf', adopted: true }, other: { repo: 'owner/model', file: 'n.gguf' } } },
  config: { port: 9_000, temperature: 0.5, serve: { 'start': 5 }, api: { host: '127.0.0.1', 'ctx-size': 512, parallel: 2 }, chat: { 'top-p': 0.5, 'max-tokens': 5 }, models: { small: { model: 'builtin' } } },
  models: { default: 'small', models: { small: { model: 'builtin', aliases: ['s'], pinned: true, group: 'g', context: 512, temperature: 0.5 }, other: { model: 'm.gguf', keepAlive: 5 } } },
  keys: { keys: [{ name: 'ann', key: 'sk-1', admin: true, expires: '2030-01-01', models: ['m'], requests_per_minute: 5, tokens_per_day: 100, concurrency: 1, priority: 'flex', cache_salt: true }, { sha256: 'a'.repeat(64) }] },
  'key lines': 'sk-1\n# words\nsk-2\n',
  record: { identity, state: 'running', host: 'x', port: 1, url: 'http://x', model: { name: 'm', path: 'p', id: 'i', names: ['m'] }, offload: { devices: ['CPU'], layers: 1, totalLayers: 2 }, startedAt: 'x', version: '1', logFile: '', settings: {} },
  journal: { size_bytes: 100, chunk_bytes: 50, chunks: ['a'.repeat(64), null], begun: [{ chunk: 1, bytes: 5, sha256: 'b'.repeat(64) }], done_bytes: 50 },
  lock: identity,
};

const isRefusal = (code: string): boolean => ['invalid_config', 'invalid_usage', 'invalid_session', 'file_unreadable', 'invalid_value', 'invalid_type'].includes(code);

export default kind<Case>({
  cases: fc.record({
    file: fc.constantFrom(...names), edits: fc.oneof({ weight: 1, arbitrary: unchanged }, { weight: 5, arbitrary: edits() }),
    textEdits: fc.oneof({ weight: 4, arbitrary: unchanged }, textEdits()), encoding: fc.oneof({ weight: 20, arbitrary: fc.constant('utf8' as const) }, fc.constantFrom('latin1' as const, 'utf16le' as const)),
  }),
  few: 300, mostMs: 10_000, mostMib: 500,
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'recua-fuzz-files-'));
    const places = { ...findPlaces({ HOME: folder, SERVICE_HOME: folder }), state: folder };
    const path = { chat: join(folder, 'chat.json'), aliases: join(folder, 'aliases.json'), record: join(folder, 'server.json'), config: join(folder, 'config.json'), models: join(folder, 'models.json'), journal: partialPlaces(join(folder, 'blob')).journal, lock: join(folder, 'x.lock'), keys: join(folder, 'keys'), 'key lines': join(folder, 'keys') };
    const commands = await allCommands();
    const api = (await loadCommand('api'))!;
    /** True if the file was used; false if it counts as absent. */
    const read: Record<Case['file'], (text: string) => Promise<boolean>> = {
      async chat() {
        const { exchanges, settings } = await loadSession(path.chat);
        writeSession({ ...session, exchanges, settings });
        return true;
      },
      aliases: async () => (await readAliases(places)).size > 0,
      async config() {
        const settings = await FlagSettings.read(async () => commands, { RECUA_CONFIG: path.config });
        parseArguments('api', api.flags, [], settings);
        return true;
      },
      models: async () => (await readModelsFile(path.models, path.config)).models.size > 0,
      keys: async (text) => ApiKeys.read({ keys: '', file: text }).areAsked,
      'key lines': async (text) => ApiKeys.read({ keys: '', file: text }).areAsked,
      record: async () => (await readRecord(path.record)) !== undefined,
      async journal() {
        await notedBytes(join(folder, 'blob'));
        return (await readJournal(join(folder, 'blob'), 100)) !== undefined;
      },
      lock: async () => (await lockHolder(path.lock)) !== undefined,
    };
    const take = async ({ file, edits: made, textEdits: changed, encoding }: Case): Promise<Outcome> => {
      const value = edited(sound[file], made);
      const text = editedText(file === 'key lines' && typeof value === 'string' ? value : jsonOf(value), changed);
      writeFileSync(path[file], Buffer.from(text, encoding));
      try {
        return await read[file](text) ? 'accepted' : 'refused';
      } catch (thrown) {
        return outcomeOf(thrown, isRefusal);
      }
    };
    return {
      take,
      async close() {
        for (const file of names) if (!['lock', 'record', 'config'].includes(file) && await take({ file, edits: [], textEdits: [], encoding: 'utf8' }) !== 'accepted') throw new Error(`A sound file (${file}) is not read.`);
        rmSync(folder, { recursive: true, force: true });
      },
    };
  },
});
