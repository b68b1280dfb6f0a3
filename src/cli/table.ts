// The one table of commands. Finding a command, its flags and its help all derive from it.
import { api } from './api.js';
import { chat } from './chat.js';
import type { AnyCommand } from './command.js';
import { run } from './run.js';
import { sessions } from './sessions.js';
import { show } from './show.js';
import { version } from './version.js';

export const commands: readonly AnyCommand[] = [api, chat, run, sessions, show, version];
