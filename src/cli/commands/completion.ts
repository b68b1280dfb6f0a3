// `recua completion <shell>`: a shell script that completes commands, flags and values, generated
// from the table of commands.
import type { AnyCommand } from '../command.js';
import { command } from '../command.js';
import { bashScript } from '../completion/bash.js';
import { fishScript } from '../completion/fish.js';
import { completionTree } from '../completion/words.js';
import { zshScript } from '../completion/zsh.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { findPlaces } from '../../models/places.js';
import { storedNames } from '../../models/store.js';
import { listSessions } from '../chat/sessions/session-store.js';
import { nearest } from '../../models/names/nearest.js';
import { print } from '../terminal/output.js';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

export function makeCompletion(whole: () => Promise<readonly AnyCommand[]>): AnyCommand {
  return command({
    name: 'completion',
    aliases: [],
    operands: `<${Object.keys(scripts).join('|')}>`,
    summary: 'Print a shell script that completes commands, flags, models and saved chats',
    details: 'Load it in the shell\'s startup file, so that it follows updates of Recua. It calls `recua completion --models` and `--sessions` to complete what is in the store at that moment.',
    examples: [
      ['source <(recua completion bash)', 'Put this in ~/.bashrc'],
      ['source <(recua completion zsh)', 'Put this in ~/.zshrc, after compinit'],
      ['recua completion fish | source', 'Put this in ~/.config/fish/config.fish'],
    ],
    flags: {
      models: perCall(on(['--models'], 'Print the names of the models in the store instead, one per line')),
      sessions: perCall(on(['--sessions'], 'Print the names of the saved chats instead, one per line')),
    },
    async run({ values, operands }) {
      if (values.models || values.sessions) {
        // An error must not show up in a line that is being typed.
        const names = await (values.models ? storedNames(findPlaces()) : sessionNames()).catch(() => []);
        await print(names.map((name) => `${name}\n`).join(''));
        return 0;
      }
      const [shell, ...surplus] = operands;
      const known = Object.keys(scripts);
      if (shell === undefined || surplus.length > 0) throw misuse(`Name one shell (${known.join(', ')})${surplus.length > 0 ? `, not ${operands.length}` : ''}.`);
      if (!Object.hasOwn(scripts, shell)) {
        const near = nearest(shell, known);
        throw misuse(`Expected one shell of ${known.join(', ')}, got ${shell}.${near ? ` Did you mean ${near}?` : ''}`);
      }
      await print(scripts[shell as keyof typeof scripts](completionTree(await whole())));
      return 0;
    },
  });
}

/** Newest first. A file may have any name: one with a line break would be two words. */
async function sessionNames(): Promise<string[]> {
  return (await listSessions(findPlaces().sessions)).map(({ name }) => name).filter((name) => !/\p{Cc}/u.test(name));
}
