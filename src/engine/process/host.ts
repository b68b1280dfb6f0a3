// The engine process: messages in, one message of events per step out. The entry (main.ts) passes
// the addon, so that tests run the same process with a fake. Never writes to stdout; logs are
// messages, too.
import { Socket } from 'node:net';
import { RecuaError } from '../../errors.js';
import { Channel, channelDescriptor, type ChannelEvents } from '../channel.js';
import { deliver } from './delivery.js';
import { EngineLoop } from '../loop/engine-loop.js';
import { load, type Loading } from './load.js';
import { listenToNative } from './native-log.js';
import { skippedText, wantsGpu } from '../offload.js';
import type { OpenedNative } from './own-native.js';
import { isOverwritten } from '../../models/gguf/byte-source.js';
import type { CheckedFile } from '../../models/gguf/model-file.js';
import { ownInstallation } from '../../system/installation.js';
import { logLevels, type EngineOptions, type FromEngine, type LogLevel, type Pulse, type ToEngine } from '../protocol.js';

/** Progress is sent when the whole percent changes. */
const progressSteps = 100;

/** Before the load begins. */
const idle: Pulse = { compute: { busy: false, done: 0 }, pool: { busy: false, done: 0 } };

/** The channel to the gateway, which started this process. */
export function connect(events: ChannelEvents): Pick<Channel, 'send'> {
  return new Channel(new Socket({ fd: channelDescriptor }), events);
}

/** `connectBy`: tests pass one that changes the messages. */
export function runHost(openNative: (options: EngineOptions) => OpenedNative | Promise<OpenedNative>, connectBy = connect): void {
  let engine: EngineLoop | undefined;
  let loading: Loading | undefined;
  let closing = false;
  /** Whether its conversations outlive the gateway. */
  let lasts = false;
  /** Files whose bytes the model still reads. */
  let mapped: readonly CheckedFile[] = [];

  const send = (message: FromEngine): void => channel.send(message);
  let least = 0;
  const log = (level: LogLevel, text: string): void => {
    if (logLevels.indexOf(level) >= least) send({ type: 'log', level, text });
  };

  /** Exits after all messages have left: a pipe may still hold the last events. */
  const exit = (message: FromEngine, code: number): void => channel.send(message, () => process.exit(code));

  const fail = (error: unknown): void => exit({ type: 'failed', error: RecuaError.from(error).toPlain() }, 1);

  const start = async (options: EngineOptions): Promise<void> => {
    lasts = options.sleep?.lasts ?? false;
    const { addon, backends = [] } = await openNative(options);
    listenToNative(addon, log);
    log('debug', `sandbox: ${process.env['RECUA_CONFINED'] ?? 'none'}`);
    if (wantsGpu(options)) for (const one of backends) if (!one.loaded) log('warn', skippedText(one));
    let step = -1;
    const opening = load(addon, options, (fraction) => {
      const next = Math.floor(fraction * progressSteps);
      if (next > step) send({ type: 'progress', fraction });
      step = Math.max(step, next);
    }, backends);
    loading = opening;
    if (closing) opening.cancel();
    const loaded = await opening.promise;
    loading = undefined;
    if (loaded.options.mmap) mapped = loaded.files;
    engine = new EngineLoop(addon, loaded, {
      emit: (events, status, generated) => send({ type: 'events', events, status, generated }),
      log,
    });
    engine.ended.catch((error: unknown) => {
      log('error', `the engine's loop broke: ${(error as Error).stack ?? String(error)}`);
      exit({ type: 'log', level: 'error', text: 'the engine process ends' }, 1);
    });
    if (closing) return await close();
    send({ type: 'ready', model: loaded.description });
  };

  const close = async (sleeps = false): Promise<void> => {
    closing = true;
    loading?.cancel();
    if (loading) return;
    await engine?.close(sleeps);
    exit({ type: 'log', level: 'debug', text: 'the engine process ends' }, 0);
  };

  let receive = (m: ToEngine): void => {
    if (m.type === 'load') {
      least = logLevels.indexOf(m.logLevel);
      const { version } = ownInstallation();
      if (m.version !== version) {
        return fail(new RecuaError('model_unusable', `Recua ${version} was installed while ${m.version} runs, which cannot load models any more. Restart the server or the program; recua chat --continue goes on with a chat.`));
      }
      start(m.options).catch((error: unknown) => (closing ? process.exit(0) : fail(error)));
    } else if (m.type === 'close') void close(m.sleeps);
    else if (m.type === 'look') send({ type: 'pulse', pulse: engine?.vitals.look() ?? loading?.look() ?? idle });
    else if (!engine) {
      const error = new RecuaError('model_loading', 'The model is still loading.').toPlain();
      if (m.type !== 'cancel' && m.type !== 'endThinking') send({ type: 'events', events: [{ id: m.id, kind: 'error', error }], status: { running: 0, waiting: 0, tokens: 0 } });
    } else if (m.type === 'cancel') engine.cancel(m.id);
    else if (m.type === 'endThinking') engine.endThinking(m.id);
    else if (mapped.some(({ path, mark }) => isOverwritten(path, mark))) leave();
    else deliver(engine, m);
  };

  /** The weights are other ones than the model was made for. The next process loads the file. */
  const leave = (): void => {
    receive = () => {};
    exit({ type: 'log', level: 'warn', text: 'the file of the model was overwritten; it is loaded again' }, 1);
  };
  const channel = connectBy({
    message: (message) => receive(message as ToEngine),
    // Nobody is left to answer. exit() would wait for the native step; the kernel frees everything.
    closed: () => process.kill(process.pid, 'SIGKILL'),
  });
  // Ctrl-C and the end of the terminal reach the whole group; the parent decides when the engine
  // stops.
  for (const name of ['SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const) process.on(name, () => {});
  // A service manager may send this to all processes of the server.
  process.on('SIGTERM', () => void close(lasts));
}
