// The flags of a command as its help shows them: the most used first, then the others grouped by
// topic. A command with few flags has one group.
import type { AnyCommand } from '../command.js';
import type { Flag, Flags } from './flags.js';

export interface FlagGroup {
  title: string;
  flags: readonly Flag<unknown>[];
}

/** Flag keys by topic. The most used flags come before all groups. */
const groups: readonly (readonly [title: string, keys: readonly string[]])[] = [
  ['Sampling', ['temperature', 'maxTokens', 'topP', 'topK', 'minP', 'repeatPenalty', 'seed']],
  ['Output format', ['grammar', 'grammarFile', 'jsonSchema', 'jsonSchemaFile']],
  ['Conversation', ['template', 'chatTemplateFile', 'save', 'resume', 'continue']],
  ['Access and security', ['apiKey', 'apiKeyFile', 'corsOrigins', 'allowedHosts', 'tlsCert', 'tlsKey', 'socketMode', 'sandbox']],
  ['Requests', ['alias', 'parallel', 'queueSize', 'queueTimeoutSeconds', 'drainSeconds', 'pingSeconds', 'bodyLimitMib', 'bodyMemoryMib', 'slotSavePath', 'responseDays', 'ui', 'uiSessions']],
  ['Several models', ['models', 'keepAliveSeconds', 'maxModels', 'maxMemoryMib', 'sleepCacheMib']],
  ['Logs and state', ['logLevel', 'logFormat', 'logFile', 'traces', 'stateFile', 'json', 'quiet', 'print', 'force']],
  ['Running servers', ['local']],
  ['Devices', ['gpuLayers', 'device', 'requireGpu', 'listDevices', 'threads', 'threadsBatch', 'numa']],
  ['Memory and speed', [
    'contextSize', 'batchSize', 'microBatchSize', 'maxStallMs', 'flashAttention', 'attention', 'matmul', 'cacheTypeK', 'cacheTypeV', 'cacheRamMib', 'cacheDiskMib', 'specType', 'specDraftMax', 'mmap', 'mlock', 'pooling',
  ]],
];

export function groupsOf({ flags, often }: Pick<AnyCommand, 'flags' | 'often'>): FlagGroup[] {
  if (Object.keys(flags).length === 0) return [];
  if (!often) return [{ title: 'Flags', flags: Object.values(flags) }];
  const named = [['Flags used most', often] as const, ...groups];
  const taken = new Set<string>();
  const taking = (keys: readonly string[]) => keys.filter((key) => Object.hasOwn(flags, key) && !taken.has(key) && taken.add(key));
  const found = named.map(([title, keys]) => ({ title, flags: flagsOf(flags, taking(keys)) }));
  const others = { title: 'Others', flags: flagsOf(flags, taking(Object.keys(flags))) };
  return [...found, others].filter((group) => group.flags.length > 0);
}

function flagsOf(flags: Flags, keys: readonly string[]): Flag<unknown>[] {
  return keys.map((key) => flags[key]!);
}
