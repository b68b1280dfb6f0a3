// The one table of commands. Finding a command, its flags, its help, its settings, the shells' completion and the
// reference in docs/ all derive from it.
import { api } from './api.js';
import { chat } from './chat.js';
import type { AnyCommand } from './command.js';
import { makeCompletion } from './completion.js';
import { makeConfigCommand } from './config.js';
import { makeDoctor } from './doctor.js';
import { makeHelp } from './help.js';
import { importCommand } from './import.js';
import { list } from './list.js';
import { pull } from './pull.js';
import { rm } from './rm.js';
import { run } from './run.js';
import { serve } from './serve.js';
import { sessions } from './sessions.js';
import { show } from './show.js';
import { version } from './version.js';

export const commands: readonly AnyCommand[] = [pull, list, run, chat, sessions, importCommand, api, serve, show, rm, version];

const whole = (): readonly AnyCommand[] => allCommands;

/** With those that are about the table itself. */
export const allCommands: readonly AnyCommand[] = [...commands, makeConfigCommand(whole), makeDoctor(whole), makeCompletion(whole), makeHelp(whole)];
