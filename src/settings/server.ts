// The server's own settings: flags of `recua api` and `recua serve start`, and, where `library`
// says so, options of createServer().
import { answerSettings } from './answer.js';
import { sharingSettings } from './engine.js';
import { maxCount, secondMs, type KeysWith, type Setting, type Settings } from './kinds.js';

const mebibyte = 1024 * 1024;
const { maxTokens, temperature } = answerSettings;

/** How models of several come and go. */
export const poolSettings = {
  /**
   * How long a model stays loaded after its last request; below 0 for ever. Default 600,000: ten
   * minutes.
   */
  keepAliveMs: {
    kind: 'integer', fallback: 600 * secondMs, min: -secondMs, max: 31_536_000 * secondMs,
    flag: {
      names: ['--keep-alive'], value: 'seconds', key: 'keepAliveSeconds', unit: secondMs,
      help: 'With several models: how long one stays loaded after its last request; 0 is no longer, '
        + '-1 for ever',
    },
  },
  /** Most models that are loaded at once; 0, the default, is as many as memory holds. */
  maxModels: {
    kind: 'integer', fallback: 0, min: 0, max: 1024,
    flag: {
      names: ['--max-models'],
      help: 'With several models: most that are loaded at once; 0 is as many as memory holds',
    },
  },
  /** Memory that they may take together; 0, the default, is what the machine has free. */
  maxMemoryBytes: {
    kind: 'integer', fallback: 0, min: 0, max: 2 ** 30 * mebibyte,
    flag: {
      names: ['--max-memory'], value: 'MiB', key: 'maxMemoryMib', unit: mebibyte,
      help: 'With several models: memory that they may take together; 0 is what the machine has free',
    },
  },
  /**
   * Disk space for the conversations of models that are unloaded, in bytes, which go on where they
   * were when their model is back; 0 keeps none, below 0, the default, is a tenth of what is free,
   * at most 8 GiB.
   */
  sleepCacheBytes: {
    kind: 'integer', fallback: -mebibyte, min: -mebibyte, max: 2 ** 24 * mebibyte,
    flag: {
      names: ['--sleep-cache'], value: 'MiB', key: 'sleepCacheMib', unit: mebibyte,
      help: 'With several models: disk space for conversations whose model is unloaded, so that it '
        + 'goes on where it was; 0 keeps none, -1 is a tenth of what is free, at most 8 GiB',
    },
  },
  /**
   * Disk space for conversations that outlive the server, in bytes: it goes on where it was after a
   * restart. 0, the default, keeps none.
   */
  cacheDiskBytes: {
    kind: 'integer', fallback: 0, min: 0, max: 2 ** 24 * mebibyte,
    flag: {
      names: ['--cache-disk'], value: 'MiB', key: 'cacheDiskMib', unit: mebibyte,
      help: 'Disk space for conversations that outlive the server, so that their next turn reads '
        + 'nothing again after a restart; 0 keeps none',
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
      help: 'The model, instead of the first argument',
    },
  },
  port: {
    kind: 'integer', fallback: 8080, min: 0, max: 65_535,
    flag: { names: ['--port', '-p'], help: 'Port to listen on; 0 takes a free one' },
  },
  host: {
    kind: 'text', fallback: '127.0.0.1',
    flag: {
      names: ['--host', '-h'], value: 'address',
      help: 'Address to listen on, or a socket in the file system: unix:/run/recua.sock',
    },
  },
  /** Who may open a socket of `--host`, as the rights of its file. */
  socketMode: {
    kind: 'choice', fallback: '600', choices: ['600', '660', '666'],
    flag: {
      names: ['--socket-mode'],
      help: 'Rights of the socket of --host: 600 is for its user alone, 660 for its group, too',
    },
  },
  /** Certificate and key, each in PEM; both or none. Read again when they change. */
  tlsCert: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--tls-cert'], value: 'file',
      help: 'Speak HTTPS with this certificate, and those that it was signed by behind it, in PEM; '
        + 'read again when the file changes',
    },
  },
  tlsKey: {
    kind: 'text', fallback: '',
    flag: { names: ['--tls-key'], value: 'file', help: 'Its private key, in PEM, not encrypted' },
  },
  /** Most tokens of an answer whose request sets no bound. Default 2048. */
  maxTokens: { ...maxTokens, library: true },
  /** Temperature of requests that name none. Default 0.7. */
  temperature: {
    ...temperature, library: true,
    flag: { ...temperature.flag, help: 'Temperature where a request names none', max: 2 },
  },
  /** The model's name for clients, instead of its own; that still finds it. */
  alias: {
    kind: 'text', fallback: '', library: true,
    flag: {
      names: ['--alias', '-a'], value: 'name',
      help: 'The model\'s name for clients instead of its file\'s',
    },
  },
  ...sharingSettings,
  drainMs: {
    kind: 'integer', fallback: 10 * secondMs, min: 0, max: 86_400 * secondMs,
    flag: {
      names: ['--drain-timeout'], value: 'seconds', key: 'drainSeconds', unit: secondMs,
      help: 'How long a stop waits for running answers',
    },
  },
  /**
   * The key that requests must carry (`Authorization: Bearer …` or `x-api-key`), or several with
   * commas between them. Default: none is asked for.
   */
  apiKey: {
    kind: 'text', fallback: '', library: true,
    flag: {
      names: ['--api-key'], value: 'key', secret: true,
      help: 'Key that requests must carry, or several with commas between them; a variable or '
        + '--api-key-file keeps it out of the list of processes',
    },
  },
  /** More keys: one in each line, or JSON as in docs/security.md. */
  apiKeyFile: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--api-key-file'], value: 'file', file: true,
      help: 'File with such keys: one in each line, or JSON that gives each a name and rights',
    },
  },
  /**
   * Web pages that may use the server: origins with commas between them. Default `'*'`, any page.
   */
  corsOrigins: {
    kind: 'text', fallback: '*', library: true,
    flag: {
      names: ['--cors-origins'], value: 'origins',
      help: 'Web pages that may use the server, such as https://chat.example.com; several with '
        + 'commas between them, * is any page',
    },
  },
  /**
   * Names that requests may call the server by (`Host`), with commas between them, beside its
   * addresses, `localhost` and the machine's name. Default `'*'`, any name.
   */
  allowedHosts: {
    kind: 'text', fallback: '*', library: true,
    flag: {
      names: ['--allowed-hosts'], value: 'names',
      help: 'Names that requests may call the server by, beside its addresses and localhost; '
        + 'several with commas between them, .example.com with all below it, * is any name',
    },
  },
  /** Largest request body in bytes. Default 32 MiB. */
  bodyLimitBytes: {
    kind: 'integer', fallback: 32 * mebibyte, min: 1, max: 1024 * mebibyte, library: true,
    flag: {
      names: ['--body-limit'], value: 'MiB', key: 'bodyLimitMib', unit: mebibyte, min: 1,
      help: 'Largest request body',
    },
  },
  /**
   * Memory for the bodies of all requests together, in bytes, 4 for each of theirs; more get a 503.
   * 0, the default, is a quarter of what V8 may use.
   */
  bodyMemoryBytes: {
    kind: 'integer', fallback: 0, min: 0, max: 1_048_576 * mebibyte, library: true,
    flag: {
      names: ['--body-memory'], value: 'MiB', key: 'bodyMemoryMib', unit: mebibyte,
      help: 'Memory for the bodies of all requests together, 4 bytes for each of theirs; 0 is a '
        + 'quarter of what V8 may use',
    },
  },
  /** Folder for `POST /slots/:id?action=save`. Default: none, and the route is refused. */
  slotSavePath: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--slot-save-path'], value: 'folder',
      help: 'Folder where POST /slots/0?action=save keeps what was computed of a conversation',
    },
  },
  /**
   * How many days responses of `/v1/responses` are kept on the disk, so that a later request can go
   * on from them; 0 keeps none. Default 30.
   */
  responseDays: {
    kind: 'integer', fallback: 30, min: 0, max: 36_500, library: true,
    flag: {
      names: ['--response-days'], value: 'days',
      help: 'How long responses of /v1/responses are kept on the disk, for previous_response_id; '
        + '0 keeps none',
    },
  },
  /**
   * An empty chunk after so much silence on an event stream, so that clients keep it open; 0 is
   * off. Default 10,000.
   */
  pingIntervalMs: {
    kind: 'integer', fallback: 10 * secondMs, min: 0, max: maxCount, library: true,
    flag: {
      names: ['--ping-interval'], value: 'seconds', key: 'pingSeconds', unit: secondMs, max: 86_400,
      help: 'Empty chunk on a stream silent for so long, so that clients keep it open; 0 is off',
    },
  },
  /** The page for people at `/`. Default `false`: what is at `/` is the program's own business. */
  ui: {
    kind: 'switch', fallback: true, library: true,
    flag: { names: ['--no-ui'], help: 'Serve no page at /, only the API' },
  },
  /** The chats that `recua chat` saves, in the page. */
  uiSessions: {
    kind: 'switch', fallback: false,
    flag: {
      names: ['--ui-sessions'],
      help: 'Show the chats that recua chat saved on the page, and save there; to clients on this '
        + 'machine, or with an admin key',
    },
  },
  /** A file with the models to serve. */
  models: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--models'], value: 'file', inline: true,
      help: 'JSON file with the models to serve and the settings of each; with operands, those of '
        + 'these models. As an object in the config file it gives models their settings, and '
        + 'without operands the rest of the store is served, too',
    },
  },
  ...poolSettings,
  logLevel: {
    kind: 'choice', fallback: 'info', choices: ['debug', 'info', 'warn', 'error', 'silent'],
    flag: { names: ['--log-level'], help: 'How much to tell' },
  },
  /** Lines for people, or JSON with fields for programs that collect logs. */
  logFormat: {
    kind: 'choice', fallback: 'text', choices: ['text', 'json'],
    flag: { names: ['--log-format'], help: 'Log lines as text, or as JSON objects with what is known of each request' },
  },
  logFile: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--log-file'], value: 'file',
      help: 'Log to this file instead of stderr; it is kept in up to 5 pieces of 10 MiB',
    },
  },
  /**
   * Where OpenTelemetry's spans go; without it where `OTEL_EXPORTER_OTLP_ENDPOINT` says.
   */
  traces: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--traces'], value: 'url',
      help: 'Send a trace of each request to this collector, by OTLP over HTTP, such as '
        + 'http://127.0.0.1:4318; needs OpenTelemetry\'s SDK, see docs/watching.md',
    },
  },
} as const satisfies Settings;

/** What a program gives that mounts the HTTP API: the options of createServer(). */
export const appSettings = Object.fromEntries(
  Object.entries<Setting>(serverSettings).filter(([, { library }]) => library),
) as unknown as Pick<typeof serverSettings, KeysWith<typeof serverSettings, { library: true }>>;
