// The one table of commands. Command lookup, flags, help, settings, shell completion and the
// reference in docs/ all derive from it. A command's module is imported when the command is called:
// importing all of them takes longer than most commands take to run.
import type { AnyCommand } from './command.js';

interface Entry {
  /** The name and the aliases, the same as in the command itself. */
  readonly names: readonly string[];
  load(): Promise<AnyCommand>;
}

const entries: readonly Entry[] = [
  { names: ['search'], load: async () => (await import('./commands/search.js')).search },
  { names: ['pull'], load: async () => (await import('./commands/pull.js')).pull },
  { names: ['list', 'ls'], load: async () => (await import('./commands/list.js')).list },
  { names: ['run'], load: async () => (await import('./commands/run.js')).run },
  { names: ['chat'], load: async () => (await import('./commands/chat.js')).chat },
  { names: ['sessions'], load: async () => (await import('./commands/sessions.js')).sessions },
  { names: ['import'], load: async () => (await import('./commands/import.js')).importCommand },
  { names: ['api'], load: async () => (await import('./commands/api.js')).api },
  { names: ['cache'], load: async () => (await import('./commands/cache.js')).cache },
  { names: ['serve'], load: async () => (await import('./commands/serve.js')).serve },
  { names: ['cluster'], load: async () => (await import('./commands/cluster/cluster.js')).cluster },
  { names: ['ps'], load: async () => (await import('./commands/ps.js')).ps },
  { names: ['load'], load: async () => (await import('./commands/load.js')).load },
  { names: ['unload', 'stop'], load: async () => (await import('./commands/load.js')).unload },
  { names: ['show'], load: async () => (await import('./commands/show.js')).show },
  { names: ['alias'], load: async () => (await import('./commands/alias.js')).alias },
  { names: ['cp'], load: async () => (await import('./commands/alias.js')).cp },
  { names: ['rm', 'remove'], load: async () => (await import('./commands/rm.js')).rm },
  { names: ['version', '--version', '-v'], load: async () => (await import('./commands/version.js')).version },
  // Commands that need the table itself.
  { names: ['config'], load: async () => (await import('./commands/config.js')).makeConfigCommand(allCommands) },
  { names: ['doctor'], load: async () => (await import('./commands/doctor.js')).makeDoctor(allCommands) },
  { names: ['completion'], load: async () => (await import('./commands/completion.js')).makeCompletion(allCommands) },
  { names: ['help', '--help', '-h'], load: async () => (await import('./commands/help.js')).makeHelp(allCommands) },
];

/** The names of each command, in order. */
export const commandNames: readonly (readonly string[])[] = entries.map(({ names }) => names);

/** Every command, in order. */
export async function allCommands(): Promise<readonly AnyCommand[]> {
  return await Promise.all(entries.map((entry) => entry.load()));
}

/** Loads only the command of this name; undefined if there is none. */
export async function loadCommand(name: string): Promise<AnyCommand | undefined> {
  return await entries.find(({ names }) => names.includes(name))?.load();
}
