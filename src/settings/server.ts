// The server's own settings: flags of `recua api` and `recua serve start`. Those marked `library`
// are options of createServer() too.
import { answerSettings } from './answer.js';
import { sharingSettings } from './engine.js';
import { maxCount, secondMs, type KeysWith, type Setting, type Settings } from './kinds.js';

const mebibyte = 1024 * 1024;
const { maxTokens, temperature } = answerSettings;

/** How a server of several models loads and unloads them. */
export const poolSettings = {
  /**
   * How long a model stays loaded after its last request; below 0 means forever. Default 600,000:
   * ten minutes.
   */
  keepAliveMs: {
    kind: 'integer', fallback: 600 * secondMs, min: -secondMs, max: 31_536_000 * secondMs,
    flag: {
      names: ['--keep-alive'], value: 'seconds', key: 'keepAliveSeconds', unit: secondMs,
      help: 'Unload a model this long after its last request; 0 means at once, -1 never. A server '
        + 'started with one model keeps it loaded if this, --max-models and --max-memory are not '
        + 'changed',
    },
  },
  /** Maximum models loaded at once. Default 0: as many as memory holds. */
  maxModels: {
    kind: 'integer', fallback: 0, min: 0, max: 1024,
    flag: {
      names: ['--max-models'],
      help: 'With several models: load at most this many at once; 0 means as many as memory holds',
    },
  },
  /**
   * Memory that loaded models may take together. Default 0: what the machine has free, except a
   * tenth of it or 512 MiB, whichever is more. A model that does not fit is refused by an estimate,
   * which leaves out its engine process: about 100 MB for each loaded model.
   */
  maxMemoryBytes: {
    kind: 'integer', fallback: 0, min: 0, max: 2 ** 30 * mebibyte,
    flag: {
      names: ['--max-memory'], value: 'MiB', key: 'maxMemoryMib', unit: mebibyte,
      help: 'With several models: use at most this much memory for all of them; 0 means the '
        + 'free memory, less a tenth of it or 512 MiB, whichever is more',
    },
  },
  /**
   * Disk space for the conversations of unloaded models, in bytes. They continue where they stopped
   * when their model is loaded again. 0 keeps none; below 0, the default, means a tenth of the free
   * space, at most 8 GiB.
   */
  sleepCacheBytes: {
    kind: 'integer', fallback: -mebibyte, min: -mebibyte, max: 2 ** 24 * mebibyte,
    flag: {
      names: ['--sleep-cache'], value: 'MiB', key: 'sleepCacheMib', unit: mebibyte,
      help: 'With several models: keep conversations of unloaded models in this much disk space, '
        + 'to continue them later; 0 keeps none, -1 means a tenth of the free space, at most 8 GiB',
    },
  },
  /**
   * Disk space, in bytes, for conversations that outlive the program: one that opens their models
   * later continues them. It takes the place of `sleepCacheBytes`. Default 0: none outlive it.
   */
  cacheDiskBytes: {
    kind: 'integer', fallback: 0, min: 0, max: 2 ** 24 * mebibyte,
    flag: {
      names: ['--cache-disk'], value: 'MiB', key: 'cacheDiskMib', unit: mebibyte,
      help: 'Keep conversations on disk across restarts, in at most this much space, so that their next '
        + 'turn reads nothing twice; replaces --sleep-cache; 0 keeps none',
    },
  },
} as const satisfies Settings;

/** In the order of help. */
export const serverSettings = {
  /** The name of a model, or the path of its file. */
  model: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--model', '-m'], value: 'model',
      help: 'Serve this model; the same as naming it as the first argument',
    },
  },
  port: {
    kind: 'integer', fallback: 8080, min: 0, max: 65_535,
    flag: { names: ['--port', '-p'], help: 'Listen on this port; 0 picks a free one' },
  },
  host: {
    kind: 'text', fallback: '127.0.0.1',
    flag: {
      names: ['--host', '-h'], value: 'address',
      help: 'Listen on this address, or on a Unix socket such as unix:/run/recua.sock',
    },
  },
  /** File mode of a `--host` socket, which decides who may open it. */
  socketMode: {
    kind: 'choice', fallback: '600', choices: ['600', '660', '666'],
    flag: {
      names: ['--socket-mode'],
      help: 'Set the file mode of a --host socket: 600 for its user, 660 for its group too, 666 '
        + 'for everyone',
    },
  },
  /** Certificate and key, each in PEM; both or neither. Reloaded when they change. */
  tlsCert: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--tls-cert'], value: 'file',
      help: 'Serve HTTPS with this PEM certificate, followed by the certificates that signed it; '
        + 'reloaded when the file changes',
    },
  },
  tlsKey: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--tls-key'], value: 'file',
      help: 'Use this private key for --tls-cert, in PEM and unencrypted',
    },
  },
  /** Maximum tokens of an answer whose request sets no limit. Default 2048. */
  maxTokens: {
    ...maxTokens, library: true,
    flag: { ...maxTokens.flag, help: 'Generate at most this many tokens if the request sets no limit' },
  },
  /** Temperature of requests that set none. Default 0.7. */
  temperature: {
    ...temperature, library: true,
    flag: {
      ...temperature.flag, help: 'Sample at this temperature if the request sets none',
    },
  },
  /** The name that clients see instead of the model's own, which still finds the model. */
  alias: {
    kind: 'text', fallback: '', library: true,
    flag: {
      names: ['--alias', '-a'], value: 'name',
      help: 'Show the model to clients under this name instead of its file\'s',
    },
  },
  ...sharingSettings,
  drainMs: {
    kind: 'integer', fallback: 10 * secondMs, min: 0, max: 86_400 * secondMs,
    flag: {
      names: ['--drain-timeout'], value: 'seconds', key: 'drainSeconds', unit: secondMs,
      help: 'Wait this long for answers, uploads and downloads when stopping',
    },
  },
  /**
      * The key that requests must carry (`Authorization: Bearer …`, `x-api-key` or `api-key`), or
   * several, comma-separated; an empty text is an error. Default: none is required.
   */
  apiKey: {
    kind: 'text', fallback: '', library: true,
    flag: {
      names: ['--api-key'], value: 'key', secret: true,
      help: 'Require this key in requests, or one of several, comma-separated; the variable or '
        + '--api-key-file keeps it out of the process list',
    },
  },
  /** More keys: one per line, or JSON as in docs/security.md. */
  apiKeyFile: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--api-key-file'], value: 'file', file: true,
      help: 'Read API keys from this file: one per line, or JSON that gives each a name and '
        + 'rights',
    },
  },
  /** Web pages that may use the server: origins, comma-separated. Default `'*'`: any page. */
  corsOrigins: {
    kind: 'text', fallback: '*', library: true,
    flag: {
      names: ['--cors-origins'], value: 'origins',
      help: 'Allow web pages from these origins, comma-separated, such as '
        + 'https://chat.example.com; * allows any',
    },
  },
  /**
   * Names by which requests may address the server (`Host`), comma-separated, besides its
   * addresses, `localhost` and the machine's name. Default `'*'`: any name.
   */
  allowedHosts: {
    kind: 'text', fallback: '*', library: true,
    flag: {
      names: ['--allowed-hosts'], value: 'names',
      help: 'Accept requests that address the server by these names, comma-separated, besides its '
        + 'addresses, localhost and the machine\'s name; .example.com accepts all subdomains, * any '
        + 'name',
    },
  },
  /** Maximum size of a request body, in bytes. Default 32 MiB. */
  bodyLimitBytes: {
    kind: 'integer', fallback: 32 * mebibyte, min: 1, max: 1024 * mebibyte, library: true,
    flag: {
      names: ['--body-limit'], value: 'MiB', key: 'bodyLimitMib', unit: mebibyte, min: 1,
      help: 'Refuse request bodies larger than this',
    },
  },
  /**
   * Memory for all request bodies together, in bytes. A body counts as four times its size, because
   * its text is held twice, as 16-bit characters; requests beyond the limit get a 503. Replies that
   * clients have not read yet may take as much again.
   * Default 0: a quarter of V8's heap limit, at most an eighth of the machine's memory.
   */
  bodyMemoryBytes: {
    kind: 'integer', fallback: 0, min: 0, max: 1_048_576 * mebibyte, library: true,
    flag: {
      names: ['--body-memory'], value: 'MiB', key: 'bodyMemoryMib', unit: mebibyte,
      help: 'Hold request bodies in at most this much memory; a body counts as four times its '
        + 'size, because its text is held twice, as 16-bit characters; one client may have half of '
        + 'it besides its largest body; 0 means a quarter of V8\'s heap limit, at most an eighth of '
        + 'the machine\'s memory',
    },
  },
  /** Folder for `POST /slots/:id?action=save`. Default: none, which disables the route. */
  slotSavePath: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--slot-save-path'], value: 'folder',
      help: 'Let POST /slots/0?action=save write a conversation\'s KV cache to this folder',
    },
  },
  /**
   * Days that responses of `/v1/responses` stay on disk, so that a later request can continue them;
   * 0 keeps none. Those of `createServer` are removed by its `close()`, or when the program ends.
   * If a signal ends the program, the next one of the same user that stores responses removes
   * them. Default 30.
   */
  responseDays: {
    kind: 'integer', fallback: 30, min: 0, max: 36_500, library: true,
    flag: {
      names: ['--response-days'], value: 'days',
      help: 'Keep responses of /v1/responses on disk this long, for previous_response_id; 0 keeps '
        + 'none',
    },
  },
  /**
   * Milliseconds of silence on an event stream after which the server sends an empty chunk, so that
   * clients keep the stream open; 0 is off. Default 10,000.
   */
  pingIntervalMs: {
    kind: 'integer', fallback: 10 * secondMs, min: 0, max: maxCount, library: true,
    flag: {
      names: ['--ping-interval'], value: 'seconds', key: 'pingSeconds', unit: secondMs, max: 86_400,
      help: 'Send an empty chunk on a stream that was silent this long, so that clients keep it '
        + 'open; 0 means off',
    },
  },
  /** Whether to serve the web page at `/`. Default `false`: then `/` only says that Recua runs. */
  ui: {
    kind: 'switch', fallback: true, library: true,
    flag: { names: ['--no-ui'], help: 'Serve only the API, without the page at /' },
  },
  /** Whether the page shows the chats that `recua chat` saves. */
  uiSessions: {
    kind: 'switch', fallback: false,
    flag: {
      names: ['--ui-sessions'],
      help: 'Let the page show the chats that recua chat saved, and move its own there if the user '
        + 'says so; for clients on this machine or with an admin key',
    },
  },
  /** A file with the models to serve. */
  models: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--models'], value: 'file', inline: true,
      help: 'Serve the models of this JSON file, each with its settings; with arguments, only '
        + 'those named. The config file may have "models" instead: these models then have the '
        + 'settings given there, and without arguments the rest of the store is served, too',
    },
  },
  ...poolSettings,
  logLevel: {
    kind: 'choice', fallback: 'info', choices: ['debug', 'info', 'warn', 'error', 'silent'],
    flag: { names: ['--log-level'], help: 'Log messages of this level and above' },
  },
  /** Text lines for people, or JSON objects for programs that collect logs. */
  logFormat: {
    kind: 'choice', fallback: 'text', choices: ['text', 'json'],
    flag: {
      names: ['--log-format'],
      help: 'Write log lines as text, or as JSON objects with fields for each request',
    },
  },
  logFile: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--log-file'], value: 'file',
      help: 'Log to this file, a new one or an earlier log, instead of stderr (serve: instead of the one in the state folder), rotated into up to 5 files of 10 MiB',
    },
  },
  /** The collector for OpenTelemetry spans. Default: `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  traces: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--traces'], value: 'url',
      help: 'Send a trace of each request to this OTLP/HTTP collector, such as '
        + 'http://127.0.0.1:4318; needs the OpenTelemetry SDK, see docs/watching.md',
    },
  },
} as const satisfies Settings;

/** The settings that a program can give when it mounts the HTTP API: options of createServer(). */
export const appSettings = Object.fromEntries(
  Object.entries<Setting>(serverSettings).filter(([, { library }]) => library),
) as unknown as Pick<typeof serverSettings, KeysWith<typeof serverSettings, { library: true }>>;
