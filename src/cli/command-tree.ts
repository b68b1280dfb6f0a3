// The tree of commands: `serve start` is a command inside a command. Finds a command by its words,
// and walks over all of them. Used by main, help, the settings, completion and the generated
// reference.
import type { AnyCommand } from './command.js';
import { misuse } from './flags/flags.js';
import { nearest } from '../models/names/nearest.js';

export interface Place {
  command: AnyCommand;
  /** As typed after `recua`: `serve start`. */
  path: string;
}

/** A command by its name or an alias. */
export function findCommand(all: readonly AnyCommand[], name: string, within = ''): AnyCommand {
  const found = all.find((one) => one.name === name || one.aliases.includes(name));
  if (found) return found;
  const inside = all.find((one) => one.subcommands?.some((sub) => sub.name === name));
  const near = inside ? `${inside.name} ${name}` : nearest(name, all.flatMap((one) => [one.name, ...one.aliases]));
  if (name.startsWith('-')) throw misuse(`Expected a command before ${name}, such as recua api ${name}. All of them: recua help`);
  const group = within === '' ? '' : `${within} `;
  throw misuse(`There is no command ${group}${name}.${near ? ` Did you mean ${group}${near}?` : ''} All of them: recua help${within === '' ? '' : ` ${within}`}`);
}

/** The command that the words name together. */
export function findPlace(all: readonly AnyCommand[], words: readonly string[]): Place {
  let among = all;
  let path = '';
  let command: AnyCommand | undefined;
  for (const word of words) {
    if (command && !command.subcommands) throw misuse(`recua ${path} has no commands of its own, got ${word}.`);
    command = findCommand(among, word, path);
    path = path === '' ? command.name : `${path} ${command.name}`;
    among = command.subcommands ?? [];
  }
  if (!command) throw misuse('Expected a command. All of them: recua help');
  return { command, path };
}

/** All commands in order, each followed by its subcommands. */
export function allPlaces(all: readonly AnyCommand[], within = ''): Place[] {
  return all.flatMap((command) => {
    const path = `${within}${command.name}`;
    return [{ command, path }, ...allPlaces(command.subcommands ?? [], `${path} `)];
  });
}
