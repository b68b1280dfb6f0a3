// Every error a user of Recua can meet: its code, HTTP status, wire type and what it means.
// The floor of the house: imported by every layer and by both processes, imports nothing.
// docs/errors.md is checked against this table by test/errors.test.ts.

/** The `type` of an error body, as OpenAI's and llama-server's clients know it. */
export type ErrorType =
  | 'invalid_request_error'
  | 'not_found_error'
  | 'unavailable_error'
  | 'server_error';

interface ErrorRow {
  /** HTTP status the API answers with. */
  readonly status: number;
  readonly type: ErrorType;
  /** What happened, in one sentence for docs/errors.md. */
  readonly meaning: string;
}

/** The whole table. A code is lower_snake, as OpenAI writes them. */
export const errorTable = {
  invalid_json: { status: 400, type: 'invalid_request_error', meaning: 'The request body is not valid JSON.' },
  invalid_type: { status: 400, type: 'invalid_request_error', meaning: 'A field has the wrong type, or a required one is missing.' },
  invalid_value: { status: 400, type: 'invalid_request_error', meaning: 'A field has a value outside its range or list.' },
  unsupported_parameter: { status: 400, type: 'invalid_request_error', meaning: 'A field that would change the answer is known but not supported.' },
  unknown_parameter: { status: 400, type: 'invalid_request_error', meaning: 'A field is no field of this request, and its name is nearly that of one; the message says which.' },
  unsupported_content: { status: 400, type: 'invalid_request_error', meaning: 'A message holds a content part (image, audio, …) this model cannot read.' },
  invalid_grammar: { status: 400, type: 'invalid_request_error', meaning: 'A GBNF grammar does not compile, or a regular expression or Lark grammar cannot be followed; the message says where.' },
  no_token_left: { status: 400, type: 'invalid_request_error', meaning: 'Nothing could come next in an answer: `logit_bias` or `ignore_eos` excludes all that is left, by a grammar or without one; the message says which.' },
  invalid_schema: { status: 400, type: 'invalid_request_error', meaning: 'The JSON schema cannot be turned into a grammar.' },
  invalid_messages: { status: 400, type: 'invalid_request_error', meaning: "The model's chat template refuses these messages." },
  context_length_exceeded: { status: 400, type: 'invalid_request_error', meaning: 'The prompt has more tokens than the context holds.' },
  embeddings_unsupported: { status: 400, type: 'invalid_request_error', meaning: 'The model cannot give pooled embedding vectors.' },
  rerank_unsupported: { status: 400, type: 'invalid_request_error', meaning: 'The model is no reranker: it cannot score documents for a query.' },
  infill_unsupported: { status: 400, type: 'invalid_request_error', meaning: 'The model has no tokens for filling a gap between a prefix and a suffix.' },
  chat_unsupported: { status: 400, type: 'invalid_request_error', meaning: 'The model has no chat template or cannot generate text.' },
  model_not_found: { status: 404, type: 'invalid_request_error', meaning: 'No model of that name is served, or no such file exists.' },
  response_not_found: { status: 404, type: 'invalid_request_error', meaning: 'No response of that id is stored: it never was, was deleted, or gave way to newer ones.' },
  answer_not_found: { status: 404, type: 'invalid_request_error', meaning: 'No answer of that id is being written.' },
  file_not_found: { status: 404, type: 'invalid_request_error', meaning: 'No file of that id was uploaded, or it was deleted or has expired.' },
  batch_not_found: { status: 404, type: 'invalid_request_error', meaning: 'No batch of that id was created here.' },
  invalid_api_key: { status: 401, type: 'invalid_request_error', meaning: 'The server asks for an API key (`--api-key`), and the request has none that it knows.' },
  client_refused: { status: 403, type: 'invalid_request_error', meaning: "What was asked for is for programs, for those on the server's own machine, or for another API key; the message says which." },
  route_not_found: { status: 404, type: 'not_found_error', meaning: 'No such path in this API.' },
  method_not_allowed: { status: 405, type: 'invalid_request_error', meaning: 'The path exists, the method does not; `Allow` lists those that do.' },
  upgrade_required: { status: 426, type: 'invalid_request_error', meaning: 'No connection can become a WebSocket here now; the same is there by plain requests.' },
  body_too_large: { status: 413, type: 'invalid_request_error', meaning: 'The request body is over the limit.' },
  unsupported_media_type: { status: 415, type: 'invalid_request_error', meaning: 'The body is not JSON in UTF-8, or its encoding is unknown.' },
  request_timeout: { status: 408, type: 'invalid_request_error', meaning: 'The request did not arrive whole in time.' },
  headers_too_large: { status: 431, type: 'invalid_request_error', meaning: 'The request headers are over the limit.' },
  invalid_http: { status: 400, type: 'invalid_request_error', meaning: 'The bytes received are not an HTTP/1.1 request.' },
  rate_limit_exceeded: { status: 429, type: 'unavailable_error', meaning: 'The API key has asked for as much as it may: requests in a minute or at once, or tokens in a day; `Retry-After` says when to come again.' },
  queue_timeout: { status: 429, type: 'unavailable_error', meaning: 'The request waited for others as long as it may (`--queue-timeout`); `Retry-After` says when to come again.' },
  queue_full: { status: 429, type: 'unavailable_error', meaning: 'Too many requests are waiting; `Retry-After` says when to come again.' },
  body_memory_full: { status: 503, type: 'unavailable_error', meaning: 'The bodies of other requests take all the memory for them; `Retry-After` says when to come again.' },
  cancelled: { status: 499, type: 'invalid_request_error', meaning: 'The client went away or aborted before the answer was complete.' },
  model_loading: { status: 503, type: 'unavailable_error', meaning: 'The model is still loading; `Retry-After` says when to come again.' },
  shutting_down: { status: 503, type: 'unavailable_error', meaning: 'The server is stopping and takes no new work.' },
  not_implemented: { status: 501, type: 'server_error', meaning: "The route is one of llama-server's, and what it asks for cannot be done here; the message says what can." },
  model_crashed: { status: 500, type: 'server_error', meaning: 'The engine process died while it worked on this request, which could not go on in the next one, or kills it; it is being restarted.' },
  request_set_aside: { status: 422, type: 'invalid_request_error', meaning: 'The engine process died twice while it worked on a request like this one: it is refused for some minutes.' },
  model_stuck: { status: 500, type: 'server_error', meaning: 'The engine process made no progress while it worked on this request, and was ended; it is being restarted.' },
  model_too_large: { status: 507, type: 'server_error', meaning: 'The model needs more memory than the server may use for models, or than other programs leave; the message has what it needs and what there is.' },
  model_fixed: { status: 400, type: 'invalid_request_error', meaning: 'This server has one model, which is neither loaded nor unloaded by requests.' },
  sandbox_unavailable: { status: 500, type: 'server_error', meaning: 'The engine process was to run in a sandbox (`--sandbox on`), and this system has none.' },
  model_unusable: { status: 500, type: 'server_error', meaning: 'The model file was read but cannot be loaded (damaged, unknown architecture, out of memory).' },
  invalid_gguf: { status: 400, type: 'invalid_request_error', meaning: 'The file is not a sound GGUF file.' },
  generation_failed: { status: 500, type: 'server_error', meaning: 'A decode or sampling step failed inside the engine.' },
  answer_incomplete: { status: 500, type: 'server_error', meaning: 'The answer to a request of the library was cut off before its JSON ended; `details.content` has what there is.' },
  answer_invalid: { status: 500, type: 'server_error', meaning: "The answer to a request of the library is JSON, but the schema's own check refuses it." },
  addon_missing: { status: 500, type: 'server_error', meaning: 'The native addon is not built or cannot be loaded on this machine.' },
  backend_unusable: { status: 500, type: 'server_error', meaning: 'The library of a backend cannot be used on this machine, or does not compute what it should there.' },
  device_not_found: { status: 400, type: 'invalid_request_error', meaning: 'There is no device of that name to compute on; the message lists those there are.' },
  gpu_unavailable: { status: 500, type: 'server_error', meaning: 'A GPU was required and none can be used; the message says why.' },
  closed: { status: 500, type: 'server_error', meaning: 'A model, context or sampler was used after it was closed or disposed of.' },
  invalid_argument: { status: 500, type: 'server_error', meaning: 'A native call got an argument it cannot take (a defect of Recua).' },
  invalid_usage: { status: 400, type: 'invalid_request_error', meaning: 'The command line has an unknown command or flag, or a flag lacks its value.' },
  invalid_config: { status: 400, type: 'invalid_request_error', meaning: 'The config file or a `RECUA_*` variable holds a setting that cannot be read.' },
  file_unreadable: { status: 400, type: 'invalid_request_error', meaning: 'A file named on the command line cannot be read.' },
  ambiguous_model: { status: 400, type: 'invalid_request_error', meaning: "A model's name fits several models of the store; the message lists them." },
  invalid_name: { status: 400, type: 'invalid_request_error', meaning: 'A name for a repository, file or alias cannot be used in the model store.' },
  alias_taken: { status: 400, type: 'invalid_request_error', meaning: 'An alias names another model already.' },
  disk_full: { status: 507, type: 'server_error', meaning: 'The disk has no room for the file.' },
  store_unwritable: { status: 500, type: 'server_error', meaning: 'The model store cannot be written or cleaned up.' },
  hub_unreachable: { status: 502, type: 'unavailable_error', meaning: 'The model hub, its download host or a proxy cannot be reached.' },
  hub_offline: { status: 503, type: 'unavailable_error', meaning: "The environment's `HF_HUB_OFFLINE` forbids requests to the model hub." },
  hub_broken: { status: 502, type: 'unavailable_error', meaning: 'The model hub answers with an error of its own or with what it should not.' },
  hub_rate_limited: { status: 429, type: 'unavailable_error', meaning: 'The model hub wants fewer requests; the message says when to come again.' },
  hub_token_missing: { status: 401, type: 'invalid_request_error', meaning: 'The repository needs an access token and none is set.' },
  hub_token_refused: { status: 401, type: 'invalid_request_error', meaning: 'The model hub does not accept the access token.' },
  license_not_accepted: { status: 403, type: 'invalid_request_error', meaning: "The account of the access token has not accepted the repository's license; the message has the page." },
  repository_not_found: { status: 404, type: 'invalid_request_error', meaning: 'The model hub has no repository of that name, or shows it to its members only.' },
  revision_not_found: { status: 404, type: 'invalid_request_error', meaning: 'The repository has no such branch, tag or commit.' },
  repository_file_not_found: { status: 404, type: 'invalid_request_error', meaning: 'The repository has no such file or quantization.' },
  download_failed: { status: 502, type: 'server_error', meaning: 'A download kept failing; what arrived is kept for the next try.' },
  download_wrong_content: { status: 502, type: 'server_error', meaning: 'The download host sent something else than the file, for example a login page.' },
  download_changed: { status: 502, type: 'server_error', meaning: 'The file changed on the hub during its download.' },
  download_corrupt: { status: 502, type: 'server_error', meaning: 'The downloaded bytes do not have the hash that the hub states.' },
  download_removed: { status: 409, type: 'invalid_request_error', meaning: 'The model was removed by `recua rm` during its download.' },
  balancer_refused: { status: 500, type: 'server_error', meaning: 'HAProxy or nginx does not take the configuration that `recua cluster config` made; the message has what it says.' },
  invalid_session: { status: 400, type: 'invalid_request_error', meaning: 'The file of a saved chat is damaged, or of a newer Recua.' },
  session_not_found: { status: 404, type: 'not_found_error', meaning: 'No chat of that name is saved.' },
  session_changed: { status: 412, type: 'invalid_request_error', meaning: 'The saved chat is another than the one that was read; read it again.' },
  session_locked: { status: 409, type: 'invalid_request_error', meaning: 'The saved chat is open in another process.' },
  address_unavailable: { status: 500, type: 'server_error', meaning: 'The wanted host and port are none that this machine can listen on.' },
  port_in_use: { status: 500, type: 'server_error', meaning: 'Another program listens on the wanted host and port.' },
  server_running: { status: 500, type: 'server_error', meaning: 'The managed server runs already, with another model or at another address.' },
  server_failed: { status: 500, type: 'server_error', meaning: 'The managed server did not start, or did not stop in time.' },
  server_unreachable: { status: 502, type: 'unavailable_error', meaning: 'No server runs that a command could ask, or the one that it asks does not answer as Recua.' },
  internal_error: { status: 500, type: 'server_error', meaning: 'A defect of Recua; the log has the details.' },
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
 * The one error class: what was expected, what came, what to do, with a code from the table. `code`
 * is the word to program against, the message may change.
 */
export class RecuaError extends Error {
  override readonly name = 'RecuaError';
  /** What happened; docs/errors.md has the meanings. */
  readonly code: ErrorCode;
  /** HTTP status the API answers with. */
  readonly status: number;
  /** The type that the API's error body names. */
  readonly type: ErrorType;
  /** The option or field at fault, e.g. `messages[0].role`. */
  readonly param: string | undefined;
  /** What a program may want to compute with, e.g. `n_prompt_tokens` and `n_ctx`. */
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
   * Any thrown value as a RecuaError: native errors carry a code of the table, a full disk is
   * `disk_full`; all else is `internal_error`.
   * @internal
   */
  static from(thrown: unknown): RecuaError {
    if (thrown instanceof RecuaError) return thrown;
    const { code, path } = (thrown ?? {}) as { code?: unknown; path?: unknown };
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    // Whoever writes a file may find the disk full; that is nobody's defect.
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      return new RecuaError('disk_full', `There is no room left on the disk${typeof path === 'string' ? ` for ${path}` : ''}. Free some space and try again.`, { cause: thrown });
    }
    if (typeof code === 'string' && Object.hasOwn(errorTable, code)) {
      return new RecuaError(code as ErrorCode, message, { cause: thrown });
    }
    return new RecuaError('internal_error', message, { cause: thrown });
  }
}

export interface PlainError {
  code: ErrorCode;
  message: string;
  param?: string | undefined;
  details?: Record<string, number | string> | undefined;
}
