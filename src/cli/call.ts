// One call of the command line: finds the command, reads its flags, runs it, and turns an error
// into a sentence and an exit code: 0 done, 1 failed, 2 called wrongly, 130 or 143 stopped by a
// signal.
import { RecuaError } from '../errors.js';
import type { AnyCommand } from './command.js';
import { parseArguments } from './flags/arguments.js';
import { findCommand, findPlace } from './command-tree.js';
import type { Place } from './command-tree.js';
import { misuse } from './flags/flags.js';
import { ReaderGone, guardOutput, print, say, sayError } from './terminal/output.js';
import { FlagSettings } from './flags/settings.js';
import { isDrawable } from './markdown/rendering.js';
import { stopCode } from './terminal/signals.js';
import { allCommands, loadCommand } from './table.js';

/** Commands that run for long or compute: a variable without effect would be noticed late. */
const warnsOfVariables = ['run', 'chat', 'api', 'serve start'];

/** Runs one command line (without node and script) and returns the exit code. */
export async function call(argv: readonly string[]): Promise<number> {
  guardOutput();
  try {
    return await dispatch(argv);
  } catch (thrown) {
    if (thrown instanceof ReaderGone) return 0;
    sayError(thrown);
    const code = RecuaError.from(thrown).code;
    if (code === 'cancelled') return stopCode();
    return code === 'invalid_usage' || code === 'invalid_config' ? 2 : 1;
  }
}

async function dispatch(argv: readonly string[]): Promise<number> {
  if (argv.length === 0 && process.stdin.isTTY && isDrawable()) {
    const { openMenu } = await import('./menu/menu.js');
    // The command behind a menu entry reports its failures itself.
    return await openMenu(call);
  }
  const word = argv[0] ?? 'help';
  // An unknown word is looked up among all commands, to suggest one.
  const first = await loadCommand(word) ?? findCommand(await allCommands(), word);
  return await runPlace({ command: first, path: first.name }, argv.slice(1));
}

async function runPlace(place: Place, rest: readonly string[]): Promise<number> {
  const { command, path } = place;
  if (command.subcommands) return await runInner(place, command.subcommands, rest);
  if (wantsHelp(command, rest)) {
    await print(await helpOf(place));
    return 0;
  }
  // A command without settings works even if the config file is broken.
  const settings = Object.values(command.flags).some((flag) => !flag.perCall) ? await FlagSettings.read(allCommands) : undefined;
  const parsed = parseArguments(path, command.flags, rest, settings);
  if (settings && warnsOfVariables.includes(path)) tellMistyped(settings, parsed.values);
  // The table does not know the types of a command's flags; the command does.
  return await command.run(parsed as never);
}

/** The server of `recua serve start`, which has a state file, leaves that to the command. */
function tellMistyped(settings: FlagSettings, { quiet, stateFile }: Readonly<Record<string, unknown>>): void {
  if (quiet === true || (stateFile !== undefined && stateFile !== '')) return;
  for (const text of settings.mistypedVariables()) say(`Warning: ${text}`);
}

/** A group such as `recua serve`: the next word names the command. */
async function runInner(place: Place, inner: readonly AnyCommand[], rest: readonly string[]): Promise<number> {
  const [word, ...more] = rest;
  if (word === undefined || ['help', '--help', '-h'].includes(word)) {
    await print(await helpOf(more.length === 0 ? place : findPlace(await allCommands(), [...place.path.split(' '), ...more])));
    return 0;
  }
  if (word.startsWith('-')) throw misuse(`Expected a command after recua ${place.path}, got ${word}. All of them: recua help ${place.path}`);
  const command = findCommand(inner, word, place.path);
  return await runPlace({ command, path: `${place.path} ${command.name}` }, more);
}

async function helpOf(place: Place): Promise<string> {
  const { commandHelp } = await import('./help.js');
  return commandHelp(place);
}

/** `--help` after a command; also `-h`, unless the command has that flag (`api -h` is the host). */
function wantsHelp(command: AnyCommand, argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  const words = end < 0 ? argv : argv.slice(0, end);
  const ownsShort = Object.values(command.flags).some((flag) => flag.names.includes('-h'));
  return words.includes('--help') || (!ownsShort && words.includes('-h'));
}
