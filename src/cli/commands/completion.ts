// `recua completion <shell>`: a script for the shell that completes commands, flags and values,
// written from the table.
import type { AnyCommand } from '../command.js';
import { command } from '../command.js';
import { bashScript } from '../completion/bash.js';
import { fishScript } from '../completion/fish.js';
import { completionTree } from '../completion/words.js';
import { zshScript } from '../completion/zsh.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { findPlaces } from '../../models/places.js';
import { storedNames } from '../../models/store.js';
import { nearest } from '../../models/names/nearest.js';
import { print } from '../terminal/output.js';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

export function makeCompletion(whole: () => Promise<readonly AnyCommand[]>): AnyCommand {
  return command({
    name: 'completion',
    aliases: [],
    operands: `<${Object.keys(scripts).join('|')}>`,
    summary: 'Print a script that completes recua\'s commands, flags and models in a shell',
    details: 'Load it in the shell\'s start file; it then follows updates of Recua. It completes the models that are in the store at that moment, by `recua completion --models`.',
    examples: [
      ['source <(recua completion bash)', 'In ~/.bashrc'],
      ['source <(recua completion zsh)', 'In ~/.zshrc, after compinit'],
      ['recua completion fish | source', 'In ~/.config/fish/config.fish'],
    ],
    flags: { models: perCall(on(['--models'], 'Print the names of the models of the store instead, a line for each')) },
    async run({ values, operands }) {
      if (values.models) {
        // Into a line that is being typed, no error belongs.
        const names = await storedNames(findPlaces()).catch(() => []);
        await print(`${names.join('\n')}\n`);
        return 0;
      }
      const [shell, ...surplus] = operands;
      const known = Object.keys(scripts);
      if (shell === undefined || surplus.length > 0) throw misuse(`Expected one shell of ${known.join(', ')}, got ${operands.length === 0 ? 'none' : operands.join(' ')}.`);
      if (!Object.hasOwn(scripts, shell)) {
        const near = nearest(shell, known);
        throw misuse(`Expected one shell of ${known.join(', ')}, got ${shell}.${near ? ` Did you mean ${near}?` : ''}`);
      }
      await print(scripts[shell as keyof typeof scripts](completionTree(await whole())));
      return 0;
    },
  });
}
