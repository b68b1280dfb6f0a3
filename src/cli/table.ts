// The one table of commands. Finding a command, its flags and its help all derive from it.
import { api } from './api.js';
import type { AnyCommand } from './command.js';
import { importCommand } from './import.js';
import { list } from './list.js';
import { pull } from './pull.js';
import { rm } from './rm.js';
import { run } from './run.js';
import { show } from './show.js';
import { version } from './version.js';

export const commands: readonly AnyCommand[] = [pull, list, run, importCommand, api, show, rm, version];
