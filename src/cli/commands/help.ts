// `recua help [command]`: only the command; help.ts has the texts.
import { fileURLToPath } from 'node:url';
import type { AnyCommand } from '../command.js';
import { command } from '../command.js';
import { findPlace } from '../command-tree.js';
import { print } from '../terminal/output.js';

/** Packages contain it, too. */
const docs = fileURLToPath(new URL('../../../docs', import.meta.url));

export function makeHelp(whole: () => Promise<readonly AnyCommand[]>): AnyCommand {
  return command({
    name: 'help',
    aliases: ['--help', '-h'],
    operands: '[command]',
    summary: 'Explain Recua or one of its commands',
    details: '`recua help environment` explains the config file and lists the variables that Recua reads. With `recua api` and `recua serve start`, -h is --host; use --help.',
    flags: {},
    async run({ operands }) {
      const all = await whole();
      // Loaded on demand: the library that measures text loads slower than most commands.
      const { commandHelp, environmentHelp, overview } = await import('../help.js');
      if (operands.length === 0) await print(`${overview(all)}\nDocumentation: ${docs}\n`);
      else if (operands.length === 1 && operands[0] === 'environment') await print(environmentHelp());
      else await print(commandHelp(findPlace(all, operands)));
      return 0;
    },
  });
}
