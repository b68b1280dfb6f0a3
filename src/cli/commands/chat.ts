// `recua chat <model>`: a conversation on the terminal, saved after each turn; or a single turn,
// with -p or from stdin.
import { existsSync } from 'node:fs';
import { engineSettings } from '../../settings/engine.js';
import { RecuaError } from '../../errors.js';
import { templateNames } from '../../models/chat-templates.js';
import { findPlaces } from '../../models/places.js';
import type { Places } from '../../models/places.js';
import type { Answerer } from '../answering/answerer.js';
import { asksForOwnEngine, localFlag, sayServer } from '../answering/open.js';
import { answerFlags, chatDefaults, makeRequest, readConstraint } from '../flags/answer-flags.js';
import type { AnswerValues, AnswerSettings } from '../flags/answer-flags.js';
import { command } from '../command.js';
import { ChatModels } from '../chat/chat-models.js';
import { chooseModel } from '../chat/model-choice.js';
import { inLines } from '../chat/word-wrap.js';
import { SavedConversation } from '../chat/sessions/conversation.js';
import type { DialogueParts } from '../chat/dialogue.js';
import { anyModel } from '../chat/sessions/session.js';
import type { Session } from '../chat/sessions/session.js';
import { SessionKeeper } from '../chat/sessions/session-keeper.js';
import { findSession, listSessions, loadSession, nameOf } from '../chat/sessions/session-store.js';
import { deviceListing, listDevices } from '../devices.js';
import { engineConfig, engineFlags } from '../flags/engine-flags.js';
import { choice, misuse, off, on, perCall, quote, text } from '../flags/flags.js';
import { settingFlag } from '../flags/setting-flags.js';
import { loadRendering } from '../markdown/rendering.js';
import { plainLine, type LogLevel } from '../terminal/log-line.js';
import { HeldErrors, say } from '../terminal/output.js';
import { screenOf } from '../markdown/screen.js';
import { watchSignals } from '../terminal/signals.js';
import { answerOnce, textRoom, printJson, readPrompt, sayEnd } from '../single-turn.js';

const families = choice(['--template', '-t'], 'Use the chat template of this model family; auto means the model\'s own', templateNames);

/** With other commands, -t is the number of threads. */
const templateFlag: typeof families = {
  ...families,
  read(given) {
    if (/^\d+$/.test(given.trim())) throw misuse(`Expected one of ${templateNames.join(', ')} for --template, -t, got ${quote(given)}. For a number of threads: --threads ${given.trim()}`);
    return families.read(given);
  },
};

export const chat = command({
  name: 'chat',
  aliases: [],
  operands: '[model]',
  summary: 'Chat with a model on the terminal',
  details: [
    'Without <model>, it uses the model of the newest saved chat, else the only one in the store. If there are several, a terminal shows a list.',
    'If one of your running servers has the model loaded, that server answers. A running server also answers if only it knows the name that you give, from its --alias or its models file. The model is loaded here instead with --local or --template, or if a flag, a variable or the config file sets how to load it (such as -c, -ngl or --threads).',
    'Each turn is saved when it ends; /help lists the commands inside a chat. With -p, or if stdin is not a terminal, it answers once and exits.',
    'Such a single turn is saved only with --resume or --continue, which also determine the model if you name none.',
  ].join('\n'),
  examples: [
    ['recua chat builtin', 'Start a chat'],
    ['recua chat builtin -s "Answer in one sentence." --temp 0', 'Use a system prompt, and always the likeliest token'],
    ['recua chat --continue', 'Continue the newest saved chat'],
    ['recua chat builtin -p "Hello" --json', 'Run one turn, and print usage and timings too'],
  ],
  often: ['system', 'continue', 'resume', 'prompt', 'temperature', 'maxTokens', 'contextSize', 'gpuLayers', 'json', 'raw', 'quiet'],
  flags: {
    ...answerFlags(chatDefaults),
    template: templateFlag,
    prompt: perCall(text(['--prompt', '-p'], 'text', 'Answer this prompt and exit; text from stdin is appended after a blank line')),
    save: off(['--no-save'], 'Save neither the chat nor the input history'),
    resume: perCall(text(['--resume'], 'session', 'Continue a saved chat, given by its name or the path of its file')),
    continue: perCall(on(['--continue'], 'Continue the newest saved chat')),
    ...localFlag,
    ...engineFlags,
    ...deviceListing,
    // Different from the other commands: -t is the template, and the context is as large as
    // possible.
    threads: settingFlag(engineSettings.threads, { names: ['--threads'] }),
    contextSize: settingFlag(engineSettings.contextSize, {
      names: ['--context-size', '-c', '--ctx-size'], fallback: 0,
      help: 'Give the conversation a context of this many tokens; 0 means the model\'s training size; by default as much of that as memory allows',
    }),
  },
  async run({ values, operands, given }) {
    if (values.listDevices) return await listDevices(values.json);
    const single = values.prompt !== '' || !process.stdin.isTTY;
    if (values.json && !single) throw misuse('Expected a prompt for --json, with -p <text> or on stdin: a conversation is not a JSON object.');
    if (values.json && values.raw) throw misuse('Expected --raw or --json, got both.');
    if (values.resume !== '' && values.continue) throw misuse('Expected --resume or --continue, got both.');
    if (operands.length > 1) throw misuse(`Expected one model, got also ${operands.slice(1).join(' ')}. Put a prompt of several words in quotes after -p.`);
    if (values.template !== 'auto' && values.chatTemplateFile !== '') throw misuse('Expected --template or --chat-template-file, got both.');
    const constraint = await readConstraint(values);
    const places = findPlaces();
    const path = await resumedPath(places, values);
    // Read once to learn the model, and again under the lock, when nobody else can change it.
    let session = path === undefined ? undefined : await loadSession(path);
    const saved = session?.model === anyModel ? undefined : session?.model;
    const name = operands[0] ?? saved ?? await chooseModel(places, !single, session !== undefined);
    // The engine's messages must not land in a half-typed message.
    const voice = { say };
    const held = new HeldErrors();
    const log = (level: LogLevel, line: string) => {
      if (level === 'error' && single) held.log(level, line);
      else if (level === 'error' || (level === 'warn' && !values.quiet)) voice.say(plainLine(level, line));
    };
    const saves = values.save && (!single || path !== undefined);
    const models = new ChatModels({
      config: await engineConfig(values),
      choosesContext: !given.has('contextSize'),
      open: {
        own: asksForOwnEngine(values, given),
        quiet: values.quiet,
        chats: true,
        settings: { log, logLevel: held.logLevel, stateFolder: saves ? places.sessions : undefined },
      },
    });
    const stop = watchSignals();
    const model = await models.read(name, false, stop.signal, values.quiet);
    const prompt = single ? await readPrompt(values.prompt, textRoom(model.file, model.config.contextSize), stop.signal) : '';
    const keeper = new SessionKeeper(places.sessions, saves);
    try {
      if (path !== undefined) session = await keeper.open(path);
      // The command line counts first, then the saved chat.
      const merged = merge(values, given, session);
      const answerer = await models.open(model, merged.template !== 'auto', stop.signal);
      sayServer(answerer, values.quiet);
      if (!values.quiet) {
        const hasTemplate = model.file.hasChatTemplate || model.config.chatTemplate !== '';
        if (!hasTemplate && merged.template === 'auto') tell('Note: The model has no chat template, so ChatML is used; -t selects another.');
        if (model.context && answerer.url === undefined) tell(model.context.reason);
        if (saved !== undefined && saved !== model.name) tell(`The saved chat was with ${saved}; it continues with ${model.name}.`);
      }
      const parts: DialogueParts = {
        models,
        conversation: new SavedConversation(merged.system, session?.exchanges ?? []),
        settings: merged.settings,
        template: merged.template,
        constraint,
        keeper,
        look: { styles: false, terminal: false, columns: () => Infinity },
        createdAt: session?.createdAt ?? new Date().toISOString(),
        others: session?.others,
      };
      if (!single && !values.raw) void loadRendering().catch(() => undefined);
      if (single) return await answerSingle(parts, prompt, values, stop.signal);
      stop.release();
      if (!values.quiet) greet(answerer, session && path !== undefined ? nameOf(path) : undefined);
      const { chatOnTerminal: converse } = await import('../chat/interactive.js');
      return await converse(parts, { stateFolder: values.save ? places.state : undefined, resumed: path, voice, raw: values.raw });
    } catch (thrown) {
      held.tell(thrown);
      throw thrown;
    } finally {
      await models.close();
      held.tell();
      await keeper.release();
      stop.release();
    }
  },
});

async function resumedPath(
  places: Places,
  { resume, continue: newest }: { resume: string; continue: boolean },
): Promise<string | undefined> {
  if (resume !== '') return await findSession(places.sessions, resume);
  if (!newest) return undefined;
  const [first] = await listSessions(places.sessions);
  if (!first) throw new RecuaError('session_not_found', `There is no saved chat to continue in ${places.sessions}. Begin one: recua chat`);
  return first.path;
}

type ChatValues = AnswerValues & { template: Session['template'] };

function merge(values: ChatValues, given: ReadonlySet<string>, session: Session | undefined): Pick<Session, 'system' | 'template' | 'settings'> {
  const { maxTokens, temperature, topP, topK, minP, repeatPenalty, seed } = values;
  const asked: AnswerSettings = { maxTokens, temperature, topP, topK, minP, repeatPenalty, seed };
  const named = Object.entries(asked).filter(([key]) => !session || given.has(key));
  return {
    system: session && !given.has('system') ? session.system : values.system,
    template: session && !given.has('template') ? session.template : values.template,
    settings: { ...asked, ...session?.settings, ...Object.fromEntries(named) as Partial<AnswerSettings> },
  };
}

/** Prints a text above the conversation, wrapped to the terminal. */
function tell(text: string): void {
  say(process.stderr.isTTY ? inLines(text, screenOf(process.stderr).columns) : text);
}

function greet({ id, description, place }: Answerer, resumed: string | undefined): void {
  if (place !== undefined) tell(`${place}.`);
  tell(`${id}: ${description}. /help lists commands, Ctrl-D leaves.`);
  if (resumed !== undefined) tell(`Continuing ${resumed}.`);
}

/** One non-interactive turn: of a saved chat if one is named, else of an unsaved one. */
async function answerSingle(parts: DialogueParts, prompt: string, values: ChatValues, signal: AbortSignal): Promise<number> {
  const { keeper, conversation, constraint, settings, template } = parts;
  const answerer = parts.models.current;
  const { kv } = answerer;
  if (conversation.last && !conversation.last.reply) {
    const dropped = conversation.undo()!;
    if (!values.quiet) say(`The last message had no answer; this one replaces it: ${JSON.stringify(dropped.message.slice(0, 60))}`);
  }
  const session = (): Session => ({
    model: answerer.name,
    system: conversation.system,
    template,
    settings,
    createdAt: parts.createdAt,
    updatedAt: new Date().toISOString(),
    exchanges: conversation.exchanges,
    ...(parts.others ? { others: parts.others } : {}),
  });
  const { kvPath } = keeper;
  if (kv && kvPath !== undefined && existsSync(kvPath)) await kv.restore(kvPath).catch(() => undefined);
  conversation.ask(prompt, new Date().toISOString());
  await keeper.save(session());
  const given = await answerOnce(answerer, makeRequest(conversation.messages(), settings, constraint, template), values, signal);
  const { usage, timings, seed, finishReason: ended } = given.finish;
  conversation.reply({ text: given.text, reasoning: given.reasoning, ended, usage, timings, seed });
  await keeper.save(session());
  const { name, automatic } = keeper;
  if (kv && automatic && kvPath !== undefined) await kv.save(kvPath).catch((thrown: unknown) => say(`recua: ${RecuaError.from(thrown).message}`));
  if (values.json) await printJson(given, automatic && name !== undefined ? { session: name } : {});
  sayEnd(given, values.quiet, settings.maxTokens);
  return 0;
}
