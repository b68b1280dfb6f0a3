// The commands inside a chat, in one table, from which lookup, /help and completion derive. Each
// works on the dialogue.
import { RecuaError } from '../../errors.js';
import { templateNames } from '../../models/chat-templates.js';
import { misuse } from '../flags/flags.js';
import { nearest } from '../../models/names/nearest.js';
import { copy } from './input/clipboard.js';
import type { Dialogue } from './dialogue.js';
import { anyModel } from './sessions/session.js';
import { findSession, listSessions } from './sessions/session-store.js';
import { table } from './sessions/statistics.js';
import { set, setChoices, show, showChoices } from './set-command.js';
import { exportTo } from './sessions/transcript.js';

interface InChatCommand {
  /** Its name, and aliases. */
  names: readonly [string, ...string[]];
  /** Its argument, as help shows it. */
  operand: string;
  does: string;
  run(chat: Dialogue, operand: string): Promise<void> | void;
  /** Possible values of the operand. */
  choices?(chat: Dialogue, operand: string): Promise<readonly string[]> | readonly string[];
}

const sessionNames = async (chat: Dialogue) => (await listSessions(chat.keeper.folder)).map(({ name }) => name);

const commands: readonly InChatCommand[] = [
  { names: ['/help', '/?'], operand: '', does: 'Show this help', run: (chat) => chat.input.say(help(chat.input.columns)) },
  { names: ['/quit', '/exit', '/bye'], operand: '', does: 'Leave the chat; so does exit or quit alone', run: (chat) => chat.quit() },
  {
    names: ['/clear'], operand: '', does: 'Start a new conversation; the old one stays saved',
    async run(chat) {
      const { name, automatic } = chat.keeper;
      await chat.clear();
      chat.input.say(`Cleared; the next message starts a new conversation.${name === undefined || !automatic ? '' : ` The old one is saved as ${name}.`}`);
    },
  },
  { names: ['/retry'], operand: '', does: 'Send the last message again', run: (chat) => chat.retry() },
  {
    names: ['/undo'], operand: '', does: 'Remove the last exchange',
    async run(chat) {
      const gone = chat.conversation.undo();
      if (!gone) return chat.input.say('There is nothing to remove.');
      chat.statistics.reset();
      await chat.save();
      chat.input.say(`Removed: ${firstLine(gone.message)}`);
    },
  },
  {
    names: ['/edit'], operand: '', does: 'Edit the last message and send it again in place of the old one',
    run(chat) {
      const { last } = chat.conversation;
      if (!last) return chat.input.say('There is no message to edit yet.');
      chat.draft = last.message;
      chat.replacing = true;
      chat.input.say('Enter sends it in place of the old one, Ctrl-C keeps the old one.');
    },
  },
  {
    names: ['/copy'], operand: '', does: 'Copy the last answer to the clipboard',
    async run(chat) {
      const reply = chat.conversation.last?.reply;
      if (!reply) return chat.input.say('There is no answer to copy yet.');
      const how = await copy(reply.text, chat.look.terminal ? (sequence) => chat.input.write(sequence) : undefined);
      if (how === undefined) throw misuse('There is no clipboard available; /export writes the conversation to a file.');
      chat.input.say(how === 'system' ? 'Copied.' : 'Sent to the terminal\'s clipboard.');
    },
  },
  {
    names: ['/export'], operand: '[file.md|file.json]', does: 'Write the conversation to a file',
    async run(chat, operand) {
      const title = chat.keeper.name ?? 'chat';
      const path = await exportTo(operand || `${title}.md`, chat.session(), title);
      chat.input.say(`Written to ${path}`);
    },
  },
  {
    names: ['/save'], operand: '<name>', does: 'Name this chat; if you named it before, save a copy under the new name',
    async run(chat, operand) {
      const { keeper } = chat;
      if (operand === '' && keeper.name === undefined) throw misuse('Expected a name: /save <name>.');
      if (!keeper.automatic) {
        if (operand === '') throw misuse('Expected a name: /save <name>.');
        await keeper.saveCopy(operand, chat.session());
        return chat.input.say(`Saved as ${operand}, as it is now; later turns are not saved (--no-save).`);
      }
      const stays = operand === '' ? undefined : await keeper.rename(operand);
      await keeper.save(chat.session());
      chat.keepKv();
      await chat.saveKv();
      chat.input.say(`Saved as ${keeper.name!}.${stays === undefined ? '' : ` ${stays} stays as it was.`}`);
    },
    choices: sessionNames,
  },
  {
    names: ['/load'], operand: '<name>', does: 'Continue a saved chat',
    async run(chat, operand) {
      if (operand === '') throw misuse('Expected the name of a saved chat: /load <name>. /sessions lists them.');
      const model = await chat.open(await findSession(chat.keeper.folder, operand, '/sessions'));
      const count = chat.conversation.exchanges.length;
      chat.input.say(`Loaded ${chat.keeper.name ?? operand}: ${count} ${count === 1 ? 'exchange' : 'exchanges'}.${model === chat.modelName || model === anyModel ? '' : ` It was with ${model}; ${chat.modelName} answers now.`}`);
    },
    choices: sessionNames,
  },
  {
    names: ['/sessions'], operand: '', does: 'List the saved chats',
    async run(chat) {
      const files = await listSessions(chat.keeper.folder);
      if (files.length === 0) return chat.input.say('There are no saved chats.');
      chat.input.say(table(files.map(({ name, updatedMs }) => [name, `${new Date(updatedMs).toLocaleString('sv')}${name === chat.keeper.name ? ' (this one)' : ''}`])));
    },
  },
  {
    names: ['/system'], operand: '[text]', does: 'Set the system prompt; without text show it, with - remove it',
    async run(chat, operand) {
      const { conversation } = chat;
      if (operand === '') return chat.input.say(conversation.system === '' ? 'There is no system prompt.' : conversation.system);
      conversation.system = operand === '-' ? '' : operand;
      if (conversation.exchanges.length > 0) await chat.save();
      chat.input.say(operand === '-' ? 'The system prompt is removed.' : 'The system prompt is set.');
    },
  },
  {
    names: ['/template'], operand: '[name]', does: `Switch the chat template: ${templateNames.join(', ')}; auto means the model's own, the only one that a server uses`,
    async run(chat, operand) {
      if (operand === '') return chat.input.say(`The template is ${chat.template}. There are ${templateNames.join(', ')}.`);
      const found = templateNames.find((name) => name === operand);
      if (found === undefined) {
        const near = nearest(operand, templateNames);
        throw misuse(`There is no template ${operand}.${near === undefined ? '' : ` Did you mean ${near}?`} There are ${templateNames.join(', ')}.`);
      }
      chat.template = found;
      if (chat.conversation.exchanges.length > 0) await chat.save();
      const { url } = chat.models.current;
      chat.input.say(`The template is ${found} now.${found === 'auto' || url === undefined ? '' : ` The server ${url} uses the model's own, so your next message loads the model in this chat.`}`);
    },
    choices: () => templateNames,
  },
  {
    names: ['/model'], operand: '[name]', does: 'Switch to another model; without a name, show the current one and all others',
    async run(chat, operand) {
      if (operand !== '') {
        await chat.switchModel(operand).catch((thrown: unknown) => {
          const error = RecuaError.from(thrown);
          throw error.code === 'model_not_found' ? new RecuaError(error.code, `${error.message}\n/model lists the models that are here.`, { details: error.details, cause: thrown }) : error;
        });
      }
      const { id, url, contextSize } = chat.models.current;
      const where = url === undefined ? '' : `, on the running server ${url}`;
      chat.input.say(`${id} answers${operand === '' ? '' : ' now'}${where}. The context holds ${contextSize} tokens.`);
      if (operand === '') chat.input.say(`Models: ${(await chat.models.names()).join(', ')}.`);
    },
    choices: (chat) => chat.models.names(),
  },
  { names: ['/set'], operand: '[what] [value]', does: 'Set sampling parameters, the system prompt, JSON answers and more; alone it lists them', run: set, choices: (_, operand) => setChoices(operand) },
  { names: ['/show'], operand: '[what]', does: `Show settings of the chat: ${showChoices.join(', ')}`, run: show, choices: () => showChoices },
  { names: ['/tokens'], operand: '', does: 'Show how many tokens the last answer took, and how full the context is', run: (chat) => chat.input.say(chat.statistics.tokens(chat.input.columns)) },
  { names: ['/stats'], operand: '', does: 'Show the speed and the settings of the last answer', run: (chat) => chat.input.say(chat.statistics.stats(chat.template, chat.settings, chat.input.columns)) },
];

/** Runs a line that begins with a slash. Throws `invalid_usage` with the nearest name. */
export async function runCommand(chat: Dialogue, line: string): Promise<void> {
  const [, name, operand] = /^(\/\S*)\s*([^]*)$/.exec(line)!;
  const command = find(name!);
  if (!command) {
    const near = nearest(name!, commands.flatMap(({ names }) => names));
    throw misuse(`There is no command ${name!}.${near === undefined ? '' : ` Did you mean ${near}?`} /help lists all; to send a message that begins with a slash, type two slashes.`);
  }
  if (operand!.trim() !== '' && command.operand === '') throw misuse(`${name!} takes nothing after it, got ${JSON.stringify(operand!.trim())}.`);
  await command.run(chat, operand!.trim());
}

/** Completions of a half-typed command. */
export async function complete(chat: Dialogue, text: string): Promise<readonly string[]> {
  const [, name, gap, operand] = /^(\/\S*)(\s*)(.*)$/.exec(text) ?? [];
  if (name === undefined) return [];
  if (gap === '') return commands.flatMap(({ names }) => names).filter((one) => one.startsWith(name)).map((one) => (find(one)!.operand === '' ? one : `${one} `));
  return ((await find(name)?.choices?.(chat, operand!)) ?? []).filter((one) => one.startsWith(operand!)).map((one) => `${name} ${one}`);
}

function find(name: string): InChatCommand | undefined {
  return commands.find(({ names }) => names.includes(name));
}

/** Each command, and what it does. */
export const commandRows = commands.map(({ names, operand, does }): [string, string] => [`${names.join(', ')}${operand === '' ? '' : ` ${operand}`}`, does]);

/** How to type a message. */
export const typingHelp = [
  'Alt-Enter, or a backslash at the end of a line, starts a new line; """ opens and closes several lines.',
  'Ctrl-X Ctrl-E opens the message in your editor (VISUAL or EDITOR).',
  'Ctrl-C stops an answer and clears a message; Ctrl-R searches earlier messages; Ctrl-D leaves.',
  'To send a message that begins with a slash, type two slashes.',
] as const;

function help(columns: number): string {
  return [table(commandRows, columns), '', ...typingHelp].join('\n');
}

function firstLine(text: string): string {
  const [line] = text.split('\n', 1);
  return line!.length < text.length || line!.length > 60 ? `${line!.slice(0, 60)}…` : line!;
}
