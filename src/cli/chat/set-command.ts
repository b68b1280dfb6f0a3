// /set and /show, as Ollama's users type them.
import { misuse } from '../flags/flags.js';
import type { Constraint } from '../../engine/protocol.js';
import { nearest } from '../../models/names/nearest.js';
import { shellWord } from '../../models/names/shell-word.js';
import type { Dialogue } from './dialogue.js';
import { findParameter, parameters, valueText, withParameter } from './parameters.js';
import { table } from './sessions/statistics.js';

const mostStops = 16;
const longestStop = 1_000;
const anyObject = { kind: 'schema', schema: '{"type":"object"}', strict: false, param: 'format' } as const;

interface Thing {
  name: string;
  /** Its argument, as help shows it. */
  operand: string;
  does: string;
  set(chat: Dialogue, operand: string): Promise<void> | void;
}

const things: readonly Thing[] = [
  { name: 'parameter', operand: '<name> <value>', does: 'Set a sampling parameter; alone it lists them', set: setParameter },
  { name: 'system', operand: '"<text>"', does: 'Set the system prompt, as /system does', set: setSystem },
  { name: 'format', operand: 'json', does: 'Make every answer a JSON object', set: setFormat },
  { name: 'noformat', operand: '', does: 'Allow any answer again', set: (chat) => freeFormat(chat) },
  { name: 'verbose', operand: '', does: 'Show the speed of each answer', set: (chat) => speeds(chat, true) },
  { name: 'quiet', operand: '', does: 'Do not show it', set: (chat) => speeds(chat, false) },
  { name: 'think', operand: '', does: 'Let the model think before it answers, if it can', set: (chat) => thinks(chat, true) },
  { name: 'nothink', operand: '', does: 'Let it answer at once', set: (chat) => thinks(chat, false) },
  { name: 'history', operand: '', does: 'Keep what you type for the Up key', set: (chat) => keeps(chat, true) },
  { name: 'nohistory', operand: '', does: 'Do not keep it', set: (chat) => keeps(chat, false) },
  {
    name: 'wordwrap', operand: '', does: 'No effect: lines are always wrapped between words',
    set: (chat) => chat.input.say('On a terminal, lines are always wrapped between words; recua chat --raw leaves them as they are.'),
  },
  { name: 'nowordwrap', operand: '', does: 'Not possible in a running chat: leave it, then recua chat --continue --raw', set: () => { throw misuse('A running chat cannot turn off wrapping. Leave it and continue it with: recua chat --continue --raw'); } },
];

export async function set(chat: Dialogue, operand: string): Promise<void> {
  if (operand === '') return list(chat);
  const [, name = '', rest = ''] = /^(\S+)\s*([^]*)$/.exec(operand)!;
  const thing = things.find((one) => one.name === name);
  if (!thing && (name === 'stop' || parameters.some((one) => one.name === name || one.others.includes(name)))) return await setParameter(chat, operand);
  if (!thing) {
    const known = things.map((one) => one.name);
    const near = nearest(name, [...known, 'stop', ...parameters.flatMap((one) => [one.name, ...one.others])]);
    const meant = near === undefined ? '' : ` Did you mean /set ${near}?`;
    throw misuse(`There is nothing called ${JSON.stringify(name)} to set.${meant} There are ${known.join(', ')}, and parameters such as temperature.`);
  }
  if (thing.operand === '' && rest !== '') throw misuse(`/set ${name} takes nothing after it, got ${JSON.stringify(rest)}.`);
  await thing.set(chat, rest);
}

/** Completions of the argument of /set. */
export function setChoices(operand: string): string[] {
  if (operand.startsWith('parameter ')) return ['stop', ...parameters.map(({ name }) => name)].map((name) => `parameter ${name} `);
  return things.map(({ name, operand: more }) => (name === 'format' ? 'format json' : more === '' ? name : `${name} `));
}

export const showChoices = ['info', 'parameters', 'system', 'template'] as const;

export function show(chat: Dialogue, operand: string): void {
  const { input, conversation, models } = chat;
  const { id, description, contextSize, url } = models.current;
  switch (operand) {
    case '': return input.say(`/show ${showChoices.join(', /show ')}`);
    case 'info':
    case 'model': return input.say(table([['Model', id], ['What it is', description], ['Context', `${contextSize} tokens`], ['Runs', url === undefined ? 'in this chat, without a server' : `on the server at ${url}`]], input.columns));
    case 'parameters': return listParameters(chat);
    case 'system': return input.say(conversation.system === '' ? 'There is no system prompt.' : conversation.system);
    case 'template': return input.say(`The template is ${chat.template}${chat.template === 'auto' ? ', the model\'s own' : ''}.`);
    default: throw misuse(`Expected one of ${showChoices.join(', ')} after /show, got ${JSON.stringify(operand)}. For everything about a model: recua show ${shellWord(id)}`);
  }
}

/** What /set can set, and what each does. */
export const setRows = things.map(({ name, operand, does }): [string, string] => [`/set ${name}${operand === '' ? '' : ` ${operand}`}`, does]);

function list(chat: Dialogue): void {
  const { input, settings } = chat;
  const isSet = parameters.filter((one) => !one.isMore || settings.more?.[one.key as keyof typeof settings.more] !== undefined);
  const now = isSet.map((one) => `${one.name} ${valueText(settings, one)}`);
  input.say(`${table(setRows, input.columns)}\n\nNow: ${[...now, ...stopsOf(chat)].join(', ')}; format ${formatOf(chat.constraint)}, `
    + `${chat.verbose ? 'verbose' : 'quiet'}, ${chat.thinks ? 'think' : 'nothink'}, ${input.keepsHistory ? 'history' : 'nohistory'}.`);
}

function formatOf(constraint: Constraint): string {
  if (constraint === anyObject) return 'json';
  return { none: 'free', grammar: 'a grammar', schema: 'a JSON schema' }[constraint.kind];
}

function stopsOf({ settings }: Dialogue): string[] {
  return settings.stop ? [`stop ${settings.stop.map((text) => JSON.stringify(text)).join(' ')}`] : [];
}

function listParameters(chat: Dialogue): void {
  const rows = parameters.map((one): [string, string] => [one.name, valueText(chat.settings, one)]);
  chat.input.say(table([...rows, ['stop', stopsOf(chat)[0]?.slice('stop '.length) ?? 'none of your own']], chat.input.columns));
}

async function setParameter(chat: Dialogue, operand: string): Promise<void> {
  if (operand === '') return listParameters(chat);
  const [, name = '', value = ''] = /^(\S+)\s*([^]*)$/.exec(operand)!;
  if (name === 'stop') return await setStops(chat, value);
  const parameter = findParameter(name);
  if (value === '') return chat.input.say(`${parameter.name} is ${valueText(chat.settings, parameter)}.`);
  chat.settings = withParameter(chat.settings, parameter, unquoted(value));
  await saved(chat);
  chat.input.say(`${parameter.name} is ${valueText(chat.settings, parameter)} now.`);
}

/** Each stop text is a word, or a quoted JSON string: `"\n\n"`. */
async function setStops(chat: Dialogue, value: string): Promise<void> {
  const words = [...value.matchAll(/"(?:\\.|[^"\\])*"|\S+/g)].map(([word]) => word);
  const texts = words.map((word) => (word.startsWith('"') ? readQuoted(word) : word));
  if (texts.length > mostStops || texts.some((text) => text === '' || text.length > longestStop)) {
    throw misuse(`Expected at most ${mostStops} texts of 1 to ${longestStop} letters after stop, got ${JSON.stringify(value.slice(0, 60))}.`);
  }
  const { stop, ...settings } = chat.settings;
  chat.settings = texts.length === 0 ? settings : { ...settings, stop: texts };
  await saved(chat);
  chat.input.say(texts.length === 0 ? `No stop text is set${stop ? ' any more' : ''}.` : `An answer ends before ${texts.map((text) => JSON.stringify(text)).join(' or ')} now.`);
}

function readQuoted(word: string): string {
  try {
    return JSON.parse(word) as string;
  } catch {
    throw misuse(`Expected a text in quotes, got ${word}. Put a backslash before a quote or a backslash in it.`);
  }
}

async function setSystem(chat: Dialogue, operand: string): Promise<void> {
  if (operand === '') throw misuse('Expected the system prompt: /set system "<text>". /system - removes it.');
  chat.conversation.system = unquoted(operand);
  await saved(chat);
  chat.input.say('The system prompt is set.');
}

function setFormat(chat: Dialogue, operand: string): void {
  if (operand !== 'json') throw misuse(`Expected /set format json, got ${JSON.stringify(operand)}. /set noformat turns it off.`);
  chat.constraint = anyObject;
  chat.input.say('Every answer is a JSON object now. Say in the message what it should contain.');
}

function freeFormat(chat: Dialogue): void {
  chat.constraint = chat.firstConstraint;
  chat.input.say(chat.constraint.kind === 'none' ? 'Any answer is allowed now.' : `The ${chat.constraint.kind === 'grammar' ? 'grammar' : 'JSON schema'} of the command line applies to answers.`);
}

function speeds(chat: Dialogue, on: boolean): void {
  chat.verbose = on;
  chat.input.say(on ? 'The speed is shown after each answer now.' : 'The speed is no longer shown.');
}

function thinks(chat: Dialogue, on: boolean): void {
  chat.thinks = on;
  chat.input.say(on ? 'The model thinks before it answers, if it can.' : 'The model does not think before it answers, if its template supports that.');
}

function keeps({ input, keeper }: Dialogue, on: boolean): void {
  input.keepsHistory = on;
  if (!on) return input.say('What you type from now on is not kept.');
  input.say(keeper.automatic ? 'What you type is kept for the Up key, in later chats too.' : 'What you type is kept for the Up key until the chat ends, because of --no-save.');
}

async function saved(chat: Dialogue): Promise<void> {
  if (chat.conversation.exchanges.length > 0) await chat.save();
}

function unquoted(text: string): string {
  return /^("""|"|')([^]*)\1$/.exec(text)?.[2] ?? text;
}
