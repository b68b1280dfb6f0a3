#!/usr/bin/env node
// The command line's front door: finds the command, reads its flags, runs it, and turns what it throws into a sentence
// and an exit code: 0 done, 1 failed, 2 called wrongly, 130 stopped by Ctrl-C.
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { RecuaError } from '../errors.js';
import type { AnyCommand } from './command.js';
import { readArguments } from './arguments.js';
import { commandHelp, findCommand, makeHelp } from './help.js';
import { ReaderGone, guardOutput, print, sayError } from './output.js';
import { commands } from './table.js';

/** Runs one command line (without node and script) and returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  guardOutput();
  try {
    return await dispatch(argv);
  } catch (thrown) {
    if (thrown instanceof ReaderGone) return 0;
    sayError(thrown);
    const code = RecuaError.from(thrown).code;
    if (code === 'cancelled') return 130;
    return code === 'invalid_usage' ? 2 : 1;
  }
}

async function dispatch(argv: readonly string[]): Promise<number> {
  const all = [...commands, makeHelp(commands)];
  let command = findCommand(all, argv[0] ?? 'help');
  let rest = argv.slice(1);
  if (command.subcommands && rest[0] !== undefined && !rest[0].startsWith('-')) {
    const parent = command.name;
    command = findCommand(command.subcommands, rest[0]);
    command = { ...command, name: `${parent} ${command.name}` };
    rest = rest.slice(1);
  }
  if (wantsHelp(command, rest)) {
    await print(commandHelp(command));
    return 0;
  }
  // Each command reads its own flags, whose types the table does not know.
  return await command.run(readArguments(command.name, command.flags, rest) as never);
}

/** `--help` after a command, and `-h` where the command has no flag of that name (`api -h` is the host). */
function wantsHelp(command: AnyCommand, argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  const words = end < 0 ? argv : argv.slice(0, end);
  const ownsShort = Object.values(command.flags).some((flag) => flag.names.includes('-h'));
  return words.includes('--help') || (!ownsShort && words.includes('-h'));
}

const script = process.argv[1];
if (script !== undefined && realpathSync(script) === fileURLToPath(import.meta.url)) {
  process.exitCode = await main(process.argv.slice(2));
}
