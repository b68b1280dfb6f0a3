// Every error that users of Recua can get: its code, HTTP status, wire type and meaning. Every
// layer and both processes import this file; it imports nothing. test/errors.test.ts compares
// docs/errors.md with this table.

/** The `type` of an error body, as OpenAI's and llama-server's clients know it. */
export type ErrorType =
  | 'invalid_request_error'
  | 'not_found_error'
  | 'unavailable_error'
  | 'server_error';

interface ErrorRow {
  /** HTTP status of the reply. */
  readonly status: number;
  readonly type: ErrorType;
  /** What happened, in one sentence for docs/errors.md. */
  readonly meaning: string;
}

/** Codes are lower_snake, as OpenAI writes them. */
export const errorTable = {
  invalid_json: { status: 400, type: 'invalid_request_error', meaning: 'The request body is not valid JSON.' },
  invalid_type: { status: 400, type: 'invalid_request_error', meaning: 'A field has the wrong type, or a required one is missing. A server without a default model requires `model`.' },
  invalid_value: { status: 400, type: 'invalid_request_error', meaning: 'A field has a value outside its range or list.' },
  unsupported_parameter: { status: 400, type: 'invalid_request_error', meaning: 'A field that would change the answer is known but not supported.' },
  unknown_parameter: { status: 400, type: 'invalid_request_error', meaning: 'A field does not exist in this request, and its name is close to one that does; the message says which.' },
  unsupported_content: { status: 400, type: 'invalid_request_error', meaning: 'A message has a content part other than text (image, audio, …), which Recua cannot read.' },
  invalid_grammar: { status: 400, type: 'invalid_request_error', meaning: 'A GBNF grammar does not compile, or a regular expression or Lark grammar is not supported; the message says where.' },
  no_token_left: { status: 400, type: 'invalid_request_error', meaning: 'The answer cannot go on: `logit_bias` or `ignore_eos` excludes every token that could come next, with or without a grammar; the message says which.' },
  invalid_schema: { status: 400, type: 'invalid_request_error', meaning: 'The JSON schema cannot be turned into a grammar, or the chat template cannot print a tool with it.' },
  invalid_messages: { status: 400, type: 'invalid_request_error', meaning: "The model's chat template refuses these messages." },
  context_length_exceeded: { status: 400, type: 'invalid_request_error', meaning: 'The prompt leaves no room for an answer: it has as many tokens as the context, or more.' },
  embeddings_unsupported: { status: 400, type: 'invalid_request_error', meaning: 'The model cannot give pooled embedding vectors.' },
  rerank_unsupported: { status: 400, type: 'invalid_request_error', meaning: 'The model is not a reranker: it cannot score documents for a query.' },
  infill_unsupported: { status: 400, type: 'invalid_request_error', meaning: 'The model has no tokens for filling the gap between a prefix and a suffix.' },
  chat_unsupported: { status: 400, type: 'invalid_request_error', meaning: 'The model has no chat template or cannot generate text.' },
  model_not_found: { status: 404, type: 'invalid_request_error', meaning: 'The server has no model of that name, or no such file exists.' },
  response_not_found: { status: 404, type: 'invalid_request_error', meaning: 'No response with that id is stored: it was never stored, was deleted, or was dropped to make room for newer ones. Over a WebSocket the code for `previous_response_id` is `previous_response_not_found`, as clients expect.' },
  answer_not_found: { status: 404, type: 'invalid_request_error', meaning: 'No answer with that id is being generated.' },
  file_not_found: { status: 404, type: 'invalid_request_error', meaning: 'No file with that id was uploaded, or it was deleted, has expired or is damaged; or no slot file of that name was saved.' },
  batch_not_found: { status: 404, type: 'invalid_request_error', meaning: 'No batch with that id was created here.' },
  invalid_api_key: { status: 401, type: 'invalid_request_error', meaning: 'The server requires an API key (`--api-key`), and the request has no valid one.' },
  client_refused: { status: 403, type: 'invalid_request_error', meaning: "The route or model is not open to this client: some are only for programs, for clients on the server's own machine, or for other API keys; the message says which." },
  route_not_found: { status: 404, type: 'not_found_error', meaning: 'The API has no such path.' },
  method_not_allowed: { status: 405, type: 'invalid_request_error', meaning: 'The path exists, but not with this method; `Allow` lists the methods that it has.' },
  upgrade_required: { status: 426, type: 'invalid_request_error', meaning: 'No WebSocket can be opened here now; send the same request with POST.' },
  body_too_large: { status: 413, type: 'invalid_request_error', meaning: 'The request body is larger than the limit.' },
  unsupported_media_type: { status: 415, type: 'invalid_request_error', meaning: 'The body is not JSON in UTF-8, or its encoding is unknown.' },
  request_timeout: { status: 408, type: 'invalid_request_error', meaning: 'The request did not arrive completely in time.' },
  headers_too_large: { status: 431, type: 'invalid_request_error', meaning: 'The request headers are larger than the limit.' },
  invalid_http: { status: 400, type: 'invalid_request_error', meaning: 'The bytes received are not an HTTP/1.1 request.' },
  rate_limit_exceeded: { status: 429, type: 'unavailable_error', meaning: 'The API key has reached its limit: requests in a minute or at once, or tokens in a day; `Retry-After` says when to retry.' },
  queue_timeout: { status: 429, type: 'unavailable_error', meaning: 'The request waited in the queue longer than `--queue-timeout`; `Retry-After` says when to retry.' },
  queue_full: { status: 429, type: 'unavailable_error', meaning: 'Too many requests are waiting; `Retry-After` says when to retry.' },
  body_memory_full: { status: 503, type: 'unavailable_error', meaning: 'The bodies of other requests, or replies that clients have not read, use all the memory reserved for them, or the part of it that one client may have; `Retry-After` says when to retry.' },
  cancelled: { status: 499, type: 'invalid_request_error', meaning: 'The client disconnected or aborted before the answer was complete.' },
  model_loading: { status: 503, type: 'unavailable_error', meaning: 'The model is still loading; `Retry-After` says when to retry.' },
  shutting_down: { status: 503, type: 'unavailable_error', meaning: 'The server is stopping and accepts no new work.' },
  not_implemented: { status: 501, type: 'server_error', meaning: "The route is one of llama-server's, but this server cannot do what the request asks; the message says what it can do." },
  model_crashed: { status: 500, type: 'server_error', meaning: 'The engine process died while it worked on this request. Either the request cannot be resumed in the next process, or it caused the crash. The engine is being restarted.' },
  request_set_aside: { status: 422, type: 'invalid_request_error', meaning: 'This request has killed the engine process before, so it is refused for ten minutes.' },
  model_stuck: { status: 500, type: 'server_error', meaning: 'The engine process made no progress while it worked on this request, so it was killed; it is being restarted.' },
  model_too_large: { status: 507, type: 'server_error', meaning: 'The model needs more memory than the server may use for models, or than other programs leave free; the message says how much it needs and how much there is.' },
  model_fixed: { status: 400, type: 'invalid_request_error', meaning: 'The models of this server are fixed. A single-model server (started with one model, which stays loaded) does not unload it. A program\'s own server does not pull, copy or delete models. A name that only the server has, not the store (from its command line, models file or config file), cannot be copied or deleted.' },
  sandbox_unavailable: { status: 500, type: 'server_error', meaning: 'The engine process must run in a sandbox (`--sandbox on`), but this system has none.' },
  model_unusable: { status: 500, type: 'server_error', meaning: 'The model file was read but cannot be loaded (damaged, unknown architecture, out of memory), the chat template that replaces its own does not compile, or another version of Recua was installed while this one runs.' },
  invalid_gguf: { status: 400, type: 'invalid_request_error', meaning: 'The file is not a valid GGUF file.' },
  generation_failed: { status: 500, type: 'server_error', meaning: 'A decode or sampling step failed inside the engine.' },
  answer_incomplete: { status: 500, type: 'server_error', meaning: 'A library call got an answer that was cut off before its JSON ended; `details.content` has the text so far.' },
  answer_invalid: { status: 500, type: 'server_error', meaning: "A library call got an answer that is JSON, but the schema's own check rejects it." },
  addon_missing: { status: 500, type: 'server_error', meaning: 'The native addon is not built or cannot be loaded on this machine.' },
  backend_unusable: { status: 500, type: 'server_error', meaning: 'The library of a backend does not work on this machine, or computes wrong results there.' },
  device_not_found: { status: 400, type: 'invalid_request_error', meaning: 'No compute device has that name; the message lists the devices.' },
  gpu_unavailable: { status: 500, type: 'server_error', meaning: 'A GPU is required, but none can be used; the message says why.' },
  closed: { status: 500, type: 'server_error', meaning: 'A model, context or sampler was used after it was closed or disposed of.' },
  invalid_argument: { status: 500, type: 'server_error', meaning: 'A native call got an argument that it does not accept (a bug in Recua).' },
  invalid_usage: { status: 400, type: 'invalid_request_error', meaning: 'The command line has an unknown command or flag, or a flag lacks its value; or a request gives a saved chat a name that is taken or impossible, or would delete `builtin`.' },
  invalid_config: { status: 400, type: 'invalid_request_error', meaning: 'The config file, the file of `--models` or a `RECUA_*` variable has a setting that cannot be read.' },
  too_many_open_files: { status: 503, type: 'unavailable_error', meaning: 'A file cannot be opened because the process or the system has too many files and connections open; `Retry-After` says when to retry.' },
  file_unreadable: { status: 400, type: 'invalid_request_error', meaning: 'A file cannot be read: one named on the command line, one of the model store, or a saved state.' },
  ambiguous_model: { status: 400, type: 'invalid_request_error', meaning: 'The name matches several models in the store; the message lists them.' },
  invalid_name: { status: 400, type: 'invalid_request_error', meaning: 'The model store cannot use this name for a repository, file or alias.' },
  alias_taken: { status: 400, type: 'invalid_request_error', meaning: 'The alias already names another model.' },
  disk_full: { status: 507, type: 'server_error', meaning: 'The disk has no room for the file.' },
  store_unwritable: { status: 500, type: 'server_error', meaning: 'The model store, or what the server stores for its clients, cannot be read, written or cleaned up.' },
  hub_unreachable: { status: 502, type: 'unavailable_error', meaning: 'The model hub, its download host or a proxy cannot be reached.' },
  hub_offline: { status: 503, type: 'unavailable_error', meaning: 'The environment variable `HF_HUB_OFFLINE` forbids requests to the model hub.' },
  hub_broken: { status: 502, type: 'unavailable_error', meaning: 'The model hub answered with an error of its own, or with something unexpected.' },
  hub_rate_limited: { status: 429, type: 'unavailable_error', meaning: 'The model hub limits requests; the message says when to retry.' },
  hub_token_missing: { status: 401, type: 'invalid_request_error', meaning: 'The repository requires an access token, and none is set.' },
  hub_token_refused: { status: 401, type: 'invalid_request_error', meaning: 'The model hub does not accept the access token.' },
  license_not_accepted: { status: 403, type: 'invalid_request_error', meaning: "The access token's account has not accepted the repository's license; the message links to the page." },
  repository_not_found: { status: 404, type: 'invalid_request_error', meaning: 'The model hub has no repository of that name, or shows it only to its members.' },
  revision_not_found: { status: 404, type: 'invalid_request_error', meaning: 'The repository has no such branch, tag or commit.' },
  repository_file_not_found: { status: 404, type: 'invalid_request_error', meaning: 'The repository has no such file or quantization.' },
  download_failed: { status: 502, type: 'server_error', meaning: 'A download failed repeatedly; the part that arrived is kept for the next try.' },
  download_wrong_content: { status: 502, type: 'server_error', meaning: 'The download host sent something other than the file, for example a login page.' },
  download_changed: { status: 502, type: 'server_error', meaning: 'The file changed on the hub during its download.' },
  download_corrupt: { status: 502, type: 'server_error', meaning: 'The downloaded bytes do not match the hash that the hub states.' },
  download_removed: { status: 409, type: 'invalid_request_error', meaning: 'The model was removed during its download, as by `recua rm`.' },
  balancer_refused: { status: 500, type: 'server_error', meaning: 'HAProxy or nginx rejects the configuration that `recua cluster config` made; the message quotes it.' },
  invalid_session: { status: 400, type: 'invalid_request_error', meaning: 'The file of a saved chat is damaged, or was written by a newer Recua.' },
  session_not_found: { status: 404, type: 'not_found_error', meaning: 'No saved chat has that name.' },
  session_changed: { status: 412, type: 'invalid_request_error', meaning: 'The saved chat has changed since it was read; read it again.' },
  session_locked: { status: 409, type: 'invalid_request_error', meaning: 'The saved chat is open in another process.' },
  address_unavailable: { status: 500, type: 'server_error', meaning: 'This machine cannot listen on the requested host and port.' },
  port_in_use: { status: 500, type: 'server_error', meaning: 'Another program is listening on the requested host and port.' },
  server_running: { status: 500, type: 'server_error', meaning: 'The background server (`recua serve`) is already running, with another model or at another address.' },
  server_failed: { status: 500, type: 'server_error', meaning: 'The background server (`recua serve`) did not start, or did not stop in time.' },
  server_unreachable: { status: 502, type: 'unavailable_error', meaning: 'No server is running for this command, or the one that it asked does not answer like Recua.' },
  internal_error: { status: 500, type: 'server_error', meaning: 'A bug in Recua; the log has the details.' },
} as const satisfies Record<string, ErrorRow>;

/** The codes of all errors. */
export type ErrorCode = keyof typeof errorTable;

export interface ErrorOptions {
  /** The request field at fault, e.g. `messages[0].role`. */
  param?: string | undefined;
  cause?: unknown;
  /** Extra numbers for the wire body, e.g. `{ n_prompt_tokens, n_ctx }`. */
  details?: Record<string, number | string> | undefined;
}

/**
 * The only error class. Its message says what was expected, what came and what to do, and may
 * change; program against `code`.
 */
export class RecuaError extends Error {
  override readonly name = 'RecuaError';
  /** What happened; docs/errors.md has the meanings. */
  readonly code: ErrorCode;
  /** HTTP status of the reply. */
  readonly status: number;
  /** The type that the API's error body names. */
  readonly type: ErrorType;
  /** The option or field at fault, e.g. `messages[0].role`. */
  readonly param: string | undefined;
  /** Numbers and texts for programs, e.g. `n_prompt_tokens` and `n_ctx`. */
  readonly details: Record<string, number | string> | undefined;

  /** @internal */
  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = errorTable[code].status;
    this.type = errorTable[code].type;
    this.param = options.param;
    this.details = options.details;
  }

  /**
   * The form that crosses the process boundary.
   * @internal
   */
  toPlain(): PlainError {
    return { code: this.code, message: this.message, param: this.param, details: this.details };
  }

  /** @internal */
  static fromPlain(plain: PlainError): RecuaError {
    return new RecuaError(plain.code, plain.message, { param: plain.param, details: plain.details });
  }

  /**
   * The text for a log: with the message of the cause, which may have paths that clients do not
   * get.
   * @internal
   */
  static logText(thrown: unknown): string {
    const { message, cause } = RecuaError.from(thrown);
    return cause instanceof Error && !message.includes(cause.message) ? `${message} (${cause.message})` : message;
  }

  /**
   * Turns any thrown value into a RecuaError. Native errors have a code of the table, a full disk
   * is `disk_full`, a lack of open files `too_many_open_files`, a lost current folder
   * `file_unreadable`, and everything else `internal_error`.
   * @internal
   */
  static from(thrown: unknown): RecuaError {
    if (thrown instanceof RecuaError) return thrown;
    const { code, path, syscall } = (thrown ?? {}) as { code?: unknown; path?: unknown; syscall?: unknown };
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    // A full disk is no bug.
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      return new RecuaError('disk_full', `There is no room left on the disk${typeof path === 'string' ? ` for ${path}` : ''}. Free some space and try again.`, { cause: thrown });
    }
    if (isShortOfFiles(code)) return new RecuaError('too_many_open_files', 'Too many files and connections are open; try again in a moment.', { cause: thrown });
    if (syscall === 'uv_cwd') return new RecuaError('file_unreadable', 'The current folder is gone or cannot be read. Change to another one and try again.', { cause: thrown });
    if (typeof code === 'string' && Object.hasOwn(errorTable, code)) {
      return new RecuaError(code as ErrorCode, message, { cause: thrown });
    }
    if (message === 'std::bad_alloc') return new RecuaError('internal_error', 'The machine, or a limit of the process, had too little memory for this.', { cause: thrown });
    return new RecuaError('internal_error', message, { cause: thrown });
  }
}

/**
 * The error for a file or folder that cannot be read. `what` begins the message: "x.gguf cannot be
 * opened". A system that is short of open files says nothing about the file.
 */
export function unreadable(what: string, cause: unknown): RecuaError {
  const { code, message } = cause as NodeJS.ErrnoException;
  return new RecuaError(isShortOfFiles(code) ? 'too_many_open_files' : 'file_unreadable', `${what}: ${message}`, { cause });
}

function isShortOfFiles(code: unknown): boolean {
  return code === 'EMFILE' || code === 'ENFILE';
}

export interface PlainError {
  code: ErrorCode;
  message: string;
  param?: string | undefined;
  details?: Record<string, number | string> | undefined;
}
